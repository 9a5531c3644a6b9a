/* SPDX-License-Identifier: BSD-3-Clause */
/* Validated request of the control socket. Callers' input is hostile. */
#ifndef CONTROL_CTL_REQUEST_H
#define CONTROL_CTL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define CTL_REQUEST_MAX 4096u
#define CTL_WORD_MAX 64u
#define CTL_PATH_MAX 1024u

enum ctl_rights { CTL_NOTHING, CTL_LOOK, CTL_CHANGE };

enum ctl_command {
	CTL_SHOW,
	CTL_TRACE,
	CTL_METRICS,
	CTL_RELOAD,
	CTL_PEER_ADD,
	CTL_PEER_REMOVE,
	CTL_CLIENT_KILL,
	CTL_DRAIN,
	CTL_LOG_LEVEL,
	CTL_MOVE,
	CTL_TAKE_OVER,
	CTL_UPGRADE,
	CTL_COMMANDS
};

enum ctl_what {
	CTL_CLIENTS,
	CTL_ENDPOINTS,
	CTL_CONNECTIONS,
	CTL_LISTENERS,
	CTL_SEGMENTS,
	CTL_MEMORY,
	CTL_PORTS,
	CTL_PEERS,
	CTL_NEIGHBOURS,
	CTL_CORES,
	CTL_DROPS,
	CTL_TRANSPORT,
	CTL_QUOTA,
	CTL_IPSEC,
	CTL_VERSION,
	CTL_WHATS
};

/* Members of a request: bits of ctl_request.given. */
enum ctl_member {
	CTL_M_FROM = 1 << 0,
	CTL_M_PID = 1 << 1,
	CTL_M_UID = 1 << 2,
	CTL_M_PORT = 1 << 3,
	CTL_M_PEER = 1 << 4,
	CTL_M_CLIENT = 1 << 5,
	CTL_M_QP = 1 << 6,
	CTL_M_NODE = 1 << 7,
	CTL_M_ADDRESS = 1 << 8,
	CTL_M_PATTERN = 1 << 9,
	CTL_M_LEVEL = 1 << 10,
	CTL_M_CHECK = 1 << 11,
	CTL_M_FORMAT = 1 << 12,
	CTL_M_CORE = 1 << 13,
	CTL_M_BINARY = 1 << 14,
	CTL_M_RELOAD = 1 << 15
};

struct ctl_request {
	enum ctl_command command;
	uint32_t given;
	enum ctl_what what;
	uint64_t from; /* where a list or text continues */
	uint32_t pid, uid, client, qp, node, core;
	bool check;  /* dry run */
	bool reload; /* upgrade only if the file has changed; else reload */
	char port[CTL_WORD_MAX], peer[CTL_WORD_MAX], address[CTL_WORD_MAX], pattern[CTL_WORD_MAX],
		level[CTL_WORD_MAX], format[CTL_WORD_MAX], binary[CTL_PATH_MAX];
};

/* Returns 0, or -EINVAL and a sentence that names member, value and remedy. */
int ctl_parse(const char *text, size_t len, struct ctl_request *request, char *why, size_t why_len);
/* Replaces all but printable ASCII: a caller's text returns to terminals and to the log. */
void ctl_printable(char *text);

extern const struct ctl_name {
	const char *name;
	uint32_t allowed, needed; /* members; for show, those of the list */
	enum ctl_rights needs;
} ctl_commands[CTL_COMMANDS], ctl_whats[CTL_WHATS];

#endif

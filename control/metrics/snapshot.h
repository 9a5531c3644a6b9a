/* SPDX-License-Identifier: BSD-3-Clause */
/* What the control thread knows that metrics tell: a copy, which any thread may then read. */
#ifndef CONTROL_METRICS_SNAPSHOT_H
#define CONTROL_METRICS_SNAPSHOT_H

#include "control/attach/client.h"

struct metrics_client {
	uint32_t number, pid, uid, kind;
	char program[32], port[ONE_PORT_NAME];
	uint64_t requests, copied, mapped, arena, object[OBJECT_KINDS];
};

struct metrics_snapshot {
	uint64_t started; /* seconds of Unix time */
	uint64_t attached_ever, suppressed, path_mtu_reports;
	struct quota quota; /* without its accounts, */
	uint32_t users;
	uint64_t user_bytes; /* of the one that has most */
	struct metrics_client client[CLIENT_LABELS], others, all;
	uint32_t clients; /* with a label */
	struct latency latency[ONE_MSG_MAX];
	struct config_user user[CONFIG_USERS_MAX]; /* that the configuration names */
	uint32_t shares;
	uint32_t ports;
	struct engine_port_info port[CONFIG_PORTS_MAX];
	uint64_t conflicts[CONFIG_PORTS_MAX]; /* of its address with other hosts */
};

/* Control thread.  Takes as long as a turn of clients_poll(), which looks at every attachment as well. */
void metrics_snapshot_take(struct metrics_snapshot *out);

#endif

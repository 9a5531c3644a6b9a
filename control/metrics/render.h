/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy of the control thread's state for metrics, readable by any thread, and its text. */
#ifndef CONTROL_METRICS_RENDER_H
#define CONTROL_METRICS_RENDER_H

#include "control/attach/client.h"
#include "control/metrics/text.h"

struct metrics_client {
	uint32_t number, pid, uid, kind;
	char program[32], port[ONE_PORT_NAME];
	uint64_t requests, copied, mapped, arena, object[OBJECT_KINDS];
};

struct metrics_snapshot {
	uint64_t started; /* Unix time in seconds */
	uint64_t attached_ever, suppressed, path_mtu_reports;
	struct quota quota; /* without its accounts */
	uint32_t users;
	uint64_t user_bytes; /* of the user with the most */
	struct metrics_client client[CLIENT_LABELS], others, all;
	uint32_t clients; /* entries of `client` */
	struct latency latency[ONE_MSG_MAX];
	struct config_user user[CONFIG_USERS_MAX]; /* users named by the configuration */
	uint32_t shares;
	uint32_t ports;
	struct engine_port_info port[CONFIG_PORTS_MAX];
	uint64_t conflicts[CONFIG_PORTS_MAX]; /* other hosts that use the port's address */
};

/* Control thread only. Visits every attachment, and so costs as much as one clients_poll(). */
void metrics_snapshot_take(struct metrics_snapshot *out);

/* Callable on any thread; queries the ports' drivers. */
void metrics_write(struct metrics_text *text, const struct metrics_snapshot *snapshot);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control socket: onesidectl's queries and changes.
 *
 * A packet is one JSON object: a request of at most CTL_REQUEST_MAX bytes; each request gets one answer of at
 * most CTL_ANSWER_MAX bytes. Lists come in pages of bounded length, each made by examining a bounded number
 * of objects. The kernel's credentials of the caller at connect time decide who may look and who may change.
 *
 * The control socket uses at most a tenth of the control thread's time: after a request that took t, nothing
 * is served for 9 t. A caller's next request is read once its last answer has been sent.
 */
#ifndef CONTROL_CTL_CTL_H
#define CONTROL_CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "dataplane/base/state.h"

/* Source of the configuration, for a reload. `config` and `argv` live as long as the process. */
struct ctl_source {
	struct config *config;
	int argc; /* arguments of config_options() */
	char **argv;
	const char *version;
	/* Reports warnings about a configuration, on a thread that may block; may be NULL. */
	void (*examine)(const struct config *config);
	uint64_t started; /* set by ctl_open() */
};

/* Call after opening the attachments' socket. Returns 0, or -errno and a sentence. */
int ctl_open(const struct ctl_source *source, char *why, size_t why_len);
void ctl_close(void);
void ctl_poll(void);
uint64_t ctl_deadline(void);
/* Requests a reload. Callable from any thread or a signal handler. */
void ctl_hangup(void);
/* True while a thread prepares another configuration, or if one with other keys came into force after a
 * take-over began: the new process may have read the configuration before. */
bool ctl_changing(void);
/* In a process that has handed over: a reload was requested that the other process may not have made. */
bool ctl_reload_is_due(void);
/* Draining is complete: no connection is left, and none can begin. */
bool ctl_drained(void);
/* A state_trace_fn; callable on any lcore. */
void ctl_transition(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to,
		    const char *why, bool allowed);

#endif

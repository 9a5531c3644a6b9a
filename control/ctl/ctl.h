/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: what onesidectl asks, and what it changes.
 *
 * A packet is one JSON object: a request of at most CTL_REQUEST_MAX bytes, and for each one answer of at most
 * CTL_ANSWER_MAX.  Lists come in pages, of bounded length and made by looking at a bounded number of objects.
 * Who may look and who may change is decided by what the kernel says of the caller when it connects.
 *
 * All of it together has a tenth of the control thread's time at most: after a request that took t, nothing
 * is served for nine times t.  A caller's next request is read when its last answer has gone.
 */
#ifndef CONTROL_CTL_CTL_H
#define CONTROL_CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "dataplane/state/state.h"

/* How the configuration came about: to be read again by reload.  Both live as long as the process. */
struct ctl_source {
	struct config *config;
	int argc; /* of config_options() */
	char **argv;
	const char *version;
	/* Says what is to be said of a configuration, on a thread that may wait; may be NULL. */
	void (*examine)(const struct config *config);
	uint64_t started; /* set by ctl_open */
};

/* 0, or -errno and a sentence.  After the attachments' socket. */
int ctl_open(const struct ctl_source *source, char *why, size_t why_len);
void ctl_close(void);
void ctl_poll(void);
uint64_t ctl_deadline(void);
/* Any thread, a signal handler: reload. */
void ctl_hangup(void);
struct ctl_request;
/* Control thread: one page of the list `request->what`, as the control socket answers it; the filters are
 * pid, uid and where the page begins. The caller owns the answer; NULL means that memory is short. */
struct json_t *ctl_list(const struct ctl_request *request);
/* No connection is left, and none begins any more. */
bool ctl_drained(void);
/* As state_trace_fn, on any lcore. */
void ctl_edge(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to, const char *why,
	      bool allowed);

#endif

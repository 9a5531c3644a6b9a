/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of control/ctl share. */
#ifndef CONTROL_CTL_INTERNAL_H
#define CONTROL_CTL_INTERNAL_H

#include <sys/socket.h>

#include <jansson.h>

#include "control/ctl/ctl.h"
#include "control/ctl/request.h"
#include "control/loop/loop.h"

#define CTL_ANSWER_MAX 65536u
/* Of the time that a request, or a look at edges, took: for all else, before the next. */
#define CTL_SHARE 9u

/* What a caller that traces wants to see. */
struct ctl_filter {
	uint32_t given; /* CTL_M_QP, CTL_M_CLIENT, CTL_M_PID, or 0: all */
	uint32_t number;
};

struct ctl_caller {
	TAILQ_ENTRY(ctl_caller) link, turn;
	struct watch watch;
	int fd;
	struct ucred cred; /* when it connected */
	enum ctl_rights rights;
	bool in_turn; /* it has something to read, or room for its answer */
	bool gone;    /* to be freed by ctl_poll */
	bool traces;
	struct ctl_filter filter;
	uint64_t lost;         /* edges that it did not take */
	struct ctl_text *text; /* of which it has read a page, and not all; NULL */
	char *answer;          /* not taken yet; NULL */
	uint64_t deadline;     /* for the next request, or for taking the answer */
};
TAILQ_HEAD(ctl_callers, ctl_caller);
extern struct ctl_callers ctl_callers;
extern struct ctl_source ctl_source;

/* ---- server.c: each request is answered once, by one of these ---- */
void ctl_answer(struct ctl_caller *caller, json_t *answer); /* which is given away; NULL: no memory */
void ctl_refuse(struct ctl_caller *caller, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ctl_done(struct ctl_caller *caller, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* To one that traces: at once or never; false: it does not take it. */
bool ctl_push(struct ctl_caller *caller, json_t *packet);
/* The socket's permissions, and the callers' rights, after groups have changed. */
void ctl_permissions(void);

/* ---- show.c ---- */
void ctl_show(struct ctl_caller *caller, const struct ctl_request *request);

/* ---- metrics.c ---- */
void ctl_metrics(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_metrics_forget(struct ctl_caller *caller); /* it reads no further */

/* ---- change.c ---- */
void ctl_client_kill(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_drain(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_log_level(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_log_open(void);
void ctl_log_take_over(void); /* the configuration may have another level */

/* ---- reload.c ---- */
int ctl_reload_open(void);
void ctl_reload_close(void);
void ctl_reload(struct ctl_caller *caller, const struct ctl_request *request); /* and peers */
void ctl_reload_forget(const struct ctl_caller *caller);                       /* it has gone */

/* ---- trace.c ---- */
void ctl_trace_start(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_trace_stop(void); /* one caller less traces */
void ctl_trace_poll(void);
uint64_t ctl_trace_deadline(void);

#endif

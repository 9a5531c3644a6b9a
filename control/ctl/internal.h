/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by the files of control/ctl. */
#ifndef CONTROL_CTL_INTERNAL_H
#define CONTROL_CTL_INTERNAL_H

#include <sys/socket.h>

#include <jansson.h>

#include "control/ctl/ctl.h"
#include "control/ctl/request.h"
#include "control/base/loop.h"
#include "control/attach/client.h"
#include "dataplane/engine/fact_sink.h"

#define CTL_ANSWER_MAX 65536u
/* After a request or poll of transitions that took t, the next waits for CTL_SHARE * t. */
#define CTL_SHARE 9u

/* Filter of a tracing caller. */
struct ctl_filter {
	uint32_t given; /* CTL_M_QP, CTL_M_CLIENT, CTL_M_PID, or 0: all */
	uint32_t number;
};

struct ctl_caller {
	TAILQ_ENTRY(ctl_caller) link, turn;
	struct watch watch;
	int fd;
	struct ucred cred; /* at connect time */
	enum ctl_rights rights;
	bool in_turn; /* queued: has a request to read, or room for its answer */
	bool gone;    /* ctl_poll() frees it */
	bool traces;
	struct ctl_filter filter;
	uint64_t lost;         /* transitions dropped for this caller */
	struct ctl_text *text; /* text partly read; NULL: none */
	char *answer;          /* not sent yet; NULL: none */
	uint64_t deadline;     /* for the next request, or for taking the answer */
};
TAILQ_HEAD(ctl_callers, ctl_caller);
extern struct ctl_callers ctl_callers;
extern struct ctl_source ctl_source;

/* ---- server.c: exactly one of these answers each request ---- */
void ctl_answer(struct ctl_caller *caller, json_t *answer); /* takes ownership; NULL: out of memory */
void ctl_refuse(struct ctl_caller *caller, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ctl_done(struct ctl_caller *caller, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the connection, which is the caller's no more. */
int ctl_give_away(struct ctl_caller *caller);
/* Sends to a tracing caller without blocking; false: dropped. */
bool ctl_push(struct ctl_caller *caller, json_t *packet);
/* Updates the socket's mode and the callers' rights after groups changed. */
void ctl_permissions(void);

/* ---- show.c ---- */
void ctl_show(struct ctl_caller *caller, const struct ctl_request *request);

/* ---- metrics_pages.c ---- */
void ctl_metrics(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_metrics_forget(struct ctl_caller *caller); /* drops the text being read */

/* ---- change.c ---- */
void ctl_client_kill(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_take_over(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_move(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_drain(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_log_level(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_log_open(void);
void ctl_log_take_over(void); /* applies the configuration's level */

/* ---- reload.c ---- */
int ctl_reload_open(void);
void ctl_reload_close(void);
void ctl_reload(struct ctl_caller *caller, const struct ctl_request *request); /* peers, too */
void ctl_reload_forget(const struct ctl_caller *caller);                       /* the caller disconnected */

/* Reloads from now on are due in the process that takes over: it may have read the configuration before. */
void ctl_reload_note_take_over(void);

/* ---- upgrade.c ---- */
int ctl_upgrade_open(void);
void ctl_upgrade_close(void);
void ctl_upgrade(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_upgrade_forget(const struct ctl_caller *caller); /* the caller disconnected */
bool ctl_upgrade_runs(void);

/* ---- trace.c ---- */
void ctl_trace_start(struct ctl_caller *caller, const struct ctl_request *request);
void ctl_trace_stop(void); /* one tracing caller less */
void ctl_trace_poll(void);
uint64_t ctl_trace_deadline(void);

/* ---- list_entries.c: objects of the control thread as named facts ---- */
void show_client(struct fact_sink *sink, const struct client *client);
void show_core(struct fact_sink *sink, uint32_t core);
/* Shows an object of an attachment. */
typedef void show_object(struct fact_sink *sink, const void *object);
show_object show_qp, show_mr, show_segment, show_listener, show_connection;
void show_neighbour(struct fact_sink *sink, uint32_t index); /* an entry in use */
void show_port(struct fact_sink *sink, uint32_t port);
void show_quota(struct fact_sink *sink, const struct quota_account *account);
void show_peer(struct fact_sink *sink, uint32_t number); /* index in the configuration's list */

#endif

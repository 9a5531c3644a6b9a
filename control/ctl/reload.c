/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes the running data plane's configuration: reads it again from its source, or adds or removes a peer.
 * Reading a file or group names may block, so a thread prepares the next configuration; the control thread
 * applies it whole or not at all. One change at a time. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "control/ctl/internal.h"
#include "control/rsm/rsm.h"

#define END_S 2 /* seconds to wait for a reading thread when the process ends */

static struct {
	bool running; /* the thread owns the next fields until it writes done_fd */
	struct ctl_request request;
	struct config next;
	struct esp_change *ipsec; /* keys of `next` */
	int error;
	char why[1024];
	/* Owned by the control thread: */
	struct ctl_caller *caller; /* NULL: disconnected, or SIGHUP asked */
	bool again;                /* SIGHUP arrived meanwhile */
	pthread_t thread;
	int done_fd;
	struct watch done_watch;
} job = {.done_fd = -1};

static int hangup_fd = -1; /* written by a signal handler */
static bool due;           /* a reload was requested since a take-over began */
static bool renewed;       /* one has changed [ipsec] since then: the new process would send in the clear */
static struct watch hangup_watch;

/* ---- the thread ---- */

static int
read_again(void)
{
	enum config_action action;
	int error;

	config_release(&job.next);
	config_defaults(&job.next);
	error = config_options(&job.next, ctl_source.argc, ctl_source.argv, &action, job.why,
			       sizeof(job.why));
	if (error == 0 && ctl_source.examine != NULL)
		ctl_source.examine(&job.next);
	return error;
}

static void *
make_next(void *unused)
{
	(void)unused;
	switch (job.request.command) {
	case CTL_PEER_ADD:
		job.error = config_peer_add(&job.next, job.request.node, job.request.address,
					    (job.request.given & CTL_M_PORT) != 0 ? job.request.port : "",
					    job.why, sizeof(job.why));
		break;
	case CTL_PEER_REMOVE:
		job.error = config_peer_remove(&job.next, job.request.node, job.why, sizeof(job.why));
		break;
	default:
		job.error = read_again();
		break;
	}
	if (job.error == 0)
		job.error = config_validate(&job.next, job.why, sizeof(job.why));
	/* Keys are read last, once the configuration is valid. */
	if (job.error == 0 && job.request.command == CTL_RELOAD)
		job.error = engine_ipsec_prepare(&job.next, job.request.check, &job.ipsec, job.why,
						 sizeof(job.why));
	eventfd_write(job.done_fd, 1); /* the counter cannot overflow */
	return NULL;
}

/* ---- the control thread ---- */

static void
put_in_force(void)
{
	const struct config *config = ctl_source.config;

	control.quota.max_clients = config->max_clients;
	control.quota.max_clients_per_uid = config->max_clients_per_uid;
	control.quota.max_bytes_per_uid = config->max_bytes_per_uid;
	users_put_in_force();
	ctl_permissions();
	ctl_log_take_over();
	rsm_find_peers();
}

/* The key files may have changed while their names did not. */
static void
note_keys(char *changed, size_t len)
{
	size_t used = strlen(changed);

	if (engine_ipsec_renews(job.ipsec))
		snprintf(changed + used, len - used, "%skeys of ipsec", used > 0 ? ", " : "");
}

/* `changed` receives the names of what has changed, or would change. */
static int
take_over(char *changed, size_t len)
{
	struct config *config = ctl_source.config, trial;
	int error;

	/* `log level` may have changed it since the thread received a copy. */
	if (job.request.command != CTL_RELOAD)
		job.next.log_level = config->log_level;
	if (job.request.check) {
		config_copy(&trial, config);
		config = &trial;
	}
	error = config_reload(config, &job.next, changed, len, job.why, sizeof(job.why));
	note_keys(changed, len);
	if (job.request.check) {
		config_release(&trial);
	} else if (error == 0) {
		if (job.ipsec != NULL)
			engine_ipsec_commit(job.ipsec);
		job.ipsec = NULL;
		renewed = renewed || strstr(changed, "ipsec") != NULL;
		put_in_force();
	}
	return error;
}

/* The log puts the text between quotes, and a caller or a file may have written part of it. */
static void
log_refusal(const char *name)
{
	char text[sizeof(job.why)];

	strcpy(text, job.why);
	for (char *c = text; *c != '\0'; c++)
		if (*c == '"' || *c == '\\')
			*c = '\'';
	log_error("event=change_refused command=%s text=\"%s\"\n", name, text);
}

static void
report_result(int error, const char *changed)
{
	const char *name = ctl_commands[job.request.command].name;

	ctl_printable(job.why);
	if (!job.request.check && error != 0)
		log_refusal(name);
	else if (!job.request.check)
		log_notice("event=changed command=%s text=\"%s%s\"\n", name,
			   changed[0] != '\0' ? "changed: " : "nothing has changed", changed);
	if (job.caller == NULL)
		return;
	if (error != 0)
		ctl_refuse(job.caller, "%s", job.why);
	else if (changed[0] == '\0')
		ctl_done(job.caller, "nothing %s", job.request.check ? "would change" : "has changed");
	else
		ctl_done(job.caller, "%s: %s", job.request.check ? "would change" : "changed", changed);
	job.caller = NULL;
}

/* False if no thread can be started. */
static bool
change_start(const struct ctl_request *request, struct ctl_caller *caller)
{
	job.request = *request;
	job.why[0] = '\0';
	config_copy(&job.next, ctl_source.config);
	job.running = pthread_create(&job.thread, NULL, make_next, NULL) == 0;
	job.caller = job.running ? caller : NULL;
	if (!job.running)
		config_release(&job.next);
	return job.running || renewed;
}

static void
start_hangup(void)
{
	job.again = false;
	if (!change_start(&(const struct ctl_request){.command = CTL_RELOAD}, NULL))
		log_error("event=change_refused command=reload text=\"no thread can be started\"\n");
}

static void
done_ready(struct watch *watch, uint32_t events)
{
	char changed[1024] = "";
	eventfd_t value;
	int error;

	if (eventfd_read(job.done_fd, &value) != 0)
		return;
	pthread_join(job.thread, NULL); /* the thread only has to return */
	job.running = false;
	error = job.error != 0 ? job.error : take_over(changed, sizeof(changed));
	engine_ipsec_abandon(job.ipsec);
	job.ipsec = NULL;
	config_release(&job.next);
	report_result(error, changed);
	if (job.again)
		start_hangup();
}

static void
hangup_ready(struct watch *watch, uint32_t events)
{
	eventfd_t value;

	if (eventfd_read(hangup_fd, &value) != 0)
		return;
	due = true;
	if (job.running)
		job.again = true;
	else
		start_hangup();
}

void
ctl_reload(struct ctl_caller *caller, const struct ctl_request *request)
{
	const char *name = ctl_commands[request->command].name;

	due = due || (request->command == CTL_RELOAD && !request->check);
	if (job.running)
		ctl_refuse(caller, "%s: another change is being made; try again", name);
	else if (!change_start(request, caller))
		ctl_refuse(caller, "%s: no thread can be started; try again", name);
}

bool
ctl_changing(void)
{
	return job.running;
}

void
ctl_reload_forget(const struct ctl_caller *caller)
{
	if (job.caller == caller)
		job.caller = NULL;
}

void
ctl_hangup(void)
{
	int saved = errno;

	eventfd_write(hangup_fd, 1);
	errno = saved;
}

void
ctl_reload_note_take_over(void)
{
	due = renewed = false;
}

bool
ctl_reload_is_due(void)
{
	eventfd_t value;

	return eventfd_read(hangup_fd, &value) == 0 || due;
}

int
ctl_reload_open(void)
{
	int error;

	job.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	hangup_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (job.done_fd < 0 || hangup_fd < 0)
		return -errno;
	job.done_watch.ready = done_ready;
	hangup_watch.ready = hangup_ready;
	error = control_watch(job.done_fd, &job.done_watch, EPOLLIN);
	return error != 0 ? error : control_watch(hangup_fd, &hangup_watch, EPOLLIN);
}

void
ctl_reload_close(void)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += END_S;
	/* A stuck thread ends with the process. */
	if (job.running && pthread_timedjoin_np(job.thread, NULL, &end) != 0)
		return;
	job.running = false;
	if (job.done_fd >= 0)
		close(job.done_fd);
	if (hangup_fd >= 0)
		close(hangup_fd);
	job.done_fd = hangup_fd = -1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of the control thread. */
#include "control.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/random.h>
#include <unistd.h>

#include "control/attach/reaper.h"
#include "control/attach/server.h"
#include "control/attach/user.h"
#include "control/ctl/ctl.h"
#include "control/daemon/calls.h"
#include "control/daemon/telemetry.h"
#include "control/daemon/watchdog.h"
#include "control/metrics/metrics.h"
#include "control/rsm/rsm.h"
#include "dataplane/compat/clock.h"

#define EVENTS 64
#define ENGINE_ROUNDS 16 /* of engine_poll in one loop */
#define ENGINE_TURNS 4
#define LOOK_NS 20000ull /* answers come soon: to look for them this long before sleeping */
#define YIELD_LONG_NS 100000ull
#define NO_LOOK_NS (20 * NS_PER_MS)
#define DRAIN_NS (NS_PER_S / 10)
#define FINI_NS (2 * NS_PER_S)  /* for the cores to let go at the end */
#define MAPPINGS_DEFAULT 65530u /* the kernel's */
#define MAPPINGS_OWN 8192u      /* not for registered memory: arenas, threads, devices, heap */
#define MAPPINGS_LEAST 1024u

static bool stop_seen;
static uint64_t look_until;    /* before sleeping, */
static uint64_t no_look_until; /* unless that is too dear */
static unsigned int looks;
static uint32_t engine_turns; /* loops that did not look at applications */
static bool heard;            /* descriptors were looked at in this loop */
static uint64_t drain_at;     /* when to look whether the last connection has ended */
static struct watch stop_watch, engine_watch;

static void
stop_ready(struct watch *watch, uint32_t events)
{
	uint64_t value;

	if (read(control.stop_fd, &value, sizeof(value)) == (ssize_t)sizeof(value))
		stop_seen = true;
}

/* Only wakes: engine_poll is called in every loop.  For edges, so that it need not be read. */
static void
engine_ready(struct watch *watch, uint32_t events)
{
}

static void
on_event(const struct engine_event *event)
{
	if (event->type == ENGINE_EVENT_FAULT) {
		client_kill(event->owner, event->value, "its rings are faulty");
		return;
	}
	qp_engine_event(event->owner, event);
}

/*
 * How many mappings attachments may have together.  At the kernel's limit there is not another one, not even
 * the handler that puts a page under a fault; so some are left for ourselves.
 */
static uint32_t
mappings_for_clients(void)
{
	FILE *maps = fopen("/proc/self/maps", "re"), *max = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long limit = MAPPINGS_DEFAULT, used = 0;

	if (max != NULL && fscanf(max, "%lu", &limit) != 1)
		limit = MAPPINGS_DEFAULT;
	for (int c; maps != NULL && (c = getc(maps)) != EOF;)
		used += c == '\n';
	if (maps != NULL)
		fclose(maps);
	if (max != NULL)
		fclose(max);
	limit = limit > used + MAPPINGS_OWN ? limit - used - MAPPINGS_OWN : MAPPINGS_LEAST;
	if (limit <= MAPPINGS_LEAST)
		log_warning(
			"event=mappings_short used=%lu text=\"applications can register little memory\" remedy=\"raise vm.max_map_count (sysctl)\"\n",
			used);
	/* Each has a guard, and so have the arenas. */
	return limit < ENGINE_GUARDS_MAX - MAPPINGS_OWN ? (uint32_t)limit : ENGINE_GUARDS_MAX - MAPPINGS_OWN;
}

#define CHANNELS_LEAST 16u

/* Three quarters of what is left of this process's memory, before any application has some. */
static uint64_t
own_memory_for_clients(void)
{
	FILE *statm = fopen("/proc/self/statm", "re");
	uint64_t all = config_memory(""), used;
	unsigned long resident = 0;

	if (statm != NULL && fscanf(statm, "%*u %lu", &resident) != 1)
		resident = 0;
	if (statm != NULL)
		fclose(statm);
	used = (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
	return used < all ? (all - used) / 4 * 3 : 0;
}

/* A part of the descriptors there may be. */
static uint32_t
part_of_descriptors(uint32_t part)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / part < CHANNELS_LEAST)
		return CHANNELS_LEAST;
	return limit.rlim_cur / part < TABLE_MAX ? (uint32_t)(limit.rlim_cur / part) : TABLE_MAX;
}

static const struct engine_handlers handlers = {.on_event = on_event, .on_frame = path_frame};

static bool
poll_engine(void)
{
	struct client *faulty;
	bool any = false;

	for (int i = 0; i < ENGINE_ROUNDS && engine_poll(&handlers) != 0; i++)
		any = true;
	while ((faulty = engine_guard_fault()) != NULL)
		client_kill(faulty, ONE_FAULT_MEMORY, "its memory was taken away under a mapping");
	return any;
}

static uint64_t
min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t
next_deadline(void)
{
	static uint64_t (*const deadlines[])(void) = {
		paths_deadline, conns_deadline,        clients_deadline,  hosts_deadline, reapers_deadline,
		ctl_deadline,   engine_links_deadline, watchdog_deadline, work_deadline};
	uint64_t deadline = NEVER;

	if (paths_pending() || turns_waiting(&control.turns))
		return 0;
	for (size_t i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++)
		deadline = min64(deadline, deadlines[i]());
	if (control.draining)
		deadline = min64(deadline, drain_at);
	return deadline;
}

static int
epoll_until(struct epoll_event *events, uint64_t deadline)
{
	struct timespec wait = {0, 0}, *timeout = &wait;
	int n;

	heard = true;

	if (deadline == NEVER) {
		timeout = NULL;
	} else if (deadline > control.now) {
		wait.tv_sec = (time_t)((deadline - control.now) / NS_PER_S);
		wait.tv_nsec = (long)((deadline - control.now) % NS_PER_S);
	}
	n = epoll_pwait2(control.epoll, events, EVENTS, timeout, NULL);
	if (n < 0 && errno == ENOSYS) /* kernels before 5.11 */
		n = epoll_wait(control.epoll, events, EVENTS,
			       timeout == NULL
				       ? -1
				       : (int)min64((uint64_t)wait.tv_sec * 1000 +
							    (uint64_t)(wait.tv_nsec + 999999) / 1000000,
						    60000));
	if (n >= 0)
		return n;
	return errno == EINTR ? 0 : -errno;
}

/*
 * Yields to the threads that share the processor.  When it does not come back soon, one of them keeps it as
 * long as the kernel allows: then it is better to sleep, since a thread that is woken comes first.
 */
static void
yield(void)
{
	uint64_t before = control.now;

	sched_yield();
	control.now = clock_now();
	if (control.now - before > YIELD_LONG_NS)
		no_look_until = control.now + NO_LOOK_NS;
}

/*
 * What a core or an application is asked is often answered within microseconds: to be woken for that
 * would cost both more than to look.
 */
static int
wait_for_events(struct epoll_event *events, uint64_t deadline)
{
	int n;

	if (deadline <= control.now)
		return epoll_until(events, 0);
	if (control.now < look_until && control.now >= no_look_until) {
		/* Also where cores spin: this thread may share its processor with an application. */
		yield();
		/* Mostly it was a core that answered: then descriptors wait, a few times, for a system call
		 * less. */
		if (++looks % ENGINE_TURNS != 0 && poll_engine()) {
			engine_turns++;
			return 0;
		}
		return epoll_until(events, 0);
	}
	if (!engine_sleep_begin())
		return epoll_until(events, 0);
	n = epoll_until(events, deadline);
	engine_sleep_end();
	return n;
}

static void
drain_poll(void)
{
	if (!control.draining || control.now < drain_at)
		return;
	drain_at = control.now + DRAIN_NS;
	if (ctl_drained() && !stop_seen) {
		log_notice("event=drained text=\"the last connection has ended\"\n");
		stop_seen = true;
	}
}

static int
loop_once(uint64_t deadline)
{
	struct epoll_event events[EVENTS];
	int n;

	heard = false;
	control.now = clock_now();
	/* While the cores have much to say, applications and the clock are looked at now and then only. */
	if (engine_turns < ENGINE_TURNS && poll_engine()) {
		engine_turns++;
		n = 0;
	} else {
		engine_turns = 0;
		n = wait_for_events(events, deadline);
		if (n < 0)
			return n;
		/* First what comes from the cores: an application may already answer an event of theirs. */
		if (engine_turns == 0) {
			control.now = clock_now();
			engine_turns += poll_engine();
		}
	}
	if (engine_turns > 0 || n > 0)
		look_until = control.now + LOOK_NS;
	/* Clients are freed by clients_poll() only, so no watch of this batch vanishes under us. */
	for (int i = 0; i < n; i++) {
		struct watch *watch = events[i].data.ptr;

		watch->ready(watch, events[i].events);
	}
	/* A round begins when all that ask have been heard; the system call for it would be a tenth of a
	 * bind. */
	if (heard || turns_alone(&control.turns))
		turns_round(&control.turns);
	paths_poll();
	work_poll();
	workers_poll();
	hosts_poll();
	conns_poll();
	clients_poll();
	reapers_poll();
	server_poll();
	ctl_poll();
	drain_poll();
	engine_links_poll(control.now);
	watchdog_poll(control.now);
	return 0;
}

static void
quotas_init(const struct config *config)
{
	struct quota *quota = &control.quota;

	quota->max_clients = config->max_clients;
	quota->max_clients_per_uid = config->max_clients_per_uid;
	quota->max_bytes_per_uid = config->max_bytes_per_uid;
	quota->max_own_per_uid = own_memory_for_clients();
	quota->max_common[QUOTA_KEYS] = 1u << engine_mem_table()->log2;
	quota->max_common[QUOTA_ZONES] = TABLE_MAX;
	quota->max_common[QUOTA_QPNS] = ENGINE_QPNS_MAX;
	quota->max_common[QUOTA_CHANNELS] = part_of_descriptors(4);
	quota->max_common[QUOTA_MAPPABLE] = part_of_descriptors(2);
	quota->max_common[QUOTA_AHS] = TABLE_MAX;
	for (uint32_t i = 0; i < CONFIG_PORTS_MAX; i++) {
		quota->max_common[QUOTA_SERVICES + i] = PORT_SPACE;
		quota->max_common[QUOTA_REQUESTS + i] = PATH_REQUESTS_MAX;
	}
	quota->max_common[QUOTA_MAPPINGS] = mappings_for_clients();
}

static void
state_init(const struct config *config)
{
	memset(&control, 0, sizeof(control));
	stop_seen = false;
	drain_at = 0;
	look_until = no_look_until = 0;
	engine_turns = 0;
	attach_calls = &calls_of_attach;
	control.config = config;
	control.listen_fd = control.epoll = control.stop_fd = -1;
	turns_init(&control.turns);
	TAILQ_INIT(&control.clients);
	TAILQ_INIT(&control.conns);
	TAILQ_INIT(&control.dead);
	LIST_INIT(&control.segments);
	table_init(&control.pz_numbers, TABLE_MAX);
	quotas_init(config);
	control.next_segment = 0x80000000u;
	control.segment_secret[0] = control_random();
	control.segment_secret[1] = control_random();
	control.incarnation = control_random() | 1;
	control.now = clock_now();
	work_init();
	watchdog_init(control.now);
}

static void
watches_end(void)
{
	if (control.epoll >= 0)
		close(control.epoll);
	if (control.stop_fd >= 0)
		close(control.stop_fd);
	control.epoll = control.stop_fd = -1;
}

static int
watches_begin(const struct ctl_source *source, char *why, size_t why_len)
{
	int error = 0;

	control.epoll = epoll_create1(EPOLL_CLOEXEC);
	control.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	stop_watch.ready = stop_ready;
	engine_watch.ready = engine_ready;
	if (control.epoll < 0 || control.stop_fd < 0)
		error = -errno;
	if (error == 0)
		error = control_watch(control.stop_fd, &stop_watch, EPOLLIN);
	if (error == 0)
		error = workers_init();
	if (error == 0)
		error = control_watch(engine_event_fd(), &engine_watch, EPOLLIN | EPOLLET);
	if (error == 0)
		return 0;
	snprintf(why, why_len, "epoll or eventfd: %s", strerror(-error));
	watches_end();
	return error;
}

static int
segments_begin(const struct ctl_source *source, char *why, size_t why_len)
{
	int error = cm_table_init(&control.segment_ids);

	if (error != 0)
		snprintf(why, why_len, "no memory for the table of segments");
	return error;
}

static void
segments_end(void)
{
	cm_table_fini(&control.segment_ids);
}

static int
paths_begin(const struct ctl_source *source, char *why, size_t why_len)
{
	return paths_init(source->config, &calls_of_path, why, why_len);
}

static int
server_begin(const struct ctl_source *source, char *why, size_t why_len)
{
	return server_open(source->config, why, why_len);
}

static void
server_end(void)
{
	server_close();
	reapers_stop();
}

static int
metrics_begin(const struct ctl_source *source, char *why, size_t why_len)
{
	return metrics_init(source->config, why, why_len);
}

/* A step that fails undoes what it did itself, and writes its reason. */
static const struct step {
	int (*begin)(const struct ctl_source *source, char *why, size_t why_len);
	void (*end)(void);
} steps[] = {
	{watches_begin, watches_end}, {segments_begin, segments_end}, {paths_begin, paths_fini},
	{server_begin, server_end},   {ctl_open, ctl_close},          {metrics_begin, metrics_fini},
};

int
daemon_init(const struct ctl_source *source, char *why, size_t why_len)
{
	int error;

	state_init(source->config);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		error = steps[i].begin(source, why, why_len);
		if (error == 0)
			continue;
		while (i > 0)
			steps[--i].end();
		return error;
	}
	mappings_init();
	error = telemetry_init();
	if (error != 0)
		log_warning(
			"event=telemetry_off error=\"%s\" text=\"nothing about attachments can be asked\"\n",
			strerror(-error));
	return 0;
}

int
daemon_run(void)
{
	int error = 0;

	while (!stop_seen && error == 0)
		error = loop_once(next_deadline());
	return error;
}

void
daemon_stop(void)
{
	const uint64_t one = 1;
	int saved = errno;

	/* A failed write means a stop that has not been read yet. */
	if (write(control.stop_fd, &one, sizeof(one)) < 0)
		errno = saved;
}

void
daemon_fini(void)
{
	struct client *client;
	uint64_t end = clock_now() + FINI_NS;

	telemetry_fini();
	ctl_close();
	metrics_fini();
	server_close();
	control.stopping = true;
	TAILQ_FOREACH(client, &control.clients, link)
		client_kill(client, 0, "the data plane ends");
	while (!TAILQ_EMPTY(&control.clients) && clock_now() < end)
		if (loop_once(min64(next_deadline(), clock_now() + NS_PER_MS)) != 0)
			break;
	if (!TAILQ_EMPTY(&control.clients))
		log_warning("event=end_late text=\"the cores did not let go of all attachments in time\"\n");
	conns_fini();
	users_fini();
	mappings_fini();
	reapers_stop();
	paths_fini();
	table_fini(&control.pz_numbers);
	segments_end();
	watches_end();
}

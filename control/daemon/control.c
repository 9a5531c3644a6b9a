/* SPDX-License-Identifier: BSD-3-Clause */
/* Loop of the control thread. */
#include "daemon.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/random.h>
#include <unistd.h>

#include "abi/slice.h"
#include "control/attach/reaper.h"
#include "control/attach/client.h"
#include "control/ctl/ctl.h"
#include "control/metrics/metrics.h"
#include "control/objects/qp_move.h"
#include "control/rsm/rsm.h"
#include "control/takeover/takeover.h"
#include "dataplane/base/clock.h"

#define EVENTS 64
#define ENGINE_ROUNDS 16 /* calls of engine_poll() per loop */
#define ENGINE_TURNS 4
#define POLL_NS 20000ull /* busy polling before sleeping: answers arrive soon */
#define YIELD_LONG_NS 100000ull
#define NO_POLL_NS (20 * NS_PER_MS)
#define DRAIN_NS (NS_PER_S / 10)
#define FINI_NS (2 * NS_PER_S)  /* time for the cores to release attachments at the end */
#define MAPPINGS_DEFAULT 65530u /* the kernel's default */
#define MAPPINGS_OWN 8192u      /* reserved for arenas, threads, devices, heap */
#define MAPPINGS_LEAST 1024u

static bool stop_seen;
static uint64_t poll_until;    /* end of busy polling before a sleep */
static uint64_t no_poll_until; /* no busy polling before this time: a yield took too long */
static unsigned int polls;
static uint32_t engine_turns; /* consecutive loops that polled cores only */
static bool heard;            /* this loop polled descriptors */
static uint64_t drain_at;     /* next check for the end of the last connection */
static struct watch stop_watch, engine_watch;

static void
stop_ready(struct watch *watch, uint32_t events)
{
	uint64_t value;

	if (read(control.stop_fd, &value, sizeof(value)) == (ssize_t)sizeof(value))
		stop_seen = true;
}

/* Only wakes the loop, which calls engine_poll() each time. Edge-triggered, so the descriptor need not be
 * read. */
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

/* Limit on mappings of all attachments. At the kernel's limit every further mmap() fails, including that of
 * the SIGBUS handler; so the data plane reserves some. */
static uint32_t
mappings_for_clients(void)
{
	FILE *maps = fopen("/proc/self/maps", "re"), *max = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long limit = MAPPINGS_DEFAULT, used = 0;

	if (max != NULL && fscanf(max, "%lu", &limit) != 1)
		limit = MAPPINGS_DEFAULT;
	for (int c; maps != NULL && (c = getc_unlocked(maps)) != EOF;)
		used += c == '\n';
	if (maps != NULL)
		fclose(maps);
	if (max != NULL)
		fclose(max);
	limit = limit > used + MAPPINGS_OWN ? limit - used - MAPPINGS_OWN : MAPPINGS_LEAST;
	if (limit <= MAPPINGS_LEAST)
		log_warning(
			"event=mappings_short used=%lu text=\"few mappings left: applications can register little memory\" remedy=\"raise vm.max_map_count (sysctl)\"\n",
			used);
	/* Each mapping has a guard, and so have the arenas. */
	return limit < ENGINE_GUARDS_MAX - MAPPINGS_OWN ? (uint32_t)limit : ENGINE_GUARDS_MAX - MAPPINGS_OWN;
}

#define CHANNELS_LEAST 16u

/* Three quarters of the remaining memory of this process, measured before applications use any. */
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
	if (config_memory_hidden(""))
		log_notice(
			"event=memory_limit_hidden text=\"this process is in a cgroup whose memory limit cannot be read, so users may be given more than it allows\" remedy=\"let /sys/fs/cgroup show it (nsenter --net does, ip netns exec does not), or lower max_bytes_per_uid\"\n");
	used = (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
	return used < all ? (all - used) / 4 * 3 : 0;
}

/* Share 1/`part` of this process's descriptor limit. */
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
		paths_deadline,   conns_deadline,    clients_deadline,      hosts_deadline,
		reapers_deadline, ctl_deadline,      engine_links_deadline, watchdog_deadline,
		work_deadline,    qp_moves_deadline, conns_balance_deadline};
	uint64_t deadline = NEVER;

	if (paths_pending() || drr_waiting(&control.drr))
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

/* Yields to threads on the same processor. After a long yield, sleeping is better for a while: another thread
 * uses its full time slice, and the scheduler prefers a thread that wakes. */
static void
yield_processor(void)
{
	uint64_t before = control.now;

	sched_yield();
	control.now = clock_now();
	if (control.now - before > YIELD_LONG_NS)
		no_poll_until = control.now + NO_POLL_NS;
}

/* Polls before sleeping: cores and applications often answer within microseconds, and a wake-up would cost
 * both sides more. */
static int
wait_for_events(struct epoll_event *events, uint64_t deadline)
{
	int n;

	if (deadline <= control.now)
		return epoll_until(events, 0);
	if (control.now < poll_until && control.now >= no_poll_until) {
		/* Yield even with --idle spin: this thread may share its processor with an application. */
		yield_processor();
		/* Most answers come from a core. Skipping epoll for a few rounds saves its system call. */
		if (++polls % ENGINE_TURNS != 0 && poll_engine()) {
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
	/* Under load from the cores, applications and timers are polled only every ENGINE_TURNS loops. */
	if (engine_turns < ENGINE_TURNS && poll_engine()) {
		engine_turns++;
		n = 0;
	} else {
		engine_turns = 0;
		n = wait_for_events(events, deadline);
		if (n < 0)
			return n;
		/* Poll the cores first: an application may already answer one of their events. */
		if (engine_turns == 0) {
			control.now = clock_now();
			engine_turns += poll_engine();
		}
	}
	if (engine_turns > 0 || n > 0)
		poll_until = control.now + POLL_NS;
	/* Only clients_poll() frees clients, so every watch of this batch is valid. */
	for (int i = 0; i < n; i++) {
		struct watch *watch = events[i].data.ptr;

		watch->ready(watch, events[i].events);
	}
	/* A DRR round begins once all requesters were polled. Polling only for that would add a system call,
	 * a tenth of a bind. */
	if (heard || drr_alone(&control.drr))
		drr_round(&control.drr);
	paths_poll();
	work_poll();
	qp_moves_poll();
	workers_poll();
	hosts_poll();
	conns_poll();
	conns_balance_poll();
	clients_poll();
	reapers_poll();
	server_poll();
	ctl_poll();
	drain_poll();
	if (engine_links_poll(control.now))
		path_links_watch();
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
	poll_until = no_poll_until = 0;
	engine_turns = 0;
	attach_calls = &calls_of_attach;
	control.config = config;
	control.listen_fd = control.epoll = control.stop_fd = -1;
	drr_init(&control.drr);
	TAILQ_INIT(&control.clients);
	TAILQ_INIT(&control.conns);
	TAILQ_INIT(&control.dead);
	LIST_INIT(&control.segments);
	table_init(&control.pz_numbers, TABLE_MAX);
	quotas_init(config);
	control.next_segment = RSM_ASSIGNED_FIRST;
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

/* A failed step undoes its own work and writes the reason. */
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
	telemetry_init(source->config);
	return 0;
}

static int
loop_awake(void)
{
	int error = loop_once(clock_now());

	return error == 0 && stop_seen ? -EINTR : error;
}

/* The service manager has to know the new main process before this one ends. */
static bool
hand_over(int process)
{
	char text[32];

	snprintf(text, sizeof(text), "MAINPID=%d", process);
	if (process > 0)
		notify_service(text, true);
	return ctl_reload_is_due();
}

int
daemon_run(void)
{
	static const struct takeover_calls calls = {
		.loop = loop_awake, .poll = poll_engine, .changing = ctl_changing, .committed = hand_over};
	int error = 0;

	one_slice_shorten(); /* this thread yields to cores, which have short slices */
	while (!stop_seen && error == 0) {
		error = loop_once(next_deadline());
		if (takeover_asked() && takeover_give(&calls))
			return 1;
	}
	return error;
}

void
daemon_stop(void)
{
	const uint64_t one = 1;
	int saved = errno;

	/* A write fails only if an earlier stop is still unread. */
	if (write(control.stop_fd, &one, sizeof(one)) < 0)
		errno = saved;
}

void
daemon_fini(void)
{
	struct client *client;
	uint64_t end = clock_now() + FINI_NS;

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
		log_warning("event=end_late text=\"cores did not release all attachments within 2 s\"\n");
	conns_fini();
	users_fini();
	mappings_fini();
	reapers_stop();
	paths_fini();
	table_fini(&control.pz_numbers);
	segments_end();
	watches_end();
}

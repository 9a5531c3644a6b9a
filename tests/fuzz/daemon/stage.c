/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "config/secret.h"
#include "control/ctl/ctl.h"
#include "control/daemon/daemon.h"

#define SHORT_NS (2 * NS_PER_MS) /* nearer deadlines are waited for; the target has to reach others */
#define YIELD_NS 50000u
#define CLEAR_ROUNDS 2000
#define CLEAR_NS (100 * NS_PER_MS)
#define WORKER_MS 1

struct config stage_config;
char stage_ctl[CONFIG_PATH_MAX];

static const struct ctl_source source = {.config = &stage_config, .version = "0"};
static _Atomic uint64_t stage_now;
static sem_t go, idle;
static __thread bool is_target;

/* ---- time ---- */

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_sched_yield(void);
int __real_epoll_pwait2(int epoll, struct epoll_event *events, int max, const struct timespec *timeout,
			const sigset_t *mask);
int __wrap_epoll_pwait2(int epoll, struct epoll_event *events, int max, const struct timespec *timeout,
			const sigset_t *mask);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t now = atomic_load(&stage_now);

	if (is_target || clock != CLOCK_MONOTONIC || now == 0)
		return __real_clock_gettime(clock, ts);
	ts->tv_sec = (time_t)(now / NS_PER_S);
	ts->tv_nsec = (long)(now % NS_PER_S);
	return 0;
}

int
__wrap_sched_yield(void)
{
	atomic_fetch_add(&stage_now, YIELD_NS);
	return 0;
}

/* True while jobs of the worker are under way. */
static bool
is_busy(void)
{
	const struct client *client;

	TAILQ_FOREACH(client, &control.clients, link)
		if (client->jobs != 0)
			return true;
	return false;
}

int
__wrap_epoll_pwait2(int epoll, struct epoll_event *events, int max, const struct timespec *timeout,
		    const sigset_t *mask)
{
	const struct timespec none = {0, 0}, worker = {0, WORKER_MS * (long)NS_PER_MS};
	uint64_t ns =
		timeout != NULL ? (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec : NEVER;
	int n;

	if (is_target)
		return __real_epoll_pwait2(epoll, events, max, timeout, mask);
	n = __real_epoll_pwait2(epoll, events, max, ns != 0 && is_busy() ? &worker : &none, mask);
	if (n != 0 || ns == 0 || is_busy())
		return n;
	if (ns <= SHORT_NS) {
		atomic_fetch_add(&stage_now, ns);
		return 0;
	}
	sem_post(&idle);
	while (sem_wait(&go) != 0)
		;
	return __real_epoll_pwait2(epoll, events, max, &none, mask);
}

static void *
serve(void *arg)
{
	if (daemon_run() != 0)
		fuzz_fail("the control thread has ended");
	return arg;
}

void
stage_run(void)
{
	sem_post(&go);
	while (sem_wait(&idle) != 0)
		;
	if (fake_mistake() != NULL)
		fuzz_fail(fake_mistake());
}

void
stage_pass(uint64_t ns)
{
	atomic_fetch_add(&stage_now, ns);
	stage_run();
}

/* ---- beginning and end ---- */

/* Makes a peer's secret, which inputs may or may not prove to know. */
static struct config_secret *
secret(const char *directory)
{
	static const uint8_t bytes[32] = {1};
	struct config_secret *made;
	char path[64], why[256];
	int fd;

	snprintf(path, sizeof(path), "%s/secret", directory);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, bytes, sizeof(bytes)) != sizeof(bytes) ||
	    config_secret_read(path, CONFIG_SECRET_RAW, sizeof(bytes), sizeof(bytes), &made, why,
			       sizeof(why)) != 0)
		fuzz_fail("no secret");
	close(fd);
	unlink(path);
	return made;
}

static void
configure(void)
{
	char directory[] = "/tmp/fuzz-control.XXXXXX";

	if (mkdtemp(directory) == NULL)
		fuzz_fail("no directory in /tmp");
	config_defaults(&stage_config);
	stage_config.node = 1;
	stage_config.num_ports = 1;
	snprintf(stage_config.port[0].name, sizeof(stage_config.port[0].name), "p0");
	stage_config.port[0].addr[0] = (struct config_addr){AF_INET, 24, {192, 0, 2, 1}};
	stage_config.port[0].rnr_retry = 6;
	stage_config.port[0].ack_timeout = 18;
	stage_config.num_peers = 2;
	stage_config.peer[0] = (struct config_peer){.node = 2, .addr = {AF_INET, 24, {192, 0, 2, 2}}};
	stage_config.peer[1] = (struct config_peer){
		.node = 3, .addr = {AF_INET, 24, {192, 0, 2, 3}}, .secret = {secret(directory)}};
	snprintf(stage_config.socket, sizeof(stage_config.socket), "%s/one.sock", directory);
	stage_config.socket_mode = 0600;
	stage_config.limits.max_pz = 20;
	stage_config.limits.max_cq = 30;
	stage_config.limits.max_mr_total = 16 << 20;
	stage_config.max_clients_per_uid = 3;
	stage_config.max_bytes_per_uid = 64 << 20;
	if (!config_ctl_path(&stage_config, stage_ctl))
		fuzz_fail("no path for the control socket");
}

/* libFuzzer ends the process without notice: files in /tmp are removed at once, and sockets work on without a
 * name. */
static void
forget_files(void)
{
	unlink(stage_ctl);
	unlink(stage_config.socket);
	*strrchr(stage_config.socket, '/') = '\0';
	rmdir(stage_config.socket);
}

void
stage_start(void)
{
	static bool started;
	struct timespec ts;
	char why[256] = "";
	pthread_t thread;

	if (started)
		return;
	started = true;
	is_target = true;
	rte_log_set_global_level(RTE_LOG_EMERG);
	fuzz_random_begin();
	__real_clock_gettime(CLOCK_MONOTONIC, &ts);
	configure();
	sem_init(&go, 0, 0);
	sem_init(&idle, 0, 0);
	if (daemon_init(&source, why, sizeof(why)) != 0)
		fuzz_fail(why);
	atomic_store(&stage_now, control.now);
	if (pthread_create(&thread, NULL, serve, NULL) != 0)
		fuzz_fail("no thread");
	while (sem_wait(&idle) != 0)
		;
	atexit(forget_files);
}

int
stage_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		fuzz_fail("nobody listens");
	stage_run();
	return fd;
}

void
stage_clear(void)
{
	for (int i = 0; i < CLEAR_ROUNDS; i++) {
		if (TAILQ_EMPTY(&control.clients) && TAILQ_EMPTY(&control.conns) &&
		    control.conn_timers.count == 0 && TAILQ_EMPTY(&control.dead) && fake_objects() == 0)
			return;
		stage_pass(CLEAR_NS);
	}
	fuzz_fail("something of an attachment is left");
}

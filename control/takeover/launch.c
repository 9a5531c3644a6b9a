/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/takeover/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/address.h"

#define SELF "/proc/self/exe"
#define PREFIX "--file-prefix"
#define PREFIX_LEAST 4u /* EAL takes abbreviations, of which --fi is the shortest */
#define PREFIX_DEFAULT "rte"
#define TAKE_OVER "--take-over"
#define REASON "ONESIDE_REASON_FD"
#define REASON_FD 3
#define INITIAL_NAMESPACE "pid:[4026531836]" /* PROC_PID_INIT_INO */

/* Start of this process. */
static struct {
	int argc;
	char **argv, *binary;
	cpu_set_t cpus;
} origin;

static int reason_fd = -1;

static struct {
	pthread_t thread;
	int done_fd, pipe[2];
	char *binary, **argv, **environment;
	char why[LAUNCH_WHY];
	pthread_mutex_t lock;
	pid_t pid; /* under the lock; 0: none, or it has ended */
} launch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- arguments ---- */

/* Returns the number of arguments that the file prefix at argument `i` takes, and its value; 0: another
 * argument. */
static int
prefix_at(int argc, char **argv, int i, const char **value)
{
	size_t len = strcspn(argv[i], "=");

	if (len < PREFIX_LEAST || len > strlen(PREFIX) || strncmp(argv[i], PREFIX, len) != 0)
		return 0;
	if (argv[i][len] == '=') {
		*value = argv[i] + len + 1;
		return 1;
	}
	if (i + 1 == argc)
		return 0;
	*value = argv[i + 1];
	return 2;
}

/* NAME, NAME.1, NAME.2, NAME.1, ...: both processes have files at the same time. Before its first upgrade a
 * data plane may have a name with such an ending. */
static void
write_prefix(const char *prefix, bool took_over, char *arg, size_t len)
{
	size_t n = strlen(prefix);
	const char *end = n > 2 && took_over ? prefix + n - 2 : "";
	bool first = strcmp(end, ".1") == 0, second = strcmp(end, ".2") == 0;

	if (first || second)
		n -= 2;
	snprintf(arg, len, PREFIX "=%.*s.%d", (int)n, prefix, first ? 2 : 1);
}

char **
takeover_arguments(int argc, char **argv, const char *binary)
{
	const char *prefix = PREFIX_DEFAULT;
	bool took_over = false;
	int split = 0, n = 0;
	size_t len;
	char **new, *text;

	while (split < argc && strcmp(argv[split], "--") != 0)
		split++;
	for (int i = 1; i < split; i++)
		prefix_at(split, argv, i, &prefix);
	for (int i = split; i < argc; i++)
		took_over = took_over || strcmp(argv[i], TAKE_OVER) == 0;
	len = sizeof(PREFIX "=.1") + strlen(prefix);
	/* At most four words besides the arguments: the prefix, "--", --take-over and NULL. */
	new = calloc(1, ((size_t)argc + 4) * sizeof(*new) + len);
	if (new == NULL)
		return NULL;
	text = (char *)&new[argc + 4];
	write_prefix(prefix, took_over, text, len);
	new[n++] = (char *)(uintptr_t)binary;
	for (int i = 1, args; i < split; i += args) {
		args = prefix_at(split, argv, i, &prefix);
		if (args == 0) {
			new[n++] = argv[i];
			args = 1;
		}
	}
	new[n++] = text;
	new[n++] = (char *)(uintptr_t) "--";
	for (int i = split + 1; i < argc; i++)
		new[n++] = argv[i];
	if (!took_over)
		new[n] = (char *)(uintptr_t)TAKE_OVER;
	return new;
}

/* ---- any process ---- */

static bool
same_file(const char *one, const char *other)
{
	struct stat a, b;

	return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The path by which this process was started, so that a symbolic link may lead to another version later. */
static char *
find_binary(void)
{
	const char *path = (const char *)(uintptr_t)getauxval(AT_EXECFN);
	char folder[PATH_MAX], real[PATH_MAX] = "", *whole = NULL;

	if (path != NULL && path[0] == '/')
		whole = strdup(path);
	else if (path != NULL && getcwd(folder, sizeof(folder)) != NULL &&
		 asprintf(&whole, "%s/%s", folder, path) < 0)
		whole = NULL;
	if (whole != NULL && strncmp(whole, "/proc/", 6) != 0 && strncmp(whole, "/dev/", 5) != 0 &&
	    same_file(whole, SELF))
		return whole;
	free(whole);
	return readlink(SELF, real, sizeof(real) - 1) > 0 ? strdup(real) : NULL;
}

static void
take_reason(void)
{
	const char *text = getenv(REASON);
	struct stat st;

	if (text == NULL)
		return;
	/* A shell's user may have exported the variable. */
	if (atoi(text) == REASON_FD && fstat(REASON_FD, &st) == 0 && S_ISFIFO(st.st_mode) &&
	    fcntl(REASON_FD, F_SETFD, FD_CLOEXEC) == 0)
		reason_fd = REASON_FD;
	unsetenv(REASON);
}

void
takeover_remember(int argc, char **argv)
{
	take_reason();
	sched_getaffinity(0, sizeof(origin.cpus), &origin.cpus);
	origin.binary = find_binary();
	origin.argv = calloc((size_t)argc + 1, sizeof(*origin.argv));
	for (int i = 0; origin.argv != NULL && i < argc; i++) {
		origin.argv[i] = strdup(argv[i]);
		if (origin.argv[i] == NULL)
			return;
	}
	origin.argc = argc;
}

void
takeover_explain(const char *why)
{
	if (reason_fd >= 0 && write(reason_fd, why, strlen(why)) < 0)
		takeover_explain_end();
}

bool
takeover_is_launched(void)
{
	return reason_fd >= 0;
}

void
takeover_explain_end(void)
{
	if (reason_fd >= 0)
		close(reason_fd);
	reason_fd = -1;
}

/* ---- the old process ---- */

bool
takeover_is_replaced(void)
{
	return origin.binary != NULL && !same_file(origin.binary, SELF);
}

/* The watchdog of the service manager is for the old process until the manager knows the new one. */
static char **
make_environment(void)
{
	static char reason[] = REASON "=3";
	size_t num = 0, n = 0;
	char **new;

	while (environ[num] != NULL)
		num++;
	new = calloc(num + 2, sizeof(*new));
	for (size_t i = 0; new != NULL &&i < num; i++)
		if (strncmp(environ[i], "WATCHDOG_PID=", 13) != 0)
			new[n++] = environ[i];
	if (new != NULL)
		new[n] = reason;
	return new;
}

/* DPDK opens descriptors that an exec leaves open: those of devices, for example. Returns 0 or an errno. */
static int
spawn_process(pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	int error = posix_spawn_file_actions_init(&actions);

	if (error != 0)
		return error;
	error = posix_spawn_file_actions_adddup2(&actions, launch.pipe[1], REASON_FD);
	if (error == 0)
		error = posix_spawn_file_actions_addclosefrom_np(&actions, REASON_FD + 1);
	if (error == 0)
		error = posix_spawn(pid, launch.binary, &actions, NULL, launch.argv, launch.environment);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

/* Waits for the end of the new process. */
static void
watch_process(pid_t pid)
{
	char reason[LAUNCH_WHY / 2] = "";
	size_t len = 0;
	siginfo_t end = {.si_code = 0};
	ssize_t n;

	while (len < sizeof(reason) - 1) {
		n = read(launch.pipe[0], reason + len, sizeof(reason) - 1 - len);
		if (n == 0 || (n < 0 && errno != EINTR))
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	while (waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT) != 0 && errno == EINTR)
		;
	pthread_mutex_lock(&launch.lock);
	launch.pid = 0;
	waitpid(pid, NULL, 0);
	pthread_mutex_unlock(&launch.lock);
	if (len > 0)
		snprintf(launch.why, sizeof(launch.why), "%.400s: %s", launch.binary, reason);
	else
		snprintf(launch.why, sizeof(launch.why),
			 "%.400s has ended without a reason, %s %d; see the data plane's log", launch.binary,
			 end.si_code == CLD_EXITED ? "with status" : "by signal", end.si_status);
}

/* A thread: posix_spawn() waits for the exec. The process inherits its processors, which are those of this
 * process before EAL bound the control thread. */
static void *
run_process(void *unused)
{
	pid_t pid = 0;
	int error;

	(void)unused;
	sched_setaffinity(0, sizeof(origin.cpus), &origin.cpus);
	error = spawn_process(&pid);
	close(launch.pipe[1]);
	if (error == 0) {
		pthread_mutex_lock(&launch.lock);
		launch.pid = pid;
		pthread_mutex_unlock(&launch.lock);
		watch_process(pid);
	} else {
		snprintf(
			launch.why, sizeof(launch.why),
			"file %.400s: %s, as the data plane sees it; install it where the data plane may execute it, or name another file",
			launch.binary, strerror(error));
	}
	close(launch.pipe[0]);
	eventfd_write(launch.done_fd, 1);
	return NULL;
}

static void
free_launch(void)
{
	free(launch.binary);
	free(launch.argv);
	free(launch.environment);
	launch.binary = NULL;
	launch.argv = launch.environment = NULL;
}

/* True if the namespace of this process ends with it, and with that all other processes: it is process 1, or
 * its parent is one that waits for its end, as inits of containers do.  Of a service, systemd learns the new
 * process. */
static bool
ends_namespace(void)
{
	char name[64] = "";

	if (getpid() == 1)
		return true;
	return getppid() == 1 && getenv("NOTIFY_SOCKET") == NULL &&
	       readlink("/proc/self/ns/pid", name, sizeof(name) - 1) > 0 &&
	       strcmp(name, INITIAL_NAMESPACE) != 0;
}

int
takeover_launch(const char *binary, int done_fd, char *why, size_t why_len)
{
	int error;

	if (binary == NULL)
		binary = origin.binary;
	if (origin.argc == 0 || binary == NULL)
		return config_refuse(
			why, why_len, -EINVAL,
			"the arguments or the file of this data plane are unknown; start one with --take-over instead");
	if (binary[0] != '/')
		return config_refuse(why, why_len, -EINVAL,
				     "file %.400s: its path is relative; write one that begins with /",
				     binary);
	if (ends_namespace())
		return config_refuse(
			why, why_len, -EINVAL,
			"the data plane, or its parent, is process 1 of a container, which ends with it; start one with --take-over in another container");
	launch.done_fd = done_fd;
	launch.binary = strdup(binary);
	launch.argv = takeover_arguments(origin.argc, origin.argv, launch.binary);
	launch.environment = make_environment();
	if (launch.binary == NULL || launch.argv == NULL || launch.environment == NULL) {
		free_launch();
		return config_refuse(why, why_len, -ENOMEM, "no memory for its arguments; try again");
	}
	if (pipe2(launch.pipe, O_CLOEXEC) != 0) {
		error = -errno;
		free_launch();
		return config_refuse(why, why_len, error, "no pipe: %s; try again", strerror(-error));
	}
	error = -pthread_create(&launch.thread, NULL, run_process, NULL);
	if (error == 0)
		return 0;
	close(launch.pipe[0]);
	close(launch.pipe[1]);
	free_launch();
	return config_refuse(why, why_len, error, "no thread can be started: %s; try again",
			     strerror(-error));
}

void
takeover_launch_join(char why[LAUNCH_WHY])
{
	pthread_join(launch.thread, NULL);
	strcpy(why, launch.why);
	free_launch();
}

void
takeover_launch_end(void)
{
	pthread_mutex_lock(&launch.lock);
	if (launch.pid > 0)
		kill(launch.pid, SIGTERM);
	pthread_mutex_unlock(&launch.lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked into each unit test that AddressSanitizer watches. Before GCC 15 and LLVM 19, fork() does not take
 * the locks of ASan's allocator: if another thread is in malloc(), the child hangs in its first malloc(). So
 * fork() waits here until all other threads sleep, because a thread that holds such a lock runs. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Limits of the wait, in polls of 1 ms and in processor time of other threads: then fork() goes on anyway,
 * because some threads may never sleep. */
#define LOOKS 500
#define BUSY_NS 20000000

struct entry { /* layout of getdents64(2) */
	ino64_t ino;
	off64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

static bool
sleeps(const char *task)
{
	char path[64], stat[256], *state;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true; /* the thread has ended */
	len = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	stat[len > 0 ? len : 0] = '\0';
	state = strrchr(stat, ')');
	return state == NULL || strncmp(state, ") S", 3) == 0;
}

/* Calls no malloc(), hence no readdir(): the program's locks are held here. */
static bool
others_sleep(int tasks)
{
	_Alignas(struct entry) char entries[4096];
	long self = syscall(SYS_gettid), len;
	const struct entry *entry;

	lseek(tasks, 0, SEEK_SET);
	while ((len = syscall(SYS_getdents64, tasks, entries, sizeof(entries))) > 0) {
		for (char *at = entries; at < entries + len; at += entry->len) {
			entry = (const struct entry *)(void *)at;
			if (entry->name[0] != '.' && atol(entry->name) != self && !sleeps(entry->name))
				return false;
		}
	}
	return true;
}

static int64_t
used_by_others(void)
{
	struct timespec all, mine;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mine);
	return (all.tv_sec - mine.tv_sec) * 1000000000ll + all.tv_nsec - mine.tv_nsec;
}

static void
await_sleep(void)
{
	int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int64_t until = used_by_others() + BUSY_NS;

	for (int i = 0; i < LOOKS && !others_sleep(tasks) && used_by_others() < until; i++)
		usleep(1000);
	close(tasks);
}

__attribute__((constructor)) static void
watch_forks(void)
{
	pthread_atfork(await_sleep, NULL, NULL);
}

/* A cancelled thread leaves the poison of unwound frames on its stack. ASan, which uses that stack to manage
 * an alternate signal stack, would report its own access as an overflow. */
const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
	return "use_sigaltstack=0";
}

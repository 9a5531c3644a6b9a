/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider library in a child that was forked while another thread was in it.
 *
 *   test_dat_fork PROVIDER-LIBRARY MAJOR-VERSION
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <dat/udat.h>
#include <dat/dat_registry.h>

#include "tests/asleep.h"

#define CHILD_S 60 /* limit for a child that waits for a lock which no thread holds */

static DAT_PROVIDER_INFO info = {.ia_name = "oneside-test", .is_thread_safe = DAT_TRUE};
static DAT_PROVIDER_INIT_FUNC init;
static DAT_PROVIDER_FINI_FUNC fini;
static _Atomic bool inside, forked;
static _Atomic pid_t forking;
static _Thread_local bool stays;

/* Replaces the registry's function, because the dynamic linker searches the program first. */
DAT_RETURN
dat_registry_add_provider(const DAT_PROVIDER *given, const DAT_PROVIDER_INFO *of)
{
	(void)given;
	(void)of;
	return DAT_SUCCESS;
}

DAT_RETURN
dat_registry_remove_provider(const DAT_PROVIDER *given, const DAT_PROVIDER_INFO *of)
{
	return dat_registry_add_provider(given, of);
}

/* Replaces libc's function, which the library calls with its lock held. A thread with `stays` remains in it
 * until the fork has happened, or until the forking thread sleeps. */
int
strncmp(const char *a, const char *b, size_t n)
{
	if (stays) {
		stays = false;
		atomic_store(&inside, true);
		while (!atomic_load(&forked) &&
		       (atomic_load(&forking) == 0 || !is_asleep(atomic_load(&forking))))
			usleep(1000);
	}
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i] || a[i] == '\0')
			return (unsigned char)a[i] - (unsigned char)b[i];
	return 0;
}

static void *
stay(void *unused)
{
	stays = true;
	init(&info, "");
	return unused;
}

static pid_t
fork_now(void)
{
	pid_t pid;

	atomic_store(&forking, (pid_t)syscall(SYS_gettid));
	pid = fork();
	atomic_store(&forked, true);
	return pid;
}

int
main(int argc, char **argv)
{
	void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	pthread_t thread;
	int status;
	pid_t pid;

	if (library == NULL)
		return fprintf(stderr, "%s\n", dlerror());
	info.dapl_version_major = (DAT_UINT32)atoi(argv[2]);
	*(void **)&init = dlsym(library, "dat_provider_init");
	*(void **)&fini = dlsym(library, "dat_provider_fini");
	init(&info, "");
	pthread_create(&thread, NULL, stay, NULL);
	while (!atomic_load(&inside))
		usleep(1000);
	pid = fork_now();
	if (pid == 0) {
		alarm(CHILD_S);
		fini(&info);
		_exit(0);
	}
	pthread_join(thread, NULL);
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fprintf(stderr, "the child could not enter the library: status %#x\n", (unsigned int)status);
	return status != 0;
}

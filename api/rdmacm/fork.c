/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fork handlers.  A child cannot use the parent's event channels and ids.  It may destroy them, without
 * effect on the parent, and create its own.  A fork waits for other threads' calls, because it takes the
 * lock.
 */
#include "rdmacm/device.h"
#include "rdmacm/id.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
fork_prepare(void)
{
	pthread_mutex_lock(&cma_lock);
}

static void
fork_parent(void)
{
	pthread_mutex_unlock(&cma_lock);
}

static void
fork_child(void)
{
	pthread_mutex_init(&cma_lock, NULL);
	pthread_cond_init(&cma_acked, NULL);
	cma_process++;
	devices_fork_child();
}

static void
watch_forks(void)
{
	verbs_cm_at_fork(fork_prepare, fork_parent, fork_child);
}

void
ids_watch_forks(void)
{
	pthread_once(&once, watch_forks);
}

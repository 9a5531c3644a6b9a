/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After fork the child has no part in the parent's event channels and ids: it may destroy them, which the
 * parent does not notice, and make its own.  A fork waits until no call of another thread is under way.
 */
#include "rdmacm/device/device.h"
#include "rdmacm/id/id.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
prepare(void)
{
	pthread_mutex_lock(&cma_lock);
}

static void
parent(void)
{
	pthread_mutex_unlock(&cma_lock);
}

static void
child(void)
{
	pthread_mutex_init(&cma_lock, NULL);
	pthread_cond_init(&cma_acked, NULL);
	cma_process++;
	devices_fork_child();
}

static void
watch(void)
{
	verbs_cm_at_fork(prepare, parent, child);
}

void
ids_watch_forks(void)
{
	pthread_once(&once, watch);
}

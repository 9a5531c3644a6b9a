/* SPDX-License-Identifier: BSD-3-Clause */
/* rte_eal_cleanup() removes devices and memory while DPDK's interrupt thread polls their sockets and handles.
 * Nothing ends that thread, so a callback that never returns stops it first. */
#include "daemon.h"

#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_interrupts.h>

static void
block_forever(void *argument)
{
	sem_post(argument);
	for (;;)
		pause();
}

/* False: the thread still runs. */
static bool
stop_interrupts(void)
{
	static sem_t still; /* static: the thread may access it at any later time */
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	bool stops;
	int fd = eventfd(1, EFD_CLOEXEC); /* readable at once */

	sem_init(&still, 0, 0);
	stops = handle != NULL && fd >= 0 && rte_intr_fd_set(handle, fd) == 0 &&
		rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
		rte_intr_callback_register(handle, block_forever, &still) == 0;
	while (stops && sem_wait(&still) != 0)
		;
	rte_intr_instance_free(handle);
	return stops;
}

void
daemon_eal_end(void)
{
	/* Otherwise the end of the process releases everything. */
	if (stop_interrupts())
		rte_eal_cleanup();
}

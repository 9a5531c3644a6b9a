/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rte_eal_cleanup() takes devices and memory away while DPDK's interrupt thread follows the sockets of the
 * ones and looks through handles in the other.  Nothing ends that thread, so it stands still first: in a
 * callback that does not return.
 */
#include "eal_end.h"

#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_interrupts.h>

static void
stand_still(void *argument)
{
	sem_post(argument);
	for (;;)
		pause();
}

/* False: it goes on. */
static bool
stop_interrupts(void)
{
	static sem_t still; /* looked at by that thread, however late */
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	bool stops;
	int fd = eventfd(1, EFD_CLOEXEC); /* readable at once */

	sem_init(&still, 0, 0);
	stops = handle != NULL && fd >= 0 && rte_intr_fd_set(handle, fd) == 0 &&
		rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
		rte_intr_callback_register(handle, stand_still, &still) == 0;
	while (stops && sem_wait(&still) != 0)
		;
	rte_intr_instance_free(handle);
	return stops;
}

void
daemon_eal_end(void)
{
	/* Else the end of the process gives all back. */
	if (stop_interrupts())
		rte_eal_cleanup();
}

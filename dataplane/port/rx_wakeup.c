/* SPDX-License-Identifier: BSD-3-Clause */
#include "rx_wakeup.h"

#include <errno.h>
#include <sys/epoll.h>

#include <rte_ethdev.h>
#include <rte_log.h>

#include "kernel_side.h"
#include "port.h"

struct wakeup {
	int epoll;
	bool any;
};

/* Edge-triggered: the driver reads the socket's ring, so the socket stays readable for epoll. A needless
 * wake-up by another port's AF_XDP socket is harmless. */
static void
watch_socket(void *context, int fd, int domain)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	struct wakeup *wakeup = context;

	(void)domain;
	if (epoll_ctl(wakeup->epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST)
		wakeup->any = true;
}

bool
rx_wakeup_watch(const struct rx_queue *queue, int epoll)
{
	struct wakeup wakeup = {.epoll = epoll};
	struct rte_eth_dev_info info;
	struct kernel_side side;

	if (rte_eth_dev_info_get(queue->device, &info) != 0)
		return false;
	kernel_side_open(&side, &info);
	if (side.name[0] != '\0')
		kernel_side_sockets(side.index, watch_socket, &wakeup);
	return wakeup.any;
}

/* If the driver has no interrupt for the queue, DPDK logs an error, which is suppressed here. */
bool
rx_wakeup_interrupt(const struct rx_queue *queue, int epoll)
{
	int type = rte_log_register("lib.ethdev"), level = rte_log_get_level((uint32_t)type);
	bool added;

	rte_log_set_level((uint32_t)type, RTE_LOG_CRIT);
	added = ports[queue->port].interrupts &&
		rte_eth_dev_rx_intr_ctl_q(queue->device, queue->queue, epoll, RTE_INTR_EVENT_ADD, NULL) == 0;
	rte_log_set_level((uint32_t)type, (uint32_t)level);
	return added;
}

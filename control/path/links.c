/* SPDX-License-Identifier: BSD-3-Clause */
/* Links of the ports: logs each change, and announces our addresses when a link comes up.  Notifications of
 * the kernel (rtnetlink) cause a poll at once.  A timer polls as well: notifications may be unavailable or
 * lost. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/path/path.h"

#define LINK_UP_NS NS_PER_S           /* poll interval while all links are up */
#define LINK_DOWN_NS (NS_PER_S / 10)  /* poll interval while a link is down */
#define LINK_SOON_NS (NS_PER_S / 500) /* poll interval while a lost link may come up at any moment */
/* A shorter interruption of a memif or PCI port is not reported to programs: the link goes down and up when
 * the peer is taken over, which waits up to 3 s for the new process. */
#define LINK_HOLD_NS (4 * NS_PER_S)
#define NOTICES 64 /* limit of reads per loop; epoll reports the rest again */

static uint64_t links_at;      /* time of the next poll */
static uint64_t watched_until; /* the end of polls every LINK_SOON_NS */
static int notices_fd = -1;
static struct watch notices_watch;
static void (*link_changed)(const struct path_port *port);

/* The notifications' content is not needed: the next poll reads the state of all ports. */
static void
notices_ready(struct watch *watch, uint32_t events)
{
	char notice[4096];

	(void)watch, (void)events;
	for (int i = 0; i < NOTICES; i++)
		if (recv(notices_fd, notice, sizeof(notice), MSG_DONTWAIT) < 0 && errno != ENOBUFS)
			break;
	links_at = control.now;
}

void
path_links_open(void (*changed)(const struct path_port *port))
{
	const struct sockaddr_nl links = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};

	link_changed = changed;
	links_at = control.now;
	notices_watch.ready = notices_ready;
	notices_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (notices_fd >= 0 && bind(notices_fd, (const struct sockaddr *)&links, sizeof(links)) == 0 &&
	    control_watch(notices_fd, &notices_watch, EPOLLIN) == 0)
		return;
	log_warning("event=netlink_off error=\"%s\" text=\"link changes are noticed up to a second late\"\n",
		    strerror(errno));
	path_links_close();
}

void
path_links_close(void)
{
	if (notices_fd >= 0)
		close(notices_fd);
	notices_fd = -1;
}

static void
report_mtu(struct path_port *port, const struct engine_port_info *info)
{
	bool narrow = info->interface_mtu != 0 && info->interface_mtu < info->mtu;

	if (narrow == port->narrow)
		return;
	port->narrow = narrow;
	if (narrow)
		log_warning(
			"event=mtu port=%s interface=%s mtu=%u interface_mtu=%u text=\"longer frames are lost\" remedy=\"ip link set %s mtu %u\"\n",
			info->name, info->interface, info->mtu, info->interface_mtu, info->interface,
			info->mtu);
	else
		log_notice(
			"event=mtu_restored port=%s interface=%s mtu=%u interface_mtu=%u text=\"frames of the port's mtu pass\"\n",
			info->name, info->interface, info->mtu, info->interface_mtu);
}

void
path_link_inherit(struct path_port *port, bool up)
{
	port->link_reported = up;
	port->link_changed_at = control.now;
	path_links_watch();
}

static void
log_link(struct path_port *port, const struct engine_port_info *info)
{
	port->link_up = info->link_up;
	port->link_changed_at = control.now;
	log_notice("event=link port=%s%s%s text=\"the link is %s\"\n", info->name,
		   info->interface[0] != '\0' ? " interface=" : "", info->interface,
		   port->link_up ? "up" : "down");
}

static void
report_link(struct path_port *port, const struct engine_port_info *info)
{
	bool moved = memcmp(port->mac, info->mac, sizeof(port->mac)) != 0;
	bool changed = info->link_up != port->link_up, due;
	uint64_t hold = info->interface[0] != '\0' ? 0 : LINK_HOLD_NS;

	if (moved) {
		memcpy(port->mac, info->mac, sizeof(port->mac));
		neigh_set_mac(control.neigh, port->index, info->mac);
		path_port_renamed();
	}
	/* Hosts on a link that comes up may have cached another MAC for our addresses. */
	if (info->link_up && (moved || !port->link_up))
		neigh_announce(control.neigh, (uint16_t)port->index, control.now);
	if (info->link_up && !port->link_up) {
		engine_port_repeat(port->index);
		watched_until = 0;
	}
	if (changed)
		log_link(port, info);
	due = port->link_up ? changed : port->link_reported && control.now - port->link_changed_at >= hold;
	if (!due)
		return;
	link_changed(port);
	port->link_reported = port->link_up;
}

static void
poll_links(void)
{
	bool all_up = true;

	for (uint32_t i = 0; i < path_num_ports; i++) {
		const struct engine_port_info *info = engine_port(i);

		report_link(&path_port[i], info);
		report_mtu(&path_port[i], info);
		all_up = all_up && info->link_up;
	}
	if (control.now < watched_until)
		links_at = control.now + LINK_SOON_NS;
	else
		links_at = control.now + (all_up ? LINK_UP_NS : LINK_DOWN_NS);
}

void
path_links_watch(void)
{
	watched_until = control.now + LINK_HOLD_NS;
	links_at = control.now;
}

void
path_links_poll(void)
{
	if (control.now >= links_at)
		poll_links();
}

uint64_t
path_links_deadline(void)
{
	return links_at;
}

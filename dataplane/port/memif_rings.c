/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement of both ends of a memif on their rings. The driver fixes the number of rings during its handshake
 * and does not report it. So this file reads the driver's messages in passing and completes them. The
 * server's HELLO and the client's INIT carry an announcement after the zero that ends the program's name. A
 * peer without announcement has one ring in each direction.
 *
 * All but the arithmetic runs on DPDK's interrupt thread, the only one that handles these messages: the table
 * of handshakes needs no lock. Cores read `rings` of a port. While the link is down the driver ignores all
 * rings. Before the next handshake connects, a port is back to one ring, after a grace period, since a ring
 * that was not agreed upon has the driver's state of the first ring.
 */
#include <string.h>
#include <sys/eventfd.h>

#include <rte_version.h>

#include "dataplane/port/memif_rings.h"

#include "dataplane/port/device.h"
#include "dataplane/port/port.h"

#define log_notice(...) rte_log(RTE_LOG_NOTICE, (uint32_t)port_logtype, "port: " __VA_ARGS__)
#define log_warning(...) rte_log(RTE_LOG_WARNING, (uint32_t)port_logtype, "port: " __VA_ARGS__)

#define REGION_MAX (1u << 30) /* bytes of a client's shared memory */
#define DESCRIPTOR_LEN 16u    /* bytes of a descriptor in a ring */
#define HANDSHAKES 16u        /* maximum under way at one time */

/* Messages: types and offsets of fields (memif 2.0). */
enum {
	MESSAGE_HELLO = 2,
	MESSAGE_INIT = 3,
	MESSAGE_ADD_RING = 5,
	MESSAGE_CONNECT = 6,
	MESSAGE_CONNECTED = 7
};
enum {
	HELLO_NAME = 2,
	HELLO_MAX_S2C = 40, /* largest index of a ring from server to client */
	HELLO_MAX_C2S = 42, /* largest index of a ring from client to server */
	INIT_NAME = 33,
	ADD_RING_FLAGS = 2,
	ADD_RING_INDEX = 4,
	CONNECT_NAME = 2, /* the sender's device; the same offset in CONNECTED */
	NAME_LEN = 32
};
#define ADD_RING_C2S 1u /* flag: from client to server */

/* Announcement, at the end of a name field. HELLO has the server's cores in `cores` and 0 in `far`. INIT has
 * the numbers of cores with rings: the client's in `cores`, the server's in `far`. */
struct announcement {
	char magic[4];
	uint8_t version, cores, far, zero;
};
enum { ANNOUNCEMENT_AT = NAME_LEN - sizeof(struct announcement) };
static const struct announcement blank = {.magic = "ONEM", .version = 1};

struct handshake {
	int fd; /* 0: unused */
	struct rings rings;
	bool agreed;       /* the peer has announced itself, too */
	uint32_t c2s, s2c; /* rings added */
	char device[NAME_LEN];
};
static struct handshake handshakes[HANDSHAKES];
static uint32_t handshakes_begun;

uint16_t
rings_limit(const char *args)
{
	uint64_t slots = 1ull << RTE_MIN(device_number(args, "rsize", 10), 14ul);
	uint64_t buffer = RTE_MIN(device_number(args, "bsize", 2048), (unsigned long)UINT16_MAX);
	uint64_t limit = REGION_MAX / (2 * slots * (buffer + DESCRIPTOR_LEN));

	if (limit < 1)
		return 1;
	return (uint16_t)RTE_MIN(limit, (uint64_t)PORT_RINGS_MAX);
}

struct rings
rings_reduce(uint32_t own, uint32_t far, uint32_t limit)
{
	while (own * far > limit) {
		if (own >= far)
			own--;
		else
			far--;
	}
	return (struct rings){(uint8_t)own, (uint8_t)far};
}

/* ---- state that cores read ---- */

/* Sleeping cores must poll their new rings. */
static void
wake_cores(void)
{
	for (uint32_t i = 0; i < engine.num_cores; i++)
		eventfd_write(engine.core[i]->wake_fd, 1);
}

static void
publish_rings(struct port *port, struct rings rings)
{
	uint16_t value = (uint16_t)(rings.own | rings.far << 8);

	/* Pairs with the load in port_rings(): a core that reads the new rings sees what the driver stored
	 * about them before. */
	if (atomic_exchange_explicit(&port->rings, value, memory_order_acq_rel) == value)
		return;
	links_quiesce();
	wake_cores();
}

void
rings_forget(void)
{
	for (uint32_t i = 0; i < ports_num; i++)
		if (ports[i].far_rings > 0 && !port_link_is_up(&ports[i]))
			publish_rings(&ports[i], (struct rings){1, 1});
}

/* The driver truncates names of devices in messages. */
static struct port *
port_of_device(const char *device)
{
	for (uint32_t i = 0; i < ports_num; i++)
		if (ports[i].far_rings > 0 && strncmp(ports[i].device_name, device, NAME_LEN - 1) == 0)
			return &ports[i];
	return NULL;
}

static void
report_rings(const struct port *port, const struct handshake *handshake)
{
	struct rings rings = handshake->rings;

	if (engine.num_cores <= rings.own) {
		log_notice("event=rings port=%s own_cores=%u far_cores=%u\n", port->info.name, rings.own,
			   rings.far);
		return;
	}
	log_warning(
		"event=port_slow port=%s text=\"%u of %u cores have rings of this memif, and the others hand their frames over: %s\"\n",
		port->info.name, rings.own, engine.num_cores,
		handshake->agreed
			? "a memif has at most 16 rings, which must fit into 1 GiB; use fewer cores, or a smaller bsize or rsize"
			: "the peer does not announce its cores; start a newer oneside there, or one data plane with one core for each cable");
}

/* ---- handshakes ---- */

/* Start a handshake. The oldest one is discarded if there are too many; it then gets one ring. */
static struct handshake *
begin_handshake(int fd)
{
	struct handshake *found = NULL;

	rings_forget(); /* the driver gives no notice when the link goes down */
	for (uint32_t i = 0; i < HANDSHAKES && found == NULL; i++)
		if (handshakes[i].fd == fd)
			found = &handshakes[i];
	if (found == NULL)
		found = &handshakes[handshakes_begun++ % HANDSHAKES];
	*found = (struct handshake){.fd = fd, .rings = {1, 1}};
	return found;
}

static struct handshake *
find_handshake(int fd)
{
	for (uint32_t i = 0; i < HANDSHAKES; i++)
		if (handshakes[i].fd == fd && fd > 0)
			return &handshakes[i];
	return NULL;
}

static uint16_t
load_field(const uint8_t *message, uint32_t at)
{
	uint16_t value;

	memcpy(&value, message + at, sizeof(value));
	return value;
}

static void
store_field(uint8_t *message, uint32_t at, uint16_t value)
{
	memcpy(message + at, &value, sizeof(value));
}

/* False: the name has no announcement. */
static bool
load_announcement(const uint8_t *name, struct announcement *announcement)
{
	memcpy(announcement, name + ANNOUNCEMENT_AT, sizeof(*announcement));
	return memcmp(announcement->magic, blank.magic, sizeof(blank.magic)) == 0 &&
	       announcement->version == blank.version;
}

/* False: the name is too long for an announcement. */
static bool
store_announcement(uint8_t *name, uint8_t cores, uint8_t far)
{
	struct announcement announcement = blank;

	announcement.cores = cores;
	announcement.far = far;
	if (memchr(name, 0, ANNOUNCEMENT_AT) == NULL)
		return false;
	memcpy(name + ANNOUNCEMENT_AT, &announcement, sizeof(announcement));
	return true;
}

/* Lowest limit of all clients of this process: a HELLO does not name its device. */
static uint32_t
clients_limit(void)
{
	uint32_t limit = PORT_RINGS_MAX;

	for (uint32_t i = 0; i < ports_num; i++)
		if (ports[i].far_rings > 0 && ports[i].reconnects)
			limit = RTE_MIN(limit, (uint32_t)ports[i].rx_queues);
	return limit;
}

/* The server's HELLO has 0 as the largest index: one ring, for peers that do not know announcements. Others
 * raise it in receive_hello(). The client's driver takes the smaller of that and its own limit. */
static void
send_hello(int fd, uint8_t *message)
{
	begin_handshake(fd);
	store_announcement(message + HELLO_NAME, (uint8_t)engine.num_cores, 0);
	store_field(message, HELLO_MAX_S2C, 0);
	store_field(message, HELLO_MAX_C2S, 0);
}

static void
receive_hello(int fd, uint8_t *message)
{
	struct handshake *handshake = begin_handshake(fd);
	struct announcement announcement;
	uint16_t largest;

	/* Our INIT has to announce as well: its name, the version of DPDK, must leave room. */
	if (load_announcement(message + HELLO_NAME, &announcement) && announcement.cores >= 1 &&
	    announcement.cores <= CORE_MAX && strlen(rte_version()) < ANNOUNCEMENT_AT) {
		handshake->agreed = true;
		handshake->rings = rings_reduce(engine.num_cores, announcement.cores, clients_limit());
	}
	largest = (uint16_t)(handshake->rings.own * handshake->rings.far - 1);
	store_field(message, HELLO_MAX_S2C, largest);
	store_field(message, HELLO_MAX_C2S, largest);
}

static void
send_init(const struct handshake *handshake, uint8_t *message)
{
	if (handshake->agreed)
		store_announcement(message + INIT_NAME, handshake->rings.own, handshake->rings.far);
}

static void
receive_init(struct handshake *handshake, const uint8_t *message)
{
	struct announcement announcement;

	if (!load_announcement(message + INIT_NAME, &announcement) || announcement.cores < 1 ||
	    announcement.far < 1 || announcement.far > engine.num_cores ||
	    announcement.cores * announcement.far > PORT_RINGS_MAX)
		return;
	handshake->agreed = true;
	handshake->rings = (struct rings){announcement.far, announcement.cores};
}

static void
count_ring(struct handshake *handshake, const uint8_t *message)
{
	if ((load_field(message, ADD_RING_FLAGS) & ADD_RING_C2S) != 0)
		handshake->c2s++;
	else
		handshake->s2c++;
}

/* Replace an unexpected index by one that the driver refuses. */
static void
receive_ring(struct handshake *handshake, uint8_t *message)
{
	bool c2s = (load_field(message, ADD_RING_FLAGS) & ADD_RING_C2S) != 0;
	uint32_t allowed = handshake != NULL ? handshake->rings.own * handshake->rings.far : 1u;
	uint32_t next = handshake == NULL ? 0 : c2s ? handshake->c2s : handshake->s2c;

	if (load_field(message, ADD_RING_INDEX) != next || next >= allowed)
		store_field(message, ADD_RING_INDEX, UINT16_MAX);
	else if (handshake != NULL)
		count_ring(handshake, message);
}

/* Last message of a handshake: the driver is connected, or will be at once. */
static void
end_handshake(struct handshake *handshake)
{
	uint32_t expected = handshake->rings.own * handshake->rings.far;
	struct port *port = port_of_device(handshake->device);

	if (handshake->c2s != expected || handshake->s2c != expected) {
		handshake->agreed = false;
		handshake->rings = (struct rings){1, 1};
	}
	if (port != NULL) {
		publish_rings(port, handshake->rings);
		report_rings(port, handshake);
	}
	handshake->fd = 0;
}

static void
note_device(struct handshake *handshake, const uint8_t *message)
{
	memcpy(handshake->device, message + CONNECT_NAME, NAME_LEN - 1);
}

void
rings_sending(int fd, uint8_t *message)
{
	struct handshake *handshake = find_handshake(fd);
	uint16_t type = load_field(message, 0);

	if (type == MESSAGE_HELLO)
		send_hello(fd, message);
	if (handshake == NULL)
		return;
	if (type == MESSAGE_INIT) {
		send_init(handshake, message);
	} else if (type == MESSAGE_ADD_RING) {
		count_ring(handshake, message);
	} else if (type == MESSAGE_CONNECT || type == MESSAGE_CONNECTED) {
		note_device(handshake, message);
		if (type == MESSAGE_CONNECTED)
			end_handshake(handshake);
	}
}

void
rings_received(int fd, uint8_t *message)
{
	struct handshake *handshake = find_handshake(fd);
	uint16_t type = load_field(message, 0);

	if (type == MESSAGE_HELLO)
		receive_hello(fd, message);
	else if (type == MESSAGE_ADD_RING)
		receive_ring(handshake, message);
	else if (type == MESSAGE_INIT && handshake != NULL)
		receive_init(handshake, message);
	else if (type == MESSAGE_CONNECTED && handshake != NULL)
		end_handshake(handshake);
}

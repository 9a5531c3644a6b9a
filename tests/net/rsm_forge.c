/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process without privileges on a peer's host, which requests a segment as that peer's superuser, by a
 * socket:
 *
 *   net-rsm-forge OWN-ADDRESS ADDRESS NODE SEGMENT open|guarded
 *
 * With `open` no secret is shared and the forged request succeeds, which shows that the forgery is good. With
 * `guarded` no forged request succeeds. The program prints the results.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/cm/cm_mad.h"
#include "control/rsm/rsm_wire.h"
#include "dataplane/wire/wire.h"

#define ROCE_PORT 4791
#define FRAME_MAX 512u
#define HEADERS (14u + 20 + 8) /* Ethernet, IPv4 and UDP, which the kernel builds itself */
#define BTH_DETH 20u
#define TRIES 100
#define TRY_MS 200

static struct wire_path path = {.udp_src_port = ROCE_PORT, .ttl = 64};
static struct sockaddr_in destination;
static uint32_t node, segment;
static int fd;

/* Possible answers. A REP grants the segment. */
struct answer {
	bool given;
	struct rsm_rej rej;
};

static void
fail(const char *what)
{
	printf("FAILED: %s\n", what);
	exit(1);
}

static void
send_request(uint32_t id, const uint8_t *data, uint32_t len)
{
	struct cm_mad mad = {.attribute = CM_REQ, .tid = id, .local_id = id};
	const struct wire_build build = {.opcode = WIRE_UD_SEND_ONLY,
					 .qpn = 1,
					 .qkey = WIRE_QKEY_GSI,
					 .src_qpn = 1,
					 .payload_len = CM_MAD_LEN};
	struct wire_template template;
	uint8_t frame[FRAME_MAX];
	uint32_t frame_len;

	mad.req.service_id = CM_SERVICE_RSM(segment);
	mad.req.guid = 1;
	mad.req.qpn = 1000 + (id & 0xffff);
	mad.req.psn = 1;
	mad.req.pkey = 0xffff;
	mad.req.mtu = 3;
	mad.req.responder_resources = mad.req.initiator_depth = 1;
	mad.req.local_lid = mad.req.remote_lid = 0xffff;
	mad.req.max_cm_retries = 15;
	mad.req.remote_response_timeout = mad.req.local_response_timeout = 20;
	memcpy(mad.req.local_gid, path.src.gid, sizeof(mad.req.local_gid));
	memcpy(mad.req.remote_gid, path.dst.gid, sizeof(mad.req.remote_gid));
	memcpy(mad.private_data, data, len);
	wire_template_init(&template, &path);
	cm_mad_build(&mad, wire_build(&template, &build, frame));
	frame_len = wire_frame_len(&template, build.opcode, build.payload_len);
	wire_seal(frame, frame_len);
	/*
	 * The socket is not connected: the kernel numbers IP identifications of connected ones, and the
	 * ICRC covers an identification of 0.
	 */
	if (sendto(fd, frame + HEADERS, frame_len - HEADERS, 0, (const struct sockaddr *)&destination,
		   sizeof(destination)) != (ssize_t)(frame_len - HEADERS))
		fail(strerror(errno));
}

/* Returns false unless an answer to this request has come. */
static bool
receive(uint32_t id, struct answer *answer)
{
	uint8_t bytes[2048];
	ssize_t len = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	struct cm_mad mad;

	if (len < (ssize_t)(BTH_DETH + CM_MAD_LEN) || cm_mad_parse(bytes + BTH_DETH, CM_MAD_LEN, &mad) != 0 ||
	    mad.remote_id != id)
		return false;
	answer->given = mad.attribute == CM_REP;
	if (mad.attribute == CM_REJ && !rsm_rej_parse(mad.private_data, CM_PRIVATE_REJ, &answer->rej))
		fail("a REJ that is none of RSM's");
	return mad.attribute == CM_REP || mad.attribute == CM_REJ;
}

static struct answer
ask(const uint8_t *data, uint32_t len)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	struct answer answer = {0};
	static uint32_t number;
	/*
	 * Differs from the ids of earlier processes: a request with an id in use would be taken as a
	 * repetition.
	 */
	const uint32_t id = (uint32_t)getpid() << 8 | ++number;

	for (int i = 0; i < TRIES; i++) {
		send_request(id, data, len);
		while (poll(&readable, 1, TRY_MS) == 1)
			if (receive(id, &answer))
				return answer;
	}
	fail("no answer");
	return answer;
}

static struct answer
claim(bool secret)
{
	/* The uid of 0 claims to be the peer's superuser, to whom any segment is granted. */
	const struct rsm_req req = {.who = {.node = node},
				    .segment = segment,
				    .permission = 0600,
				    .order = rsm_own_order(),
				    .secret = secret,
				    .incarnation = 1};
	uint8_t data[RSM_REQ_LEN];

	rsm_req_build(&req, data);
	return ask(data, sizeof(data));
}

static void
expect(struct answer answer, enum rsm_why why, const char *what)
{
	if (answer.given)
		fail("it has the segment");
	if (answer.rej.why != why)
		fail(what);
	printf("%s\n", what);
}

static void
guarded(void)
{
	struct rsm_proof proof = {.num_codes = 2, .importer_nonce = {1}, .code = {{2}, {3}}};
	uint8_t data[RSM_PROOF_LEN];
	struct answer answer;

	expect(claim(false), RSM_WHY_MISSING, "without a proof it is refused");
	answer = claim(true);
	expect(answer, RSM_WHY_CHALLENGE, "it is challenged");
	memcpy(proof.exporter_nonce, answer.rej.nonce, sizeof(proof.exporter_nonce));
	for (int i = 0; i < 20; i++) {
		proof.code[0][0]++;
		rsm_proof_build(&proof, data);
		answer = ask(data, sizeof(data));
		if (answer.given || answer.rej.why != RSM_WHY_WRONG)
			fail("a guessed proof");
	}
	printf("a guessed proof is refused\n");
	proof.exporter_nonce[15] ^= 1;
	rsm_proof_build(&proof, data);
	expect(ask(data, sizeof(data)), RSM_WHY_STALE, "a proof of its own challenge is refused");
}

static void
open_socket(const char *own, const char *to)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)}, at = from;
	int probe = IP_PMTUDISC_DO,
	    off = 1; /* "do not fragment": the identification is 0, as the ICRC has it */

	if (inet_pton(AF_INET, own, &from.sin_addr) != 1 || inet_pton(AF_INET, to, &at.sin_addr) != 1)
		fail("no address");
	path.src.gid[10] = path.src.gid[11] = path.dst.gid[10] = path.dst.gid[11] = 0xff;
	memcpy(&path.src.gid[12], &from.sin_addr, 4);
	memcpy(&path.dst.gid[12], &at.sin_addr, 4);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &off, sizeof(off)) != 0 ||
	    bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0)
		fail(strerror(errno));
	destination = at;
}

int
main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	wire_init();
	open_socket(argv[1], argv[2]);
	node = (uint32_t)atoi(argv[3]);
	segment = (uint32_t)strtoul(argv[4], NULL, 0);
	if (geteuid() == 0)
		fail("this is to be done without rights");
	if (strcmp(argv[5], "open") != 0)
		guarded();
	else if (claim(false).given)
		printf("it has the segment\n");
	else
		fail("what it forges is not good enough for a data plane without a secret");
	return 0;
}

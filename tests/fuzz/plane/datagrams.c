/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams from the port to queue pairs without a connection, and datagrams that these queue pairs send. */
#include <string.h>

#include "dataplane/wire/bytes.h"
#include "plane.h"

static uint8_t frame[65536];

static struct pair *
pair_of(uint8_t which)
{
	return &plane.pair[PLANE_UD + which % 2];
}

static void
raw(struct bytes *record)
{
	uint32_t len, ip, bth;
	uint32_t qpn = pair_of((uint8_t)record_number(record, 1))->qpn;
	uint8_t flags = (uint8_t)record_number(record, 1);

	len = (uint32_t)record->left;
	if (len > plane_frame_room())
		len = plane_frame_room();
	record_fill(record, frame, len);
	if (plane_headers(frame, len, &ip, &bth)) {
		store_be24(frame + bth + 5, qpn);
		if ((flags & 2) == 0)
			plane_fix_lengths(frame, len, ip, bth);
		if ((flags & 1) == 0 && bth + 16 < len)
			store_be32(frame + bth + 12, PLANE_QKEY);
		plane_seal(frame, len);
	}
	plane_receive(frame, len);
}

static void
built(struct bytes *record)
{
	uint8_t which = (uint8_t)record_number(record, 1), flags = (uint8_t)record_number(record, 1);
	const struct wire_path path = {.src = plane_addr((flags & 8) != 0 ? 1 : 2),
				       .dst = plane_addr(1),
				       .ttl = 64,
				       .tos = flags & 3};
	struct wire_build b = {.opcode = (flags & 16) != 0 ? WIRE_UD_SEND_ONLY_IMM : WIRE_UD_SEND_ONLY,
			       .qpn = pair_of(which)->qpn,
			       .qkey = (flags & 32) != 0 ? 0x11111110u : PLANE_QKEY,
			       .solicited = (flags & 4) != 0};
	struct wire_template template;
	uint8_t *payload;
	uint32_t len;

	b.payload_len = (uint32_t)record_number(record, 2) % 4200;
	b.src_qpn = (uint32_t)record_number(record, 3);
	b.imm = (uint32_t)record_number(record, 4);
	wire_template_init(&template, &path);
	len = wire_frame_len(&template, b.opcode, b.payload_len);
	if (len > plane_frame_room())
		return;
	payload = wire_build(&template, &b, frame);
	record_fill(record, payload, b.payload_len);
	wire_seal(frame, len);
	plane_receive(frame, len);
}

static void
state(struct bytes *record)
{
	command((struct engine_command){.type = ENGINE_QP_DATAGRAM,
					.qp = pair_of((uint8_t)record_number(record, 1))->qp,
					.datagram = {.state = RC_RTR + record_number(record, 1) % 2,
						     .qkey = PLANE_QKEY - record_number(record, 1) % 2,
						     .send_psn = (uint32_t)record_number(record, 3)}});
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = {data, size}, record;

	plane_begin();
	while (record_next(&input, &record)) {
		uint8_t kind = (uint8_t)record_number(&record, 1);

		if (kind % 8 < 2)
			built(&record);
		else if (kind % 8 == 2)
			raw(&record);
		else if (kind % 8 == 3)
			state(&record);
		else
			plane_record(kind % 8 - 4, &record);
	}
	plane_end();
	return 0;
}

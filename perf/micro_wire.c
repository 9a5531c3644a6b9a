/* SPDX-License-Identifier: BSD-3-Clause */
/* Microbenchmarks: frames of the wire. */
#include "dataplane/wire/icrc.h"
#include "dataplane/wire/wire.h"
#include "micro.h"

static struct wire_template
some_template(void)
{
	static const struct wire_path path = {
		.src_mac = {2, 0, 0, 0, 0, 1},
		.dst_mac = {2, 0, 0, 0, 0, 2},
		.src.gid = {[10] = 0xff, 0xff, 192, 0, 2, 1},
		.dst.gid = {[10] = 0xff, 0xff, 192, 0, 2, 2},
		.udp_src_port = 0xc000,
		.ttl = 64,
	};
	struct wire_template t;

	wire_template_init(&t, &path);
	return t;
}

/* Headers, payload already there, pad and ICRC of an RDMA write. */
static void
build_write(struct gbench_state *state, void *user)
{
	struct wire_template t = some_template();
	struct wire_build b = {.opcode = WIRE_WRITE_ONLY,
			       .qpn = 17,
			       .rkey = 3,
			       .dma_length = (uint32_t)gbench_arg(state),
			       .payload_len = (uint32_t)gbench_arg(state)};
	static uint8_t frame[8192];

	while (gbench_running(state)) {
		b.psn = (b.psn + 1) & 0xffffff;
		wire_build(&t, &b, frame);
		wire_seal(frame, wire_frame_len(&t, b.opcode, b.payload_len));
		gbench_use(frame);
	}
	gbench_set_bytes(state, gbench_iterations(state) * b.payload_len);
}

/* What a frame has in common with the one before, and who checked its IPv4 header's checksum. */
enum { PARSE_UNLIKE, PARSE_CHECKED, PARSE_ALIKE };

static void
parse_write(struct gbench_state *state, void *user)
{
	struct wire_template t = some_template();
	struct wire_build b = {.opcode = WIRE_WRITE_ONLY,
			       .qpn = 17,
			       .rkey = 3,
			       .dma_length = (uint32_t)gbench_arg(state),
			       .payload_len = (uint32_t)gbench_arg(state)};
	static uint8_t frame[8192];
	uint32_t len = wire_frame_len(&t, b.opcode, b.payload_len);
	struct wire_seen seen = {.len = 0};
	struct wire_move none = {.len = 0};
	int how = *(const int *)user;

	wire_build(&t, &b, frame);
	wire_seal(frame, len);
	while (gbench_running(state)) {
		if (how != PARSE_ALIKE)
			seen.len = 0;
		if (wire_parse_received(frame, len, how == PARSE_CHECKED, &seen, &none) != WIRE_OK) {
			gbench_skip(state, "the frame just built was refused");
			break;
		}
		gbench_use(&seen.packet);
	}
	gbench_set_bytes(state, gbench_iterations(state) * b.payload_len);
}

/* Of a frame with `arg` bytes behind its BTH, as both ends compute it. */
static void
icrc(struct gbench_state *state, void *user)
{
	static uint8_t frame[64 + 8192];
	uint32_t len = 20 + 8 + 12 + (uint32_t)gbench_arg(state);

	while (gbench_running(state))
		gbench_use(icrc_compute(frame + 64, 20, len));
	gbench_set_bytes(state, gbench_iterations(state) * len);
}

void
micro_wire(void)
{
	static const int64_t sizes[] = {8, 64, 1024, 4096};
	static int unlike = PARSE_UNLIKE, checked = PARSE_CHECKED, alike = PARSE_ALIKE;

	wire_init();
	gbench_register("build_write", build_write, NULL, sizes, 4);
	gbench_register("parse_write", parse_write, &unlike, sizes, 4);
	gbench_register("parse_write_checked", parse_write, &checked, sizes, 4);
	gbench_register("parse_write_alike", parse_write, &alike, sizes, 4);
	gbench_register("icrc", icrc, NULL, sizes, 4);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Microbenchmarks: building and parsing frames. */
#include <stdio.h>

#include <rte_cycles.h>

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

/* Builds an RDMA write's headers, pad and ICRC around a payload in place. */
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

/*
 * PARSE_UNLIKE: headers differ from the frame before, the parser checks the IPv4 checksum. PARSE_CHECKED: the
 * NIC checked it. PARSE_ALIKE: headers equal those of the frame before.
 */
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

/* Reports bytes per cycle of the time stamp counter. */
static void
set_rates(struct gbench_state *state, uint32_t len, uint64_t start)
{
	uint64_t bytes = gbench_iterations(state) * len;

	gbench_set_counter(state, "bytes_a_cycle", (double)bytes / (double)(rte_rdtsc() - start));
	gbench_set_bytes(state, bytes);
}

/*
 * ICRC of a frame with `arg` bytes after its BTH: alone, with a sender's copy (icrc_copy), with a receiver's
 * (icrc_beside).
 */
static void
icrc_alone(struct gbench_state *state, void *user)
{
	static uint8_t frame[64 + 8192];
	uint32_t len = 20 + 8 + 12 + (uint32_t)gbench_arg(state);
	const struct icrc_impl *impl = user;
	uint64_t start;

	start = rte_rdtsc();
	while (gbench_running(state))
		gbench_use(impl->compute(frame + 64, 20, len));
	set_rates(state, len, start);
}

static void
icrc_copy(struct gbench_state *state, void *user)
{
	static uint8_t frame[64 + 8192], from[8192];
	uint32_t payload = (uint32_t)gbench_arg(state), len = 20 + 8 + 12 + payload;
	const struct icrc_impl *impl = user;
	uint64_t start;

	start = rte_rdtsc();
	while (gbench_running(state))
		gbench_use(impl->copy(frame + 64, 20, len, from, payload));
	set_rates(state, len, start);
}

static void
icrc_beside(struct gbench_state *state, void *user)
{
	static uint8_t frame[64 + 8192], from[8192], to[8192];
	uint32_t payload = (uint32_t)gbench_arg(state), len = 20 + 8 + 12 + payload;
	const struct icrc_impl *impl = user;
	uint64_t start;

	start = rte_rdtsc();
	while (gbench_running(state))
		gbench_use(impl->beside(frame + 64, 20, len, to, from, payload));
	set_rates(state, len, start);
}

/* "icrc_clmul", "icrc_clmul_copy", ... for each implementation that this CPU has. */
static void
register_icrc(void)
{
	static const int64_t sizes[] = {8, 64, 1024, 4096}, copies[] = {64, 1024, 4096};
	static const struct {
		const char *suffix;
		void (*run)(struct gbench_state *, void *);
	} kinds[] = {{"", icrc_alone}, {"_copy", icrc_copy}, {"_beside", icrc_beside}};

	for (uint32_t i = 0; icrc_impls[i] != NULL; i++) {
		if (!icrc_impls[i]->available())
			continue;
		for (uint32_t k = 0; k < 3; k++) {
			char name[48];

			snprintf(name, sizeof(name), "icrc_%s%s", icrc_impls[i]->name, kinds[k].suffix);
			gbench_register(name, kinds[k].run, (void *)(uintptr_t)icrc_impls[i],
					k == 0 ? sizes : copies, k == 0 ? 4 : 3);
		}
	}
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
	register_icrc();
}

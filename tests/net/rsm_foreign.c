/* SPDX-License-Identifier: BSD-3-Clause */
/* Each end takes the other for a host of the other byte order: see net-shuffle. */
#include <byteswap.h>

#include "rsm_pair.h"

#define ELEMENTS 1000u
#define MANY 20000u /* more than one piece of the staging ring */
#define AT16 0x10000
#define AT32 0x20000
#define AT64 0x30000
#define AT8 0x60000
#define AT_BLOCK 0x70000
#define AT_VECTOR 0x80000

static void
foreign_server(struct pair *pair)
{
	const uint16_t *v16;
	const uint32_t *v32;
	const uint64_t *v64;
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	v16 = (const uint16_t *)(void *)(e.base + AT16);
	v32 = (const uint32_t *)(void *)(e.base + AT32);
	v64 = (const uint64_t *)(void *)(e.base + AT64);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has put */
	CHECK(pair, *(uint16_t *)(void *)e.base == bswap_16(0x1234), "put16 of one: %#x",
	      *(uint16_t *)(void *)e.base);
	for (uint32_t k = 0; k < ELEMENTS; k++) {
		CHECK(pair, v16[k] == bswap_16((uint16_t)(0x0102 + k)), "put16: element %u is %#x", k,
		      v16[k]);
		CHECK(pair, v32[k] == bswap_32(0x01020304 + k), "put32: element %u is %#x", k, v32[k]);
		CHECK(pair, e.base[AT8 + k] == (uint8_t)k, "put8: element %u", k);
	}
	for (uint32_t k = 0; k < MANY; k++)
		CHECK(pair, v64[k] == bswap_64(0x0102030405060708 + k), "put64: element %u", k);
	CHECK(pair, pair_pattern_check(e.base + AT_BLOCK, 5000, 1) == 5000, "put changed a block");
	CHECK(pair, pair_pattern_check(e.base + AT_VECTOR, 5000, 2) == 5000, "putv changed a block");
	pair_barrier(pair);
	exporter_close(&e, pair);
}

static void
foreign_client(struct pair *pair)
{
	static uint64_t v64[MANY], back64[MANY];
	uint32_t v32[ELEMENTS], back32[ELEMENTS];
	uint16_t v16[ELEMENTS], back16[ELEMENTS], one = 0x1234;
	uint8_t v8[ELEMENTS], block[5000];
	rsm_iovec_t piece = {.io_type = RSM_VA_TYPE,
			     .local.vaddr = (caddr_t)block,
			     .remote_offset = AT_VECTOR,
			     .transfer_length = sizeof(block)};
	rsm_scat_gath_t sg = {.io_request_count = 1, .iovec = &piece};
	struct importer i;

	for (uint32_t k = 0; k < ELEMENTS; k++) {
		v16[k] = (uint16_t)(0x0102 + k);
		v32[k] = 0x01020304 + k;
		v8[k] = (uint8_t)k;
	}
	for (uint32_t k = 0; k < MANY; k++)
		v64[k] = 0x0102030405060708 + k;
	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_memseg_import_put16(i.import, 0, &one, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put16(i.import, AT16, v16, ELEMENTS), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put32(i.import, AT32, v32, ELEMENTS), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, AT64, v64, MANY), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put8(i.import, AT8, v8, ELEMENTS), RSM_SUCCESS);
	CHECK(pair, v16[0] == 0x0102 && v32[0] == 0x01020304 && v64[0] == 0x0102030405060708,
	      "the caller's memory was changed");
	RSM_CHECK(pair, rsm_memseg_import_get16(i.import, AT16, back16, ELEMENTS), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_get32(i.import, AT32, back32, ELEMENTS), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_get64(i.import, AT64, back64, MANY), RSM_SUCCESS);
	CHECK(pair, memcmp(back16, v16, sizeof(v16)) == 0, "get16 differs from put16");
	CHECK(pair, memcmp(back32, v32, sizeof(v32)) == 0, "get32 differs from put32");
	CHECK(pair, memcmp(back64, v64, sizeof(v64)) == 0, "get64 differs from put64");
	pair_pattern(block, sizeof(block), 1);
	RSM_CHECK(pair, rsm_memseg_import_put(i.import, AT_BLOCK, block, sizeof(block)), RSM_SUCCESS);
	pair_pattern(block, sizeof(block), 2);
	sg.remote_handle = i.import;
	RSM_CHECK(pair, rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	memset(block, 0, sizeof(block));
	RSM_CHECK(pair, rsm_memseg_import_getv(&sg), RSM_SUCCESS);
	CHECK(pair, pair_pattern_check(block, sizeof(block), 2) == sizeof(block), "getv changed a block");
	RSM_CHECK(pair, rsm_memseg_import_get(i.import, AT_BLOCK, block, sizeof(block)), RSM_SUCCESS);
	CHECK(pair, pair_pattern_check(block, sizeof(block), 1) == sizeof(block), "get changed a block");
	pair_barrier(pair);
	pair_barrier(pair);
	importer_disconnect(&i, pair);
	RSM_CHECK(pair, rsm_release_controller(i.controller), RSM_SUCCESS);
}

static const struct pair_case cases[] = {
	{"foreign", foreign_server, foreign_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, 1);
}

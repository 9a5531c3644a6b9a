/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RSM at the limits that tests/net/limits.sh has set: the attributes report them, each call fails with the
 * specified error at its limit, and succeeds again when something is released.
 */
#include <sys/mman.h>

#include "rsm_pair.h"

/* Values that limits.sh configures. */
#define MAX_SEGMENTS 2u
#define MAX_MR 7u
#define MAX_CQ 12u
#define MAX_MR_BYTES (1u << 20)
#define MAX_MR_TOTAL (4u << 20)

#define PAGE 4096u
#define MOST 64u

static rsmapi_controller_handle_t
open_port(struct pair *pair)
{
	static char name[] = "p0";
	rsmapi_controller_handle_t controller;

	RSM_CHECK(pair, rsm_get_controller(name, &controller), RSM_SUCCESS);
	return controller;
}

/* Makes exports of `size` bytes until the call fails with `expected`; returns their number. */
static uint32_t
fill(struct pair *pair, rsmapi_controller_handle_t controller, uint8_t *memory, size_t size, int expected,
     rsm_memseg_export_handle_t *exports)
{
	uint32_t n = 0;
	int result;

	while ((result = rsm_memseg_export_create(controller, &exports[n], memory + n * size, size, 0)) ==
	       RSM_SUCCESS)
		n++;
	CHECK(pair, result == expected, "export %u of %zu bytes: %d instead of %d", n, size, result,
	      expected);
	return n;
}

static void
exports_server(struct pair *pair)
{
	rsmapi_controller_handle_t controller = open_port(pair);
	uint8_t *memory = mmap(NULL, MAX_MR_TOTAL + 2 * MAX_MR_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rsm_memseg_export_handle_t exports[MOST];
	rsmapi_controller_attr_t attr;
	rsm_memseg_id_t ids[MOST] = {0};
	uint32_t n, again;

	RSM_CHECK(pair, rsm_get_controller_attr(controller, &attr), RSM_SUCCESS);
	CHECK(pair,
	      attr.attr_max_export_segment_size == MAX_MR_BYTES &&
		      attr.attr_tot_export_segment_size == MAX_MR_TOTAL &&
		      attr.attr_max_export_segments == MAX_SEGMENTS &&
		      attr.attr_max_import_segments == MAX_CQ,
	      "the attributes are not what was configured");
	RSM_CHECK(pair, rsm_memseg_export_create(controller, &exports[0], memory, MAX_MR_BYTES + PAGE, 0),
		  RSMERR_BAD_LENGTH);
	/* The limit of bytes. */
	n = fill(pair, controller, memory, MAX_MR_BYTES, RSMERR_INSUFFICIENT_MEM, exports);
	CHECK(pair, n == MAX_MR_TOTAL / MAX_MR_BYTES, "%u exports of the largest size", n);
	RSM_CHECK(pair, rsm_memseg_export_destroy(exports[--n]), RSM_SUCCESS);
	RSM_CHECK(
		pair,
		rsm_memseg_export_create(controller, &exports[n], memory + n * MAX_MR_BYTES, MAX_MR_BYTES, 0),
		RSM_SUCCESS);
	n++;
	while (n > 0)
		RSM_CHECK(pair, rsm_memseg_export_destroy(exports[--n]), RSM_SUCCESS);
	/* The limit of memory regions, reached again at the same number after all have been released. */
	n = fill(pair, controller, memory, PAGE, RSMERR_INSUFFICIENT_MEM, exports);
	CHECK(pair, n > MAX_SEGMENTS && n <= MAX_MR, "%u small exports", n);
	for (uint32_t i = 0; i < n; i++)
		RSM_CHECK(pair, rsm_memseg_export_destroy(exports[i]), RSM_SUCCESS);
	again = fill(pair, controller, memory, PAGE, RSMERR_INSUFFICIENT_MEM, exports);
	CHECK(pair, again == n, "%u small exports, and then %u", n, again);
	/* The limit of published segments. */
	for (uint32_t i = 0; i < MAX_SEGMENTS; i++)
		RSM_CHECK(pair, rsm_memseg_export_publish(exports[i], &ids[i], NULL, 0), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_publish(exports[MAX_SEGMENTS], &ids[MAX_SEGMENTS], NULL, 0),
		  RSMERR_INSUFFICIENT_RESOURCES);
	CHECK(pair, ids[MAX_SEGMENTS] == 0, "an id for what was not published");
	RSM_CHECK(pair, rsm_memseg_export_unpublish(exports[0]), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_publish(exports[MAX_SEGMENTS], &ids[MAX_SEGMENTS], NULL, 0),
		  RSM_SUCCESS);
	for (uint32_t i = 0; i < n; i++)
		RSM_CHECK(pair, rsm_memseg_export_destroy(exports[i]), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_release_controller(controller), RSM_SUCCESS);
	munmap(memory, MAX_MR_TOTAL + 2 * MAX_MR_BYTES);
	pair_barrier(pair);
}

static void
exports_client(struct pair *pair)
{
	pair_barrier(pair);
}

static void
imports_server(struct pair *pair)
{
	rsmapi_controller_handle_t controller = open_port(pair);
	rsm_memseg_id_t id = SEGMENT;
	rsm_memseg_export_handle_t export;
	uint8_t *memory = aligned_alloc(PAGE, MAX_MR_BYTES);
	rsm_node_id_t node = own_node(pair);

	memset(memory, 0, MAX_MR_BYTES);
	RSM_CHECK(pair, rsm_memseg_export_create(controller, &export, memory, MAX_MR_BYTES, 0), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_publish(export, &id, NULL, 0), RSM_SUCCESS);
	pair_send(pair, &node, sizeof(node));
	pair_barrier(pair);
	CHECK(pair, pair_pattern_check(memory, MAX_MR_BYTES, 5) == MAX_MR_BYTES, "what was put is wrong");
	RSM_CHECK(pair, rsm_memseg_export_destroy(export), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_release_controller(controller), RSM_SUCCESS);
	free(memory);
}

static void
imports_client(struct pair *pair)
{
	rsmapi_controller_handle_t controller = open_port(pair);
	rsm_memseg_import_handle_t imports[MOST];
	rsmapi_barrier_t barrier = {0};
	uint8_t *data = malloc(MAX_MR_BYTES);
	rsm_node_id_t node;
	uint32_t n = 0;
	int result;

	pair_recv(pair, &node, sizeof(node));
	for (uint32_t round = 0, before = 0; round < 2; round++, before = n) {
		for (n = 0; (result = rsm_memseg_import_connect(controller, node, SEGMENT, RSM_PERM_RDWR,
								&imports[n])) == RSM_SUCCESS;)
			n++;
		CHECK(pair, result == RSMERR_INSUFFICIENT_RESOURCES, "import %u: %d", n, result);
		CHECK(pair, n > 1 && n <= MAX_CQ, "%u imports", n);
		CHECK(pair, round == 0 || n == before, "%u imports, and then %u", before, n);
		if (round == 0)
			for (uint32_t i = 0; i < n; i++)
				RSM_CHECK(pair, rsm_memseg_import_disconnect(imports[i]), RSM_SUCCESS);
	}
	/* Existing imports work, although their rings hold only a few transfers. */
	RSM_CHECK(pair, rsm_memseg_import_init_barrier(imports[n - 1], RSM_BAR_DEFAULT, &barrier),
		  RSM_SUCCESS);
	pair_pattern(data, MAX_MR_BYTES, 5);
	RSM_CHECK(pair, rsm_memseg_import_put(imports[n - 1], 0, data, MAX_MR_BYTES), RSM_SUCCESS);
	memset(data, 0, MAX_MR_BYTES);
	RSM_CHECK(pair, rsm_memseg_import_get(imports[n - 1], 0, data, MAX_MR_BYTES), RSM_SUCCESS);
	CHECK(pair, pair_pattern_check(data, MAX_MR_BYTES, 5) == MAX_MR_BYTES, "what was got is wrong");
	while (n > 0)
		RSM_CHECK(pair, rsm_memseg_import_disconnect(imports[--n]), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_release_controller(controller), RSM_SUCCESS);
	free(data);
	pair_barrier(pair);
}

static const struct pair_case cases[] = {
	{"limits_exports", exports_server, exports_client, false},
	{"limits_imports", imports_server, imports_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

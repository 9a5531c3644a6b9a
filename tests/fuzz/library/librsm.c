/* SPDX-License-Identifier: BSD-3-Clause */
/* An RSM program on a hostile data plane: malformed replies, completions of transfers that never began,
 * segments that change under it, and anything in the arena. Data may be nonsense, but the program's memory
 * stays intact, and no call waits for ever. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rsmapi.h>

#include "liar.h"

#define IMPORTS 3u
#define EXPORTS 2u
#define PAGE 4096u
#define SLOW_GET 40000u /* more than a chunk of the staging ring */

static rsmapi_controller_handle_t controller[2]; /* of a port, and of loopback */
static rsm_memseg_import_handle_t import[IMPORTS];
static rsm_memseg_export_handle_t export[EXPORTS];
static rsmapi_barrier_t barrier[IMPORTS];
static void *window[IMPORTS];
static rsm_localmemory_handle_t local;
static uint8_t *pages; /* two for each export, two for the local handle */
static uint8_t polled; /* exports whose descriptor is held */

static void
set_up(void)
{
	char port[] = "p0", other[] = "P01";

	memset(import, 0, sizeof(import));
	memset(export, 0, sizeof(export));
	memset(barrier, 0, sizeof(barrier));
	memset(window, 0, sizeof(window));
	controller[0] = controller[1] = NULL;
	local = NULL;
	polled = 0;
	pages = mmap(NULL, (EXPORTS + 1) * 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (pages == MAP_FAILED)
		fuzz_fail("no memory");
	if (rsm_get_controller(port, &controller[0]) != RSM_SUCCESS)
		rsm_get_controller(other, &controller[0]);
	rsm_get_controller(NULL, &controller[1]);
}

static void
forget_import(uint32_t i)
{
	rsm_memseg_import_unmap(import[i]);
	if (barrier[i].seg != NULL)
		rsm_memseg_import_destroy_barrier(&barrier[i]);
	if (rsm_memseg_import_disconnect(import[i]) == RSM_SUCCESS)
		import[i] = NULL;
	window[i] = NULL;
}

static void
forget_export(uint32_t i)
{
	if ((polled >> i & 1) != 0)
		rsm_memseg_release_pollfd(export[i]);
	polled &= (uint8_t) ~(1u << i);
	if (rsm_memseg_export_destroy(export[i]) == RSM_SUCCESS)
		export[i] = NULL;
}

static void
tear_down(void)
{
	for (uint32_t i = 0; i < IMPORTS; i++)
		forget_import(i);
	for (uint32_t i = 0; i < EXPORTS; i++)
		forget_export(i);
	if (local != NULL)
		rsm_free_localmemory_handle(controller[0], local);
	for (int i = 0; i < 2; i++)
		if (controller[i] != NULL)
			rsm_release_controller(controller[i]);
	munmap(pages, (EXPORTS + 1) * 2 * PAGE);
}

/* ---- what the program does ---- */

static void
connect_import(struct bytes *record)
{
	uint32_t i = (uint32_t)record_number(record, 1) % IMPORTS;
	uint8_t how = (uint8_t)record_number(record, 1);

	liar.outcome = (uint8_t)record_number(record, 1);
	forget_import(i);
	if (rsm_memseg_import_connect(controller[how % 2], how % 2 == 0 ? 2 : 1, 0x500000, RSM_PERM_RDWR,
				      &import[i]) != RSM_SUCCESS)
		return;
	if ((how & 2) == 0)
		rsm_memseg_import_init_barrier(import[i], RSM_BARRIER_NODE, &barrier[i]);
	if ((how & 4) != 0)
		rsm_memseg_import_set_mode(import[i], RSM_BARRIER_MODE_EXPLICIT);
}

/* Transfers from and to memory of exactly this length. */
static void
transfer(struct bytes *record)
{
	rsm_memseg_import_handle_t with = import[record_number(record, 1) % IMPORTS];
	uint8_t what = (uint8_t)record_number(record, 1);
	off_t offset = (off_t)record_number(record, 2);
	size_t len = (what & 8) != 0 ? SLOW_GET : 1 + (size_t)record_number(record, 1);
	uint8_t *memory = calloc(1, len);

	switch (what % 8) {
	case 0:
		rsm_memseg_import_get(with, offset, memory, len);
		break;
	case 1:
	case 2:
		rsm_memseg_import_put(with, offset, memory, len);
		break;
	case 3:
		rsm_memseg_import_get64(with, offset, (uint64_t *)(void *)memory, len / 8);
		break;
	case 4:
		rsm_memseg_import_put32(with, offset, (uint32_t *)(void *)memory, len / 4);
		break;
	case 5:
		rsm_memseg_import_get16(with, offset, (uint16_t *)(void *)memory, len / 2);
		break;
	case 6:
		rsm_memseg_import_put8(with, offset, memory, len);
		break;
	default:
		rsm_memseg_import_get8(with, offset, memory, len);
		break;
	}
	/* A get in a span is complete once the span is closed. */
	for (uint32_t i = 0; i < IMPORTS; i++)
		if (import[i] == with && barrier[i].seg != NULL)
			rsm_memseg_import_order_barrier(&barrier[i]);
	free(memory);
}

static void
vector(struct bytes *record)
{
	uint8_t memory[64] = {0}, what;
	rsm_iovec_t piece[2] = {{.io_type = RSM_VA_TYPE, .transfer_length = 33},
				{.io_type = RSM_HANDLE_TYPE, .transfer_length = 2 * PAGE}};
	rsm_scat_gath_t all = {.io_request_count = 2, .iovec = piece};

	all.remote_handle = import[record_number(record, 1) % IMPORTS];
	what = (uint8_t)record_number(record, 1);
	all.flags = what >> 6;
	piece[0].local.vaddr = (caddr_t)memory;
	piece[1].local.handle = local;
	piece[1].remote_offset = what & 0x3c;
	if (what % 2 == 0)
		rsm_memseg_import_putv(&all);
	else
		rsm_memseg_import_getv(&all);
}

static void
barriers(struct bytes *record)
{
	uint32_t i = (uint32_t)record_number(record, 1) % IMPORTS;

	switch (record_number(record, 1) % 4) {
	case 0:
		rsm_memseg_import_open_barrier(&barrier[i]);
		break;
	case 1:
		rsm_memseg_import_order_barrier(&barrier[i]);
		break;
	case 2:
		rsm_memseg_import_close_barrier(&barrier[i]);
		break;
	default:
		rsm_memseg_import_set_mode(import[i], (rsm_barrier_mode_t)(record_number(record, 1) % 2));
		break;
	}
}

static void
map(struct bytes *record)
{
	uint32_t i = (uint32_t)record_number(record, 1) % IMPORTS;
	uint8_t how = (uint8_t)record_number(record, 1);

	if ((how & 1) != 0)
		rsm_memseg_import_unmap(import[i]);
	else
		rsm_memseg_import_map(import[i], &window[i], RSM_MAP_NONE,
				      (how & 2) != 0 ? RSM_PERM_READ : RSM_PERM_RDWR, (how >> 2) % 4 * PAGE,
				      2 * PAGE);
}

static void
signals(struct bytes *record)
{
	uint8_t which = (uint8_t)record_number(record, 1), what = (uint8_t)record_number(record, 1);
	uint32_t i = which % (IMPORTS + EXPORTS);
	void *segment = i < IMPORTS ? (void *)import[i] : (void *)export[i - IMPORTS];
	struct pollfd fd;
	int num;

	if (what % 4 == 0) {
		rsm_intr_signal_post(segment, what >> 6);
	} else if (what % 4 == 1) {
		rsm_intr_signal_wait(segment, what >> 6);
	} else if (i >= IMPORTS && (polled >> (i - IMPORTS) & 1) == 0 && what % 4 == 2) {
		if (rsm_memseg_get_pollfd(segment, &fd) != RSM_SUCCESS)
			return;
		polled |= (uint8_t)(1u << (i - IMPORTS));
		rsm_intr_signal_wait_pollfd(&fd, 1, 0, &num);
	}
}

static void
exports(struct bytes *record)
{
	uint32_t i = (uint32_t)record_number(record, 1) % EXPORTS;
	uint8_t what = (uint8_t)record_number(record, 1);
	rsmapi_access_entry_t list[2] = {{.ae_node = 1, .ae_permission = 0660}, {.ae_node = 2}};
	rsm_memseg_id_t id = what >= 0x80 ? 0 : 0x500001u + i;

	switch (what % 6) {
	case 0:
		forget_export(i);
		rsm_memseg_export_create(controller[what >> 6 & 1], &export[i], pages + 2 * i * PAGE,
					 2 * PAGE, RSM_ALLOW_REBIND);
		break;
	case 1:
		rsm_memseg_export_publish(export[i], &id, (what & 8) != 0 ? list : NULL,
					  (what & 8) != 0 ? 2 : 0);
		break;
	case 2:
		rsm_memseg_export_unpublish(export[i]);
		break;
	case 3:
		rsm_memseg_export_republish(export[i], list, 2);
		break;
	case 4:
		rsm_memseg_export_rebind(export[i], pages + 2 * (1 - i) * PAGE, 0, 2 * PAGE);
		break;
	default:
		forget_export(i);
		break;
	}
}

static void
others(struct bytes *record)
{
	rsmapi_controller_attr_t attr;
	rsm_topology_t *topology;
	char name[] = "P0";

	switch (record_number(record, 1) % 5) {
	case 0:
		if (rsm_get_interconnect_topology(&topology) != RSM_SUCCESS)
			break;
		for (uint32_t i = 0; i < topology->topology_hdr.local_cntlr_count; i++)
			if (memchr(topology->connections[i]->hdr.cntlr_name, 0, MAXNAMELEN) == NULL)
				fuzz_fail("a name without an end");
		rsm_free_interconnect_topology(topology);
		break;
	case 1:
		rsm_get_controller_attr(controller[0], &attr);
		break;
	case 2:
		if (local != NULL)
			rsm_free_localmemory_handle(controller[0], local);
		local = NULL;
		rsm_create_localmemory_handle(controller[0], &local, (caddr_t)pages + EXPORTS * 2 * PAGE,
					      2 * PAGE);
		break;
	case 3:
		liar.serves = !liar.serves;
		break;
	default:
		if (controller[0] != NULL && rsm_release_controller(controller[0]) == RSM_SUCCESS)
			controller[0] = NULL;
		rsm_get_controller(name, &controller[0]);
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static liar_kind *const kinds[] = {liar_complete,  liar_progress,  liar_poke,      liar_lie,
					   connect_import, connect_import, transfer,       transfer,
					   transfer,       vector,         barriers,       map,
					   signals,        exports,        liar_count_one, others};
	struct bytes input = {data, size};

	liar_begin();
	liar.serves = true;
	liar_start(&input);
	set_up();
	while (liar_step(&input, kinds, sizeof(kinds) / sizeof(kinds[0])))
		;
	liar_be_patient();
	tear_down();
	liar_end();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* RSMAPI between two applications: data by every call, rights, loss of the exporter. */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rsm_pair.h"

#define NOBODY 65534u

/* ---- data ---- */

static const size_t sizes[] = {1, 2, 7, 8, 24, 25, 100, 1023, 1025, 4096, 65537, 1048576, 3000001};
#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void
data_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	for (size_t k = 0; k < NUM_SIZES; k++) {
		memset(e.base, 0xEE, SIZE);
		pair_barrier(pair);
		pair_barrier(pair); /* the importer has put */
		CHECK(pair, pair_pattern_check(e.base + 64 + k, sizes[k], (uint32_t)k) == sizes[k],
		      "put of %zu bytes: wrong data", sizes[k]);
		CHECK(pair, e.base[63 + k] == 0xEE && e.base[64 + k + sizes[k]] == 0xEE,
		      "put of %zu bytes: went outside", sizes[k]);
		pair_barrier(pair);
	}
	pair_barrier(pair); /* the importer has put elements and vectors */
	for (uint32_t k = 0; k < 1000; k++) {
		CHECK(pair, ((uint64_t *)(void *)e.base)[k] == 0x1122334455667788ull + k, "put64: element %u",
		      k);
		CHECK(pair, ((uint32_t *)(void *)(e.base + 65536))[k] == 0x11223344u + k, "put32: element %u",
		      k);
		CHECK(pair, ((uint16_t *)(void *)(e.base + 131072))[k] == (uint16_t)(0x1122u + k),
		      "put16: element %u", k);
		CHECK(pair, e.base[196608 + k] == (uint8_t)k, "put8: element %u", k);
	}
	for (uint32_t k = 0; k < 16; k++)
		CHECK(pair, pair_pattern_check(e.base + 262144 + k * 5000, 4999, 500 + k) == 4999,
		      "putv: entry %u", k);
	pair_barrier(pair);
	pair_barrier(pair);
	exporter_close(&e, pair);
}

static void
vectors(struct importer *i, struct pair *pair, uint8_t *buffer, rsm_localmemory_handle_t local)
{
	rsm_iovec_t iovec[16];
	rsm_scat_gath_t sg = {.io_request_count = 16, .remote_handle = i->import, .iovec = iovec};

	memset(iovec, 0, sizeof(iovec));
	for (uint32_t k = 0; k < 16; k++) {
		pair_pattern(buffer + k * 5000, 4999, 500 + k);
		iovec[k].io_type = k % 2 == 0 ? RSM_VA_TYPE : RSM_HANDLE_TYPE;
		if (k % 2 == 0) {
			iovec[k].local.vaddr = (caddr_t)buffer;
		} else {
			iovec[k].local.handle = local;
		}
		iovec[k].local_offset = k * 5000;
		iovec[k].remote_offset = 262144 + k * 5000;
		iovec[k].transfer_length = 4999;
	}
	RSM_CHECK(pair, rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	CHECK(pair, sg.io_residual_count == 0, "putv: residual count %lu", sg.io_residual_count);
	memset(buffer, 0, 16 * 5000);
	RSM_CHECK(pair, rsm_memseg_import_getv(&sg), RSM_SUCCESS);
	for (uint32_t k = 0; k < 16; k++)
		CHECK(pair, pair_pattern_check(buffer + k * 5000, 4999, 500 + k) == 4999, "getv: entry %u",
		      k);
	/* The first entry outside the segment ends the vector: three entries are not done. */
	iovec[13].remote_offset = SIZE - 100;
	CHECK(pair, rsm_memseg_import_putv(&sg) != RSM_SUCCESS, "putv beyond the segment succeeded");
	CHECK(pair, sg.io_residual_count == 3, "putv beyond the segment: residual count %lu",
	      sg.io_residual_count);
}

static void
data_client(struct pair *pair)
{
	uint8_t *buffer = aligned_alloc(4096, SIZE), *odd = malloc(SIZE + 3);
	rsm_localmemory_handle_t local;
	struct importer i;
	uint64_t v64[1000];
	uint32_t v32[1000];
	uint16_t v16[1000];
	uint8_t v8[1000];

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_create_localmemory_handle(i.controller, &local, (caddr_t)buffer, SIZE),
		  RSM_SUCCESS);
	for (size_t k = 0; k < NUM_SIZES; k++) {
		/* Alternate between memory with a local memory handle and memory without. */
		uint8_t *from = k % 2 == 0 ? buffer : odd + 1;

		pair_barrier(pair);
		pair_pattern(from, sizes[k], (uint32_t)k);
		RSM_CHECK(pair, rsm_memseg_import_put(i.import, (off_t)(64 + k), from, sizes[k]),
			  RSM_SUCCESS);
		memset(from, 0, sizes[k]);
		RSM_CHECK(pair, rsm_memseg_import_get(i.import, (off_t)(64 + k), from, sizes[k]),
			  RSM_SUCCESS);
		CHECK(pair, pair_pattern_check(from, sizes[k], (uint32_t)k) == sizes[k],
		      "get of %zu bytes: wrong data", sizes[k]);
		pair_barrier(pair);
		pair_barrier(pair);
	}
	for (uint32_t k = 0; k < 1000; k++) {
		v64[k] = 0x1122334455667788ull + k;
		v32[k] = 0x11223344u + k;
		v16[k] = (uint16_t)(0x1122u + k);
		v8[k] = (uint8_t)k;
	}
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, 0, v64, 1000), RSM_SUCCESS);
	/* In explicit mode, closing the barrier reports the result of all puts. */
	RSM_CHECK(pair, rsm_memseg_import_set_mode(i.import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_open_barrier(&i.barrier), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put32(i.import, 65536, v32, 1000), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_order_barrier(&i.barrier), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put16(i.import, 131072, v16, 1000), RSM_SUCCESS);
	for (uint32_t k = 0; k < 1000; k++)
		RSM_CHECK(pair, rsm_memseg_import_put8(i.import, (off_t)(196608 + k), &v8[k], 1),
			  RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_close_barrier(&i.barrier), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_set_mode(i.import, RSM_BARRIER_MODE_IMPLICIT), RSM_SUCCESS);
	memset(v64, 0, sizeof(v64));
	RSM_CHECK(pair, rsm_memseg_import_get64(i.import, 0, v64, 1000), RSM_SUCCESS);
	for (uint32_t k = 0; k < 1000; k++)
		CHECK(pair, v64[k] == 0x1122334455667788ull + k, "get64: element %u", k);
	vectors(&i, pair, buffer, local);
	pair_barrier(pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_free_localmemory_handle(i.controller, local), RSM_SUCCESS);
	importer_disconnect(&i, pair);
	RSM_CHECK(pair, rsm_release_controller(i.controller), RSM_SUCCESS);
	pair_barrier(pair);
}

/* ---- nothing to connect to; ids ---- */

static void
wrong_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	e.id = 0;
	RSM_CHECK(pair, rsm_memseg_export_publish(e.export, &e.id, NULL, 0), RSM_SUCCESS);
	CHECK(pair, e.id >= 0x80000000u, "an automatic segment id of 0x%x", e.id);
	exporter_close(&e, pair);
}

static void
wrong_client(struct pair *pair)
{
	rsm_memseg_import_handle_t import;
	struct importer i;

	importer_open(&i, pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_import_connect(i.controller, i.node, SEGMENT + 1, RSM_PERM_RDWR, &import),
		  RSMERR_SEG_NOT_PUBLISHED);
	RSM_CHECK(pair, rsm_memseg_import_connect(i.controller, 55, SEGMENT, RSM_PERM_RDWR, &import),
		  RSMERR_REMOTE_NODE_UNREACHABLE);
	RSM_CHECK(pair, rsm_release_controller(i.controller), RSM_SUCCESS);
	pair_barrier(pair);
}

/* ---- who may connect ---- */

static void
access_server(struct pair *pair)
{
	static const rsm_permission_t modes[] = {0600, 0666, 0604, 0602, 0000};
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	for (size_t k = 0; k < 5; k++) {
		publish(&e, pair, peer, modes[k]);
		pair_barrier(pair);
		pair_barrier(pair);
		RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	}
	/* Publish to a list without the importer's node. */
	publish(&e, pair, peer == 60 ? 61 : 60, 0666);
	pair_barrier(pair);
	pair_barrier(pair);
	/* Rights are fixed at connect: a narrower list only affects later connections. */
	RSM_CHECK(pair,
		  rsm_memseg_export_republish(
			  e.export, &(rsmapi_access_entry_t){.ae_node = peer, .ae_permission = 0666}, 1),
		  RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	RSM_CHECK(pair,
		  rsm_memseg_export_republish(
			  e.export, &(rsmapi_access_entry_t){.ae_node = peer, .ae_permission = 0444}, 1),
		  RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	exporter_close(&e, pair);
}

static void
try(struct importer *i, struct pair *pair, rsm_permission_t permission, int expected)
{
	rsm_memseg_import_handle_t import;

	RSM_CHECK(pair, rsm_memseg_import_connect(i->controller, i->node, SEGMENT, permission, &import),
		  expected);
	if (expected == RSM_SUCCESS)
		RSM_CHECK(pair, rsm_memseg_import_disconnect(import), RSM_SUCCESS);
}

static void
access_client(struct pair *pair)
{
	/* Results of another user's reading and writing, for modes 0600, 0666, 0604, 0602, 0. */
	static const int reading[] = {RSMERR_PERM_DENIED, RSM_SUCCESS, RSM_SUCCESS, RSMERR_PERM_DENIED,
				      RSMERR_PERM_DENIED};
	static const int writing[] = {RSMERR_PERM_DENIED, RSM_SUCCESS, RSMERR_PERM_DENIED, RSM_SUCCESS,
				      RSMERR_PERM_DENIED};
	struct importer i;
	uint64_t v = 7;

	/*
	 * A root process becomes another user before it attaches. Any other process remains the exporter's
	 * user, for whom the owner's digit applies.
	 */
	bool other = geteuid() == 0;

	if (other)
		CHECK(pair, setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0,
		      "setresuid: %s", strerror(errno));
	importer_open(&i, pair);
	for (size_t k = 0; k < 5; k++) {
		int r = other || k == 4 ? reading[k] : RSM_SUCCESS,
		    w = other || k == 4 ? writing[k] : RSM_SUCCESS;

		pair_barrier(pair);
		try(&i, pair, RSM_PERM_READ, r);
		try(&i, pair, RSM_PERM_WRITE, w);
		try(&i, pair, RSM_PERM_RDWR,
		    r == RSM_SUCCESS && w == RSM_SUCCESS ? RSM_SUCCESS : RSMERR_PERM_DENIED);
		pair_barrier(pair);
	}
	pair_barrier(pair);
	try(&i, pair, RSM_PERM_READ, RSMERR_SEG_NOT_PUBLISHED_TO_NODE);
	pair_barrier(pair);
	pair_barrier(pair);
	/* A connection allows only the accesses requested at connect. */
	importer_connect(&i, pair, RSM_PERM_READ);
	RSM_CHECK(pair, rsm_memseg_import_get64(i.import, 0, &v, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, 0, &v, 1), RSMERR_PERM_DENIED);
	importer_disconnect(&i, pair);
	importer_connect(&i, pair, RSM_PERM_WRITE);
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, 0, &v, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_get64(i.import, 0, &v, 1), RSMERR_PERM_DENIED);
	pair_barrier(pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, 0, &v, 1), RSM_SUCCESS);
	if (other)
		try(&i, pair, RSM_PERM_WRITE, RSMERR_PERM_DENIED);
	try(&i, pair, RSM_PERM_READ, RSM_SUCCESS);
	importer_disconnect(&i, pair);
	pair_barrier(pair);
}

/* ---- the exporter withdraws the segment ---- */

static void
withdraw_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has used the segment */
	RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	memset(e.base, 0x5A, SIZE);
	pair_barrier(pair);
	pair_barrier(pair);
	for (size_t k = 0; k < SIZE; k++)
		CHECK(pair, e.base[k] == 0x5A, "byte %zu was put after unpublish", k);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair);
	exporter_close(&e, pair);
}

static void
withdraw_client(struct pair *pair)
{
	struct importer i;
	uint64_t v = 1;

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, 0, &v, 1), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, 0, &v, 1), RSMERR_CONN_ABORTED);
	RSM_CHECK(pair, rsm_memseg_import_get64(i.import, 0, &v, 1), RSMERR_CONN_ABORTED);
	importer_disconnect(&i, pair);
	try(&i, pair, RSM_PERM_RDWR, RSMERR_SEG_NOT_PUBLISHED);
	pair_barrier(pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, 0, &v, 1), RSM_SUCCESS);
	importer_disconnect(&i, pair);
	pair_barrier(pair);
}

/* ---- the exporter is killed ---- */

static void
killed_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	for (;;)
		pause();
}

static void
killed_client(struct pair *pair)
{
	uint8_t *buffer = malloc(1 << 20);
	struct importer i;
	uint64_t start, killed_at = 0;
	int error;

	memset(buffer, 3, 1 << 20);
	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	start = pair_now_ms();
	do {
		error = rsm_memseg_import_put(i.import, 100, buffer, 1 << 20);
		if (killed_at == 0 && pair_now_ms() - start > 300) {
			CHECK(pair, kill(pair->peer, SIGKILL) == 0, "kill");
			killed_at = pair_now_ms();
		}
		CHECK(pair, killed_at == 0 || pair_now_ms() - killed_at < 10000 * PAIR_SHARE,
		      "puts still succeed long after the kill");
	} while (error == RSM_SUCCESS);
	CHECK(pair, error == RSMERR_CONN_ABORTED, "put after the exporter's death: %d", error);
	importer_disconnect(&i, pair);
	start = pair_now_ms();
	do {
		error = rsm_memseg_import_connect(i.controller, i.node, SEGMENT, RSM_PERM_RDWR, &i.import);
	} while (error == RSM_SUCCESS && pair_now_ms() - start < 2000 * PAIR_SHARE);
	CHECK(pair, error == RSMERR_SEG_NOT_PUBLISHED, "connect after the exporter's death: %d", error);
	RSM_CHECK(pair, rsm_release_controller(i.controller), RSM_SUCCESS);
}

/* ---- members of the exporter's group ---- */

static const struct {
	rsm_permission_t mode;
	int reading, writing;
} group_modes[] = {
	{0660, RSM_SUCCESS, RSM_SUCCESS},
	{0640, RSM_SUCCESS, RSMERR_PERM_DENIED},
	{0624, RSMERR_PERM_DENIED, RSM_SUCCESS}, /* only the group's digit applies, though others may read */
	{0606, RSMERR_PERM_DENIED, RSMERR_PERM_DENIED},
	{0600, RSMERR_PERM_DENIED, RSMERR_PERM_DENIED},
	{0666, RSM_SUCCESS, RSM_SUCCESS},
};
#define NUM_GROUP_MODES (sizeof(group_modes) / sizeof(group_modes[0]))

static void
group_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	for (size_t k = 0; k < NUM_GROUP_MODES; k++) {
		publish(&e, pair, peer, group_modes[k].mode);
		pair_barrier(pair);
		pair_barrier(pair);
		RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	}
	exporter_close(&e, pair);
}

/* Becomes another user, with the exporter's group among several, if this process is root. */
static void
group_client(struct pair *pair)
{
	const gid_t groups[2] = {NOBODY, getegid()};
	bool member = geteuid() == 0;
	struct importer i;

	if (member)
		CHECK(pair,
		      setgroups(2, groups) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
			      setresuid(NOBODY, NOBODY, NOBODY) == 0,
		      "setgroups, setresgid, setresuid: %s", strerror(errno));
	importer_open(&i, pair);
	for (size_t k = 0; k < NUM_GROUP_MODES; k++) {
		int r = member ? group_modes[k].reading : RSM_SUCCESS;
		int w = member ? group_modes[k].writing : RSM_SUCCESS;

		pair_barrier(pair);
		try(&i, pair, RSM_PERM_READ, r);
		try(&i, pair, RSM_PERM_WRITE, w);
		try(&i, pair, RSM_PERM_RDWR,
		    r == RSM_SUCCESS && w == RSM_SUCCESS ? RSM_SUCCESS : RSMERR_PERM_DENIED);
		pair_barrier(pair);
	}
	RSM_CHECK(pair, rsm_release_controller(i.controller), RSM_SUCCESS);
}

/* ---- dropped rights, and more groups than fit into a request ---- */

#define MANY 100u
#define LAST_GROUP 5000u /* the highest: the kernel sorts groups */

static void
group_list_server(struct pair *pair, const rsm_permission_t *mode, uint32_t num)
{
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	for (uint32_t k = 0; k < num; k++) {
		publish(&e, pair, peer, mode[k]);
		pair_barrier(pair);
		pair_barrier(pair);
		RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	}
	exporter_close(&e, pair);
}

static const rsm_permission_t dropped_modes[] = {0600, 0606};

static void
dropped_server(struct pair *pair)
{
	group_list_server(pair, dropped_modes, 2);
}

static void
dropped_client(struct pair *pair)
{
	bool root = geteuid() == 0;
	struct importer i;

	importer_open(&i, pair);
	pair_barrier(pair);
	try(&i, pair, RSM_PERM_RDWR, RSM_SUCCESS);
	if (root)
		CHECK(pair,
		      setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
			      setresuid(NOBODY, NOBODY, NOBODY) == 0,
		      "setgroups, setresgid, setresuid: %s", strerror(errno));
	try(&i, pair, RSM_PERM_RDWR, root ? RSMERR_PERM_DENIED : RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	try(&i, pair, RSM_PERM_RDWR, RSM_SUCCESS);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_release_controller(i.controller), RSM_SUCCESS);
}

/* The exporter's group is the last of the importer's 100. */
static const rsm_permission_t groups_modes[] = {0660, 0606, 0666, 0644};

static void
groups_server(struct pair *pair)
{
	if (geteuid() == 0)
		CHECK(pair, setegid(LAST_GROUP) == 0, "setegid: %s", strerror(errno));
	group_list_server(pair, groups_modes, 4);
}

static void
groups_client(struct pair *pair)
{
	bool root = geteuid() == 0;
	/*
	 * A request to another node cannot list all groups: the node grants the rights that do not depend on
	 * the unlisted ones.
	 */
	int group = !root || pair->local ? RSM_SUCCESS : RSMERR_PERM_DENIED;
	gid_t groups[MANY];
	struct importer i;

	for (uint32_t k = 0; k < MANY; k++)
		groups[k] = LAST_GROUP - k;
	if (root)
		CHECK(pair,
		      setgroups(MANY, groups) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
			      setresuid(NOBODY, NOBODY, NOBODY) == 0,
		      "setgroups, setresgid, setresuid: %s", strerror(errno));
	importer_open(&i, pair);
	pair_barrier(pair);
	try(&i, pair, RSM_PERM_RDWR, group);
	pair_barrier(pair);
	pair_barrier(pair);
	try(&i, pair, RSM_PERM_READ, root ? RSMERR_PERM_DENIED : RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	try(&i, pair, RSM_PERM_RDWR, RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	try(&i, pair, RSM_PERM_READ, RSM_SUCCESS);
	try(&i, pair, RSM_PERM_RDWR, root ? RSMERR_PERM_DENIED : RSM_SUCCESS);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_release_controller(i.controller), RSM_SUCCESS);
}

/* ---- loopback ---- */

static void
loopback_server(struct pair *pair)
{
	static char port[] = "p0", name[] = "LoopBack3";
	rsmapi_access_entry_t list[2] = {{.ae_permission = 0666}, {.ae_node = 63, .ae_permission = 0666}};
	rsmapi_controller_handle_t controller, by_null, interconnect;
	rsm_memseg_export_handle_t export;
	rsmapi_controller_attr_t attr;
	rsm_memseg_id_t id = SEGMENT;
	uint8_t *memory = aligned_alloc(4096, SIZE);
	rsm_node_id_t node = own_node(pair), peer;

	pair_send(pair, &node, sizeof(node));
	pair_recv(pair, &peer, sizeof(peer));
	memset(memory, 0x19, SIZE);
	RSM_CHECK(pair, rsm_get_controller(name, &controller), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_get_controller(NULL, &by_null), RSM_SUCCESS);
	CHECK(pair, by_null == controller, "there are two loopback controllers");
	RSM_CHECK(pair, rsm_release_controller(by_null), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_get_controller(port, &interconnect), RSM_SUCCESS);
	CHECK(pair, interconnect != controller, "loopback is the port itself");
	RSM_CHECK(pair, rsm_get_controller_attr(controller, &attr), RSM_SUCCESS);
	CHECK(pair, attr.attr_direct_access_sizes == 0xf && attr.attr_page_size == 4,
	      "attributes: %#x, page size %#zx", attr.attr_direct_access_sizes, attr.attr_page_size);
	RSM_CHECK(pair, rsm_memseg_export_create(controller, &export, memory, SIZE, 0), RSM_SUCCESS);
	list[0].ae_node = node;
	RSM_CHECK(pair, rsm_memseg_export_publish(export, &id, list, 2), RSMERR_BAD_ACL);
	RSM_CHECK(pair, rsm_memseg_export_publish(export, &id, list + 1, 1), RSMERR_BAD_ACL);
	RSM_CHECK(pair, rsm_memseg_export_publish(export, &id, list, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_republish(export, list, 2), RSMERR_BAD_ACL);
	pair_barrier(pair);
	pair_barrier(pair);
	/* Without a list, only this node may connect. */
	RSM_CHECK(pair, rsm_memseg_export_republish(export, NULL, 0), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	CHECK(pair, !pair->local || memory[8] == 0x91, "a put through loopback is not seen");
	RSM_CHECK(pair, rsm_memseg_export_destroy(export), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_release_controller(controller), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_release_controller(controller), RSMERR_BAD_CTLR_HNDL);
	RSM_CHECK(pair, rsm_release_controller(interconnect), RSM_SUCCESS);
	free(memory);
}

static void
loopback_client(struct pair *pair)
{
	static char port[] = "p0";
	rsmapi_controller_handle_t controller, interconnect;
	rsm_memseg_import_handle_t import;
	rsmapi_barrier_t barrier = {0};
	rsm_node_id_t node = own_node(pair), peer;
	uint8_t byte = 0;
	void *address = NULL;

	pair_recv(pair, &peer, sizeof(peer));
	pair_send(pair, &node, sizeof(node));
	RSM_CHECK(pair, rsm_get_controller(NULL, &controller), RSM_SUCCESS);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_import_connect(controller, node == 1 ? 2 : 1, SEGMENT, 0600, &import),
		  RSMERR_CTLR_NOT_PRESENT);
	RSM_CHECK(pair, rsm_memseg_import_connect(controller, node, SEGMENT + 9, 0600, &import),
		  RSMERR_SEG_NOT_PUBLISHED);
	/* The loopback controller gives no access to segments of other nodes. */
	RSM_CHECK(pair, rsm_memseg_import_connect(controller, peer, SEGMENT, 0600, &import),
		  pair->local ? RSM_SUCCESS : RSMERR_CTLR_NOT_PRESENT);
	if (pair->local) {
		RSM_CHECK(pair, rsm_memseg_import_init_barrier(import, RSM_BAR_DEFAULT, &barrier),
			  RSM_SUCCESS);
		RSM_CHECK(pair, rsm_memseg_import_get8(import, 7, &byte, 1), RSM_SUCCESS);
		CHECK(pair, byte == 0x19, "get8: %#x", byte);
		RSM_CHECK(pair, rsm_memseg_import_map(import, &address, RSM_MAP_NONE, 0600, 0, SIZE),
			  RSM_SUCCESS);
		byte = 0x91;
		RSM_CHECK(pair, rsm_memseg_import_put8(import, 8, &byte, 1), RSM_SUCCESS);
		RSM_CHECK(pair, rsm_memseg_import_unmap(import), RSM_SUCCESS);
	}
	pair_barrier(pair);
	if (pair->local)
		RSM_CHECK(pair, rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_get_controller(port, &interconnect), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_connect(interconnect, peer, SEGMENT, RSM_PERM_READ, &import),
		  pair->local ? RSM_SUCCESS : RSMERR_SEG_NOT_PUBLISHED_TO_NODE);
	if (pair->local)
		RSM_CHECK(pair, rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_release_controller(interconnect), RSM_SUCCESS);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_release_controller(controller), RSM_SUCCESS);
}

static const struct pair_case cases[] = {
	{"data", data_server, data_client, false},
	{"wrong", wrong_server, wrong_client, false},
	{"access", access_server, access_client, false},
	{"group", group_server, group_client, false},
	{"dropped", dropped_server, dropped_client, false},
	{"groups", groups_server, groups_client, false},
	{"withdraw", withdraw_server, withdraw_client, false},
	{"killed", killed_server, killed_client, true},
	{"loopback", loopback_server, loopback_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table that programs of one host share by mapping an RSM segment: they use loads, stores and atomic
 * operations of the processor, without calls.
 *
 *   rsm_table own CONTROLLER SEGMENT MEMBERS               makes it, waits for MEMBERS members, prints it
 *   rsm_table join CONTROLLER NODE SEGMENT NAME TIMES      takes a row, and counts TIMES times in it
 *
 *   cc rsm_table.c $(pkg-config --cflags --libs librsm) -o rsm_table
 *
 * Unlike with shared memory of the kernel, the owner grants mapping by an access list: from which node, and
 * with which rights. The owner can also withdraw the table at any time; programs that have mapped it then
 * keep a private copy of its last contents. Members on other nodes connect to the same segment and use put
 * and get.
 */
#include <errno.h>
#include <rsmapi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROWS 63u

/* A row fills a cache line, so that members do not slow each other down. */
struct row {
	_Atomic uint64_t member; /* process id; 0: free */
	_Atomic uint64_t count;
	_Atomic uint64_t done;
	char name[40];
};

struct table {
	_Atomic uint64_t total; /* sum over all rows: each member counts here, too */
	uint8_t pad[56];
	struct row row[ROWS];
};

/* ONESIDE_DEBUG=1 in the environment makes the library print why a call failed. */
static void
must(int result, const char *call)
{
	if (result == RSM_SUCCESS)
		return;
	fprintf(stderr, "rsm_table: %s: %s\n", call, rsm_strerror(result));
	exit(1);
}

static size_t
table_size(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (sizeof(struct table) + page - 1) / page * page;
}

static void
pause_ms(long ms)
{
	struct timespec moment = {.tv_nsec = ms * 1000000};

	nanosleep(&moment, NULL);
}

/* ---- the owner ---- */

static rsm_node_id_t
own_node(void)
{
	rsm_topology_t *topology;
	rsm_node_id_t node;

	must(rsm_get_interconnect_topology(&topology), "rsm_get_interconnect_topology");
	node = topology->topology_hdr.local_nodeid;
	rsm_free_interconnect_topology(topology);
	return node;
}

static uint64_t
members_done(struct table *table)
{
	uint64_t done = 0;

	for (uint32_t i = 0; i < ROWS; i++)
		done += atomic_load(&table->row[i].done);
	return done;
}

static uint64_t
print_rows(struct table *table)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ROWS; i++) {
		struct row *row = &table->row[i];

		if (atomic_load(&row->member) == 0)
			continue;
		printf("%.*s %lu\n", (int)sizeof(row->name), row->name, atomic_load(&row->count));
		sum += atomic_load(&row->count);
	}
	return sum;
}

static void
own(char *controller_name, rsm_memseg_id_t id, uint64_t members)
{
	struct table *table = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), table_size());
	rsmapi_controller_handle_t controller;
	rsm_memseg_export_handle_t segment;
	rsmapi_access_entry_t access;
	uint64_t sum;

	if (table == NULL) {
		fprintf(stderr, "rsm_table: no memory\n");
		exit(1);
	}
	memset(table, 0, table_size());
	must(rsm_get_controller(controller_name, &controller), "rsm_get_controller");
	must(rsm_memseg_export_create(controller, &segment, table, table_size(), 0),
	     "rsm_memseg_export_create");
	/* Only this node, our user and group, like file mode 0660. */
	access.ae_node = own_node();
	access.ae_permission = 0660;
	must(rsm_memseg_export_publish(segment, &id, &access, 1), "rsm_memseg_export_publish");
	printf("node %u segment %#x\n", access.ae_node, id);
	fflush(stdout);
	/* Each member signals when it is done; one signal may represent several members. */
	while (members_done(table) < members)
		must(rsm_intr_signal_wait(segment, -1), "rsm_intr_signal_wait");
	must(rsm_memseg_export_unpublish(segment), "rsm_memseg_export_unpublish");
	sum = print_rows(table);
	printf("total %lu\n", atomic_load(&table->total));
	must(rsm_memseg_export_destroy(segment), "rsm_memseg_export_destroy");
	must(rsm_release_controller(controller), "rsm_release_controller");
	if (sum != atomic_load(&table->total)) {
		fprintf(stderr, "rsm_table: the rows make %lu\n", sum);
		exit(1);
	}
	free(table);
}

/* ---- a member ---- */

static struct row *
take_row(struct table *table, const char *name)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		struct row *row = &table->row[i];
		uint64_t nobody = 0;

		/* Several members may compete for the row; one gets it. */
		if (atomic_compare_exchange_strong(&row->member, &nobody, (uint64_t)getpid())) {
			snprintf(row->name, sizeof(row->name), "%s", name);
			return row;
		}
	}
	fprintf(stderr, "rsm_table: all rows are taken\n");
	exit(1);
}

/* Retries until the owner has published the segment. */
static rsm_memseg_import_handle_t
connect_table(rsmapi_controller_handle_t controller, rsm_node_id_t node, rsm_memseg_id_t id)
{
	rsm_memseg_import_handle_t segment;
	int result;

	for (;;) {
		result = rsm_memseg_import_connect(controller, node, id, RSM_PERM_RDWR, &segment);
		if (result != RSMERR_SEG_NOT_PUBLISHED)
			break;
		pause_ms(10);
	}
	must(result, "rsm_memseg_import_connect");
	return segment;
}

static void
join(char *controller_name, rsm_node_id_t node, rsm_memseg_id_t id, const char *name, uint64_t times)
{
	rsmapi_controller_handle_t controller;
	rsm_memseg_import_handle_t segment;
	struct table *table;
	struct row *row;
	void *address;
	int result;

	must(rsm_get_controller(controller_name, &controller), "rsm_get_controller");
	segment = connect_table(controller, node, id);
	must(rsm_memseg_import_map(segment, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, table_size()),
	     "rsm_memseg_import_map");
	table = address;
	row = take_row(table, name);
	for (uint64_t i = 0; i < times; i++) {
		atomic_fetch_add(&row->count, 1);
		atomic_fetch_add(&table->total, 1);
	}
	/* After all counting: the owner reads the rows once it has seen this flag. */
	atomic_store(&row->done, 1);
	result = rsm_intr_signal_post(segment, RSM_SIGPOST_NO_ACCUMULATE);
	/* The owner, woken by another member, may already have seen the flag and withdrawn the table. */
	if (result != RSMERR_CONN_ABORTED)
		must(result, "rsm_intr_signal_post");
	must(rsm_memseg_import_unmap(segment), "rsm_memseg_import_unmap");
	must(rsm_memseg_import_disconnect(segment), "rsm_memseg_import_disconnect");
	must(rsm_release_controller(controller), "rsm_release_controller");
}

int
main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "own") == 0) {
		own(argv[2], (rsm_memseg_id_t)strtoul(argv[3], NULL, 0), strtoull(argv[4], NULL, 0));
	} else if (argc == 7 && strcmp(argv[1], "join") == 0) {
		join(argv[2], (rsm_node_id_t)strtoul(argv[3], NULL, 0),
		     (rsm_memseg_id_t)strtoul(argv[4], NULL, 0), argv[5], strtoull(argv[6], NULL, 0));
	} else {
		fprintf(stderr, "usage: rsm_table own CONTROLLER SEGMENT MEMBERS\n"
				"       rsm_table join CONTROLLER NODE SEGMENT NAME TIMES\n");
		return 2;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A segment, and importers on three nodes, one of them the exporter's own.
 *
 *   net-rsm-nodes SOCKET SOCKET SOCKET       the exporter is on the first node
 */
#include <pthread.h>
#include <rsmapi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODES 3u
#define PROCESSES (NODES + 1) /* importer k is on node k */
#define SEGMENT 0x400400u
#define PAGE 4096u
#define AREA 65536u
#define SIZE (NODES * AREA)
#define EVENTS 5u
#define LONG_MS 20000

static struct board {
	pthread_barrier_t step;
	_Atomic uint32_t node[NODES];
} * board;

static const char *who;
static char port[] = "p0";

#define CHECK(condition, ...)                                            \
	do {                                                             \
		if (!(condition)) {                                      \
			fprintf(stderr, "%s, line %d: ", who, __LINE__); \
			fprintf(stderr, __VA_ARGS__);                    \
			fputc('\n', stderr);                             \
			_exit(1);                                        \
		}                                                        \
	} while (0)
#define EXPECT(call, expected)                                                                \
	do {                                                                                  \
		int error_ = (call);                                                          \
		CHECK(error_ == (expected), "%s: %d instead of %d", #call, error_, expected); \
	} while (0)

/* Waits until all processes have reached this step. */
static void
step(void)
{
	pthread_barrier_wait(&board->step);
}

static uint8_t
byte_of(uint32_t writer, uint32_t at)
{
	return (uint8_t)(writer * 91 + at * 7 + (at >> 8));
}

static uint32_t
node_of(uint32_t k)
{
	return atomic_load(&board->node[k]);
}

/* Each node must list the two others, and report them as active after a while. */
static void
check_topology(uint32_t own)
{
	for (;;) {
		rsm_topology_t *topology;
		const rsm_connections_t *connections;
		uint32_t active = 0;

		EXPECT(rsm_get_interconnect_topology(&topology), RSM_SUCCESS);
		CHECK(topology->topology_hdr.local_nodeid == node_of(own), "node id");
		CHECK(topology->topology_hdr.local_cntlr_count == 1, "controllers");
		connections = topology->connections[0];
		CHECK(strcmp(connections->hdr.cntlr_name, port) == 0, "named %s",
		      connections->hdr.cntlr_name);
		CHECK(connections->hdr.local_hwaddr != 0, "no address");
		CHECK(connections->hdr.remote_cntlr_count == NODES - 1, "%d peers",
		      connections->hdr.remote_cntlr_count);
		for (uint32_t k = 0; k < NODES - 1; k++) {
			const rsm_remote_cntlr_t *remote = connections->remote_cntlr + k;
			bool known = false;

			for (uint32_t other = 0; other < NODES; other++)
				known |= other != own && remote->remote_nodeid == node_of(other);
			CHECK(known, "node %u is a peer", remote->remote_nodeid);
			active += remote->connection_state == RSM_CONNECTION_ACTIVE;
		}
		rsm_free_interconnect_topology(topology);
		if (active == NODES - 1)
			return;
		usleep(50000);
	}
}

static void
learn_node(uint32_t k)
{
	rsm_topology_t *topology;

	EXPECT(rsm_get_interconnect_topology(&topology), RSM_SUCCESS);
	atomic_store(&board->node[k], topology->topology_hdr.local_nodeid);
	rsm_free_interconnect_topology(topology);
}

static void
expect_events(void *segment, uint32_t expected)
{
	for (uint32_t k = 0; k < expected; k++)
		EXPECT(rsm_intr_signal_wait(segment, LONG_MS), RSM_SUCCESS);
	EXPECT(rsm_intr_signal_wait(segment, 0), RSMERR_TIMEOUT);
}

/* ---- the exporter ---- */

static void
export_segment(void)
{
	rsmapi_controller_handle_t controller;
	rsm_memseg_export_handle_t segment;
	rsm_memseg_id_t id = SEGMENT;
	uint8_t *memory = aligned_alloc(PAGE, SIZE);

	umask(022);
	memset(memory, 0, SIZE);
	EXPECT(rsm_get_controller(port, &controller), RSM_SUCCESS);
	step(); /* all node ids are known */
	/* All processes have one user, for whom the owner's digit applies. The third node may only read. */
	rsmapi_access_entry_t list[] = {{node_of(0), 0666}, {node_of(1), 0600}, {node_of(2), 0444}};
	EXPECT(rsm_memseg_export_create(controller, &segment, memory, SIZE, 0), RSM_SUCCESS);
	EXPECT(rsm_memseg_export_publish(segment, &id, list, NODES), RSM_SUCCESS);
	step(); /* the segment is published */
	step(); /* the importers have connected */
	for (uint32_t k = 0; k < EVENTS; k++)
		EXPECT(rsm_intr_signal_post(segment, 0), RSM_SUCCESS);
	step(); /* the exporter has posted; importers put and post */
	expect_events(segment, NODES);
	for (uint32_t k = 0; k < 2 * AREA; k++)
		CHECK(memory[k] == byte_of(k / AREA, k % AREA), "byte %u", k);
	for (uint32_t k = 2 * AREA; k < SIZE; k++)
		CHECK(memory[k] == 0, "byte %u was written by who may only read", k);
	step(); /* the exporter has checked the puts */
	EXPECT(rsm_memseg_export_republish(segment, list, 2), RSM_SUCCESS);
	step(); /* the access list has changed */
	step(); /* the importers have tried it */
	EXPECT(rsm_memseg_export_unpublish(segment), RSM_SUCCESS);
	memset(memory, 0xEE, SIZE);
	step(); /* the segment is withdrawn */
	step(); /* the importers have tried it */
	for (uint32_t k = 0; k < SIZE; k++)
		CHECK(memory[k] == 0xEE, "byte %u was changed after unpublish", k);
	EXPECT(rsm_memseg_export_publish(segment, &id, NULL, 0), RSM_SUCCESS);
	step(); /* the segment is published for every node */
	step(); /* the importers have used it, and are connected */
	EXPECT(rsm_memseg_export_destroy(segment), RSM_SUCCESS);
	step(); /* the segment is destroyed */
	EXPECT(rsm_release_controller(controller), RSM_SUCCESS);
	free(memory);
}

/* ---- importers ---- */

static rsmapi_controller_handle_t controller;
static rsm_memseg_import_handle_t import;
static rsmapi_barrier_t barrier;

static int
connect_with(rsm_permission_t permission)
{
	return rsm_memseg_import_connect(controller, node_of(0), SEGMENT, permission, &import);
}

static void
expect_lost(uint32_t own)
{
	uint64_t word = 1;

	EXPECT(rsm_intr_signal_wait(import, LONG_MS), RSMERR_CONN_ABORTED);
	EXPECT(rsm_memseg_import_get64(import, 0, &word, 1), RSMERR_CONN_ABORTED);
	EXPECT(rsm_intr_signal_post(import, 0), RSMERR_CONN_ABORTED);
	EXPECT(rsm_memseg_import_unmap(import), own == 0 ? RSM_SUCCESS : RSMERR_SEG_NOT_MAPPED);
}

static void
import_segment(uint32_t own)
{
	uint8_t *data = malloc(AREA);
	void *address = NULL;
	uint64_t word = 0;

	EXPECT(rsm_get_controller(port, &controller), RSM_SUCCESS);
	learn_node(own);
	step(); /* all node ids are known */
	check_topology(own);
	step(); /* the segment is published */
	EXPECT(connect_with(RSM_PERM_RDWR), own == 2 ? RSMERR_PERM_DENIED : RSM_SUCCESS);
	if (own == 2)
		EXPECT(connect_with(RSM_PERM_READ), RSM_SUCCESS);
	EXPECT(rsm_memseg_import_init_barrier(import, RSM_BARRIER_SEGMENT, &barrier), RSM_SUCCESS);
	EXPECT(rsm_memseg_import_map(import, &address, RSM_MAP_NONE, RSM_PERM_READ, 0, SIZE),
	       own == 0 ? RSM_SUCCESS : RSMERR_MAP_FAILED);
	step(); /* the importers have connected */
	step(); /* the exporter has posted */
	expect_events(import, EVENTS);
	for (uint32_t k = 0; k < AREA; k++)
		data[k] = byte_of(own, k);
	EXPECT(rsm_memseg_import_put(import, (off_t)(own * AREA), data, AREA),
	       own == 2 ? RSMERR_PERM_DENIED : RSM_SUCCESS);
	EXPECT(rsm_intr_signal_post(import, 0), RSM_SUCCESS);
	step(); /* the exporter has checked the puts */
	for (uint32_t other = 0; other < 2; other++) {
		EXPECT(rsm_memseg_import_get(import, (off_t)(other * AREA), data, AREA), RSM_SUCCESS);
		for (uint32_t k = 0; k < AREA; k++)
			CHECK(data[k] == byte_of(other, k), "byte %u of importer %u", k, other);
	}
	step(); /* the access list has changed: existing connections keep their rights */
	EXPECT(rsm_memseg_import_get64(import, 0, &word, 1), RSM_SUCCESS);
	{
		rsm_memseg_import_handle_t second;

		EXPECT(rsm_memseg_import_connect(controller, node_of(0), SEGMENT, RSM_PERM_READ, &second),
		       own == 2 ? RSMERR_SEG_NOT_PUBLISHED_TO_NODE : RSM_SUCCESS);
		if (own != 2)
			EXPECT(rsm_memseg_import_disconnect(second), RSM_SUCCESS);
	}
	step(); /* the importers have tried it */
	step(); /* the segment is withdrawn */
	if (address != NULL)
		CHECK(((volatile uint8_t *)address)[AREA - 1] == byte_of(0, AREA - 1), "not what it was");
	expect_lost(own);
	EXPECT(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	EXPECT(connect_with(RSM_PERM_READ), RSMERR_SEG_NOT_PUBLISHED);
	step(); /* the importers have tried it */
	step(); /* the segment is published for every node, with rights by umask 022 */
	EXPECT(connect_with(RSM_PERM_RDWR), RSM_SUCCESS);
	EXPECT(rsm_memseg_import_init_barrier(import, RSM_BARRIER_SEGMENT, &barrier), RSM_SUCCESS);
	EXPECT(rsm_memseg_import_put64(import, (off_t)(8 * own), &word, 1), RSM_SUCCESS);
	step(); /* the importers have used it, and are connected */
	step(); /* the segment is destroyed */
	EXPECT(rsm_memseg_import_put64(import, 0, &word, 1), RSMERR_CONN_ABORTED);
	EXPECT(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	EXPECT(connect_with(RSM_PERM_READ), RSMERR_SEG_NOT_PUBLISHED);
	EXPECT(rsm_release_controller(controller), RSM_SUCCESS);
	free(data);
}

int
main(int argc, char **argv)
{
	static const char *const names[PROCESSES] = {"importer 1", "importer 2", "importer 3", "exporter"};
	pthread_barrierattr_t shared;
	pid_t pids[PROCESSES];
	int result = 0;

	if (argc != 1 + (int)NODES)
		return 2;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&board->step, &shared, PROCESSES);
	for (uint32_t k = 0; k < PROCESSES; k++) {
		pids[k] = fork();
		if (pids[k] != 0)
			continue;
		who = names[k];
		/* A minute, times 50 for a busy machine. */
		alarm(60 * 50);
		setenv("ONESIDE_SOCKET", argv[1 + k % NODES], 1);
		if (k == NODES)
			export_segment();
		else
			import_segment(k);
		_exit(0);
	}
	for (uint32_t k = 0; k < PROCESSES; k++) {
		int status;
		pid_t pid = wait(&status);

		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		if (result == 0) /* the others would wait for the failed process */
			for (uint32_t i = 0; i < PROCESSES; i++)
				if (pids[i] != pid)
					kill(pids[i], SIGKILL);
		result = 1;
	}
	printf("%s\n", result == 0 ? "ok" : "FAILED");
	return result;
}

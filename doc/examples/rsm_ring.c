/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring buffer between two hosts: the consumer exports it, the producer puts into it.
 *
 *   rsm_ring consume CONTROLLER SEGMENT COUNT          prints its node id, then takes COUNT records
 *   rsm_ring produce CONTROLLER NODE SEGMENT COUNT     puts COUNT records
 *
 *   cc rsm_ring.c $(pkg-config --cflags --libs librsm) -o rsm_ring
 *
 * The segment holds two counters and the slots. The producer writes `tail`, after the records that it counts.
 * The consumer writes `head`; the producer reads it when the ring is full. Each side signals the other after
 * it has moved its counter, without accumulation: a signal means "poll again", whatever its count. The
 * producer reports when it no longer needs the segment, and the consumer waits for that.
 */
#include <rsmapi.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 1024u
#define BATCH 64u

struct record {
	uint64_t number;
	uint64_t payload[7];
};

struct ring {
	_Atomic uint64_t tail; /* records put */
	uint8_t pad0[56];
	_Atomic uint64_t head; /* records taken */
	uint8_t pad1[56];
	_Atomic uint64_t ended; /* set by the producer */
	uint8_t pad2[56];
	struct record slot[SLOTS];
};

/* ONESIDE_DEBUG=1 in the environment makes the library print why a call failed. */
static void
must(int error, const char *what)
{
	if (error == RSM_SUCCESS)
		return;
	fprintf(stderr, "rsm_ring: %s: %s\n", what, rsm_strerror(error));
	exit(1);
}

/* ---- the consumer ---- */

static uint64_t
wait_for_records(rsm_memseg_export_handle_t segment, struct ring *ring, uint64_t head)
{
	uint64_t tail;

	/* Acquire: the records were placed before the counter that includes them. */
	while ((tail = atomic_load_explicit(&ring->tail, memory_order_acquire)) == head)
		must(rsm_intr_signal_wait(segment, -1), "rsm_intr_signal_wait");
	return tail;
}

static void
consume(char *controller_name, rsm_memseg_id_t id, uint64_t count)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (sizeof(struct ring) + page - 1) / page * page;
	struct ring *ring = aligned_alloc(page, size);
	rsmapi_controller_handle_t controller;
	rsm_memseg_export_handle_t segment;
	rsm_topology_t *topology;
	uint64_t head = 0;

	if (ring == NULL) {
		fprintf(stderr, "rsm_ring: no memory\n");
		exit(1);
	}
	memset(ring, 0, size);
	must(rsm_get_controller(controller_name, &controller), "rsm_get_controller");
	must(rsm_get_interconnect_topology(&topology), "rsm_get_interconnect_topology");
	must(rsm_memseg_export_create(controller, &segment, ring, size, 0), "rsm_memseg_export_create");
	must(rsm_memseg_export_publish(segment, &id, NULL, 0), "rsm_memseg_export_publish");
	printf("node %u\n", topology->topology_hdr.local_nodeid);
	fflush(stdout);
	while (head < count) {
		uint64_t tail = wait_for_records(segment, ring, head);

		for (; head < tail; head++) {
			const struct record *record = &ring->slot[head % SLOTS];

			if (record->number != head || record->payload[6] != head * 7) {
				fprintf(stderr, "rsm_ring: record %lu says it is %lu\n", head,
					record->number);
				exit(1);
			}
		}
		atomic_store_explicit(&ring->head, head, memory_order_release);
		must(rsm_intr_signal_post(segment, RSM_SIGPOST_NO_ACCUMULATE), "rsm_intr_signal_post");
	}
	printf("%lu records\n", head);
	while (atomic_load_explicit(&ring->ended, memory_order_acquire) == 0)
		must(rsm_intr_signal_wait(segment, -1), "rsm_intr_signal_wait");
	must(rsm_memseg_export_destroy(segment), "rsm_memseg_export_destroy");
	rsm_free_interconnect_topology(topology);
	must(rsm_release_controller(controller), "rsm_release_controller");
	free(ring);
}

/* ---- the producer ---- */

struct producer {
	rsm_memseg_import_handle_t segment;
	rsmapi_barrier_t barrier;
	uint64_t tail, head; /* `head` is as last read from the consumer */
};

/* Waits until the consumer has taken record `head` - 1, at least. */
static void
wait_for_head(struct producer *producer, uint64_t head)
{
	for (;;) {
		must(rsm_memseg_import_open_barrier(&producer->barrier), "rsm_memseg_import_open_barrier");
		must(rsm_memseg_import_get64(producer->segment, offsetof(struct ring, head), &producer->head,
					     1),
		     "rsm_memseg_import_get64");
		must(rsm_memseg_import_close_barrier(&producer->barrier), "rsm_memseg_import_close_barrier");
		if (producer->head >= head)
			return;
		must(rsm_intr_signal_wait(producer->segment, -1), "rsm_intr_signal_wait");
	}
}

/* Puts a batch of records in one span: only the order barrier waits, once per batch. */
static void
put_batch(struct producer *producer, uint64_t count)
{
	must(rsm_memseg_import_open_barrier(&producer->barrier), "rsm_memseg_import_open_barrier");
	for (uint64_t k = 0; k < count; k++) {
		uint64_t number = producer->tail + k;
		struct record record = {.number = number, .payload = {[6] = number * 7}};
		off_t at = (off_t)(offsetof(struct ring, slot) + number % SLOTS * sizeof(record));

		must(rsm_memseg_import_put64(producer->segment, at, &record.number, sizeof(record) / 8),
		     "rsm_memseg_import_put64");
	}
	must(rsm_memseg_import_order_barrier(&producer->barrier), "rsm_memseg_import_order_barrier");
	producer->tail += count;
	must(rsm_memseg_import_put64(producer->segment, offsetof(struct ring, tail), &producer->tail, 1),
	     "rsm_memseg_import_put64");
	must(rsm_memseg_import_close_barrier(&producer->barrier), "rsm_memseg_import_close_barrier");
	must(rsm_intr_signal_post(producer->segment, RSM_SIGPOST_NO_ACCUMULATE), "rsm_intr_signal_post");
}

/*
 * The consumer withdraws the segment as soon as it sees the last word, perhaps before the put of that word
 * is acknowledged.
 */
static void
must_or_withdrawn(int error, const char *what)
{
	if (error != RSMERR_CONN_ABORTED)
		must(error, what);
}

/* Waits until the consumer has taken all records; then reports the end of all accesses to the segment. */
static void
end(struct producer *producer)
{
	uint64_t ended = 1;

	while (producer->head < producer->tail)
		wait_for_head(producer, producer->tail);
	must(rsm_memseg_import_open_barrier(&producer->barrier), "rsm_memseg_import_open_barrier");
	must(rsm_memseg_import_put64(producer->segment, offsetof(struct ring, ended), &ended, 1),
	     "rsm_memseg_import_put64");
	must_or_withdrawn(rsm_memseg_import_close_barrier(&producer->barrier),
			  "rsm_memseg_import_close_barrier");
	must_or_withdrawn(rsm_intr_signal_post(producer->segment, RSM_SIGPOST_NO_ACCUMULATE),
			  "rsm_intr_signal_post");
}

static void
produce(char *controller_name, rsm_node_id_t node, rsm_memseg_id_t id, uint64_t count)
{
	rsmapi_controller_handle_t controller;
	struct producer producer = {0};
	int error;

	must(rsm_get_controller(controller_name, &controller), "rsm_get_controller");
	/* Retry until the consumer has published the segment. */
	while ((error = rsm_memseg_import_connect(controller, node, id, RSM_PERM_RDWR, &producer.segment)) ==
	       RSMERR_SEG_NOT_PUBLISHED)
		usleep(10000);
	must(error, "rsm_memseg_import_connect");
	must(rsm_memseg_import_init_barrier(producer.segment, RSM_BAR_DEFAULT, &producer.barrier),
	     "rsm_memseg_import_init_barrier");
	must(rsm_memseg_import_set_mode(producer.segment, RSM_BARRIER_MODE_EXPLICIT),
	     "rsm_memseg_import_set_mode");
	while (producer.tail < count) {
		uint64_t room, left = count - producer.tail;

		if (producer.tail - producer.head >= SLOTS)
			wait_for_head(&producer, producer.tail - SLOTS + 1);
		room = SLOTS - (producer.tail - producer.head);
		if (room > BATCH)
			room = BATCH;
		put_batch(&producer, left < room ? left : room);
	}
	end(&producer);
	must(rsm_memseg_import_destroy_barrier(&producer.barrier), "rsm_memseg_import_destroy_barrier");
	must(rsm_memseg_import_disconnect(producer.segment), "rsm_memseg_import_disconnect");
	must(rsm_release_controller(controller), "rsm_release_controller");
}

int
main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "consume") == 0) {
		consume(argv[2], (rsm_memseg_id_t)strtoul(argv[3], NULL, 0), strtoull(argv[4], NULL, 0));
	} else if (argc == 6 && strcmp(argv[1], "produce") == 0) {
		produce(argv[2], (rsm_node_id_t)strtoul(argv[3], NULL, 0),
			(rsm_memseg_id_t)strtoul(argv[4], NULL, 0), strtoull(argv[5], NULL, 0));
	} else {
		fprintf(stderr, "usage: rsm_ring consume CONTROLLER SEGMENT COUNT\n"
				"       rsm_ring produce CONTROLLER NODE SEGMENT COUNT\n");
		return 2;
	}
	return 0;
}

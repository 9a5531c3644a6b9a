/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A key-value store that clients read without its server: they fetch entries from the server's memory by
 * RDMA READs.
 *
 *   dat_kv serve                   stores the lines "KEY VALUE" of standard input; ends with it
 *   dat_kv get ADDRESS KEY...      prints "KEY VALUE" of each key; status 1 when a key is missing
 *
 *   cc dat_kv.c $(pkg-config --cflags --libs libdat) -pthread -o dat_kv
 *
 * The table is an array of entries with open addressing: a key is at the index that its hash gives, or at one
 * of the next. A client learns the table's address when the server accepts, and reads these entries one by
 * one. No READ notifies the server, which may change an entry meanwhile. Each entry therefore has a checksum:
 * an entry that was read while it changed does not match its checksum, and is read again.
 */
#include <dat/udat.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE 45302u
#define ENTRIES 4096u
#define TRIES 1000u /* READs of an entry that keeps changing */
#define PATIENCE_US 60000000u

struct entry {
	_Atomic uint64_t sum; /* checksum of the fields below; 0 if the entry is free, when they are 0, too */
	char key[40];
	char value[80];
};

/* Private data with which the server accepts a connection. */
struct offer {
	uint64_t address;
	uint32_t context;
	uint32_t entries;
};

static void
must(DAT_RETURN ret, const char *call)
{
	const char *type = "", *subtype = "";

	if (ret == DAT_SUCCESS)
		return;
	dat_strerror(ret, &type, &subtype);
	fprintf(stderr, "dat_kv: %s: %s %s\n", call, type, subtype);
	exit(1);
}

static void
give_up(const char *what, unsigned value)
{
	fprintf(stderr, "dat_kv: %s (%#x)\n", what, value);
	exit(1);
}

/* FNV-1a hash. */
static uint64_t
hash(const void *data, size_t len)
{
	const uint8_t *byte = data;
	uint64_t h = 0xcbf29ce484222325u;

	while (len-- > 0)
		h = (h ^ *byte++) * 0x100000001b3u;
	return h;
}

static uint64_t
sum_of(const struct entry *entry)
{
	return hash(entry->key, sizeof(entry->key) + sizeof(entry->value)) | 1;
}

/* Registers memory for the accesses in `rights`, by peers connected through this protection zone. */
static DAT_LMR_HANDLE
offer_memory(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, void *memory, size_t size, int rights,
	     DAT_LMR_CONTEXT *local, DAT_RMR_CONTEXT *remote)
{
	DAT_REGION_DESCRIPTION region = {.for_va = memory};
	DAT_LMR_HANDLE lmr;

	must(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, size, pz, (DAT_MEM_PRIV_FLAGS)rights, &lmr,
			    local, remote, NULL, NULL),
	     "dat_lmr_create");
	return lmr;
}

/* ---- the server ---- */

struct store {
	struct entry *table;
	DAT_EVD_HANDLE events;
};

/* Only one thread writes. Remote readers see the checksum change before and after the rest. */
static bool
put(struct entry *table, const char *key, const char *value)
{
	uint64_t at = hash(key, strlen(key));

	for (uint32_t i = 0; i < ENTRIES; i++) {
		struct entry *entry = &table[(at + i) % ENTRIES];

		if (entry->key[0] != '\0' && strcmp(entry->key, key) != 0)
			continue;
		atomic_store(&entry->sum, 0);
		snprintf(entry->key, sizeof(entry->key), "%s", key);
		memset(entry->value, 0, sizeof(entry->value));
		snprintf(entry->value, sizeof(entry->value), "%s", value);
		atomic_store(&entry->sum, sum_of(entry));
		return true;
	}
	return false;
}

/* Stores the lines of standard input; wakes the serving thread at their end. */
static void *
fill(void *arg)
{
	struct store *store = arg;
	DAT_EVENT end = {.event_number = DAT_SOFTWARE_EVENT};
	char line[256], key[40], value[80];

	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (sscanf(line, "%39s %79[^\n]", key, value) != 2)
			fprintf(stderr, "dat_kv: a line is KEY VALUE: %s", line);
		else if (put(store->table, key, value))
			printf("stored %s\n", key);
		else
			fprintf(stderr, "dat_kv: the table is full: %s\n", key);
		fflush(stdout);
	}
	must(dat_evd_post_se(store->events, &end), "dat_evd_post_se");
	return NULL;
}

static void
serve(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz)
{
	struct store store = {.table = calloc(ENTRIES, sizeof(struct entry))};
	struct offer offer = {.address = (uintptr_t)store.table, .entries = ENTRIES};
	int flags = DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG | DAT_EVD_SOFTWARE_FLAG;
	DAT_LMR_CONTEXT unused;
	pthread_t filler;
	DAT_PSP_HANDLE psp;
	DAT_EP_HANDLE ep;
	DAT_EVENT event;
	DAT_COUNT more;

	if (store.table == NULL)
		give_up("no memory for the table", ENTRIES);
	/* Peers may read the table, never write it. */
	offer_memory(ia, pz, store.table, ENTRIES * sizeof(struct entry),
		     DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG, &unused, &offer.context);
	must(dat_evd_create(ia, 256, DAT_HANDLE_NULL, (DAT_EVD_FLAGS)flags, &store.events), "dat_evd_create");
	must(dat_psp_create(ia, SERVICE, store.events, DAT_PSP_CONSUMER_FLAG, &psp), "dat_psp_create");
	printf("serving\n");
	fflush(stdout);
	if (pthread_create(&filler, NULL, fill, &store) != 0)
		give_up("no thread", 0);
	for (;;) {
		must(dat_evd_wait(store.events, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
		switch (event.event_number) {
		case DAT_SOFTWARE_EVENT:
			pthread_join(filler, NULL);
			/*
			 * Closing abruptly also ends everything left of the IA, with the connections of
			 * clients.
			 */
			must(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), "dat_ia_close");
			free(store.table);
			return;
		case DAT_CONNECTION_REQUEST_EVENT:
			/* No send or receive EVD: the endpoint only serves the client's READs. */
			must(dat_ep_create(ia, pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, store.events, NULL, &ep),
			     "dat_ep_create");
			must(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, ep,
					   sizeof(offer), &offer),
			     "dat_cr_accept");
			break;
		case DAT_CONNECTION_EVENT_ESTABLISHED:
			break;
		default: /* the client left or never connected: its endpoint is useless */
			must(dat_ep_free(event.event_data.connect_event_data.ep_handle), "dat_ep_free");
		}
	}
}

/* ---- the client ---- */

struct client {
	DAT_EP_HANDLE ep;
	DAT_EVD_HANDLE reads;
	DAT_LMR_CONTEXT context;
	struct offer offer;
	struct entry entry; /* READs place entries here */
};

static void
read_entry(struct client *c, uint64_t number)
{
	DAT_LMR_TRIPLET into = {.lmr_context = c->context,
				.virtual_address = (uintptr_t)&c->entry,
				.segment_length = sizeof(c->entry)};
	DAT_RMR_TRIPLET from = {.rmr_context = c->offer.context,
				.target_address = c->offer.address + number * sizeof(c->entry),
				.segment_length = sizeof(c->entry)};
	DAT_DTO_COOKIE cookie = {.as_64 = number};
	DAT_EVENT event;
	DAT_COUNT more;

	must(dat_ep_post_rdma_read(c->ep, 1, &into, cookie, &from, DAT_COMPLETION_DEFAULT_FLAG),
	     "dat_ep_post_rdma_read");
	must(dat_evd_wait(c->reads, PATIENCE_US, 1, &event, &more), "waiting for a read");
	if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS)
		give_up("the read failed, DAT_DTO_*", event.event_data.dto_completion_event_data.status);
}

static bool
get(struct client *c, const char *key)
{
	uint64_t at = hash(key, strlen(key));

	for (uint32_t i = 0; i < c->offer.entries; i++) {
		uint32_t tries = 0;

		do {
			if (tries++ == TRIES)
				give_up("an entry changes all the time", i);
			read_entry(c, (at + i) % c->offer.entries);
			if (c->entry.key[0] == '\0' && c->entry.sum == 0)
				return false;
		} while (c->entry.sum != sum_of(&c->entry));
		if (strncmp(c->entry.key, key, sizeof(c->entry.key)) == 0)
			return true;
	}
	return false;
}

static int
ask(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, const char *address, char **keys, int count)
{
	struct client c;
	struct addrinfo *to;
	DAT_EVD_HANDLE connections;
	DAT_LMR_HANDLE lmr;
	DAT_RMR_CONTEXT unused;
	DAT_EVENT event;
	DAT_COUNT more;
	int missing = 0;

	if (getaddrinfo(address, NULL, NULL, &to) != 0)
		give_up("there is no such address", 0);
	lmr = offer_memory(ia, pz, &c.entry, sizeof(c.entry), DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &c.context,
			   &unused);
	must(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connections), "dat_evd_create");
	must(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &c.reads), "dat_evd_create");
	must(dat_ep_create(ia, pz, DAT_HANDLE_NULL, c.reads, connections, NULL, &c.ep), "dat_ep_create");
	must(dat_ep_connect(c.ep, (DAT_IA_ADDRESS_PTR)to->ai_addr, SERVICE, PATIENCE_US, 0, NULL,
			    DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
	     "dat_ep_connect");
	freeaddrinfo(to);
	must(dat_evd_wait(connections, PATIENCE_US, 1, &event, &more), "waiting for the server");
	if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED ||
	    event.event_data.connect_event_data.private_data_size < (DAT_COUNT)sizeof(c.offer))
		give_up("no connection, DAT_CONNECTION_EVENT_*", event.event_number);
	memcpy(&c.offer, event.event_data.connect_event_data.private_data, sizeof(c.offer));
	for (int i = 0; i < count; i++) {
		if (get(&c, keys[i]))
			printf("%s %.*s\n", keys[i], (int)sizeof(c.entry.value), c.entry.value);
		else
			missing = fprintf(stderr, "dat_kv: %s is not there\n", keys[i]);
	}
	must(dat_ep_free(c.ep), "dat_ep_free"); /* disconnects first */
	must(dat_lmr_free(lmr), "dat_lmr_free");
	must(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), "dat_ia_close");
	return missing != 0;
}

int
main(int argc, char **argv)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	bool server = argc == 2 && strcmp(argv[1], "serve") == 0;

	if (!server && (argc < 4 || strcmp(argv[1], "get") != 0)) {
		fprintf(stderr, "usage: dat_kv serve\n"
				"       dat_kv get ADDRESS KEY...\n");
		return 2;
	}
	must(dat_ia_open("oneside", 8, &async, &ia), "dat_ia_open");
	must(dat_pz_create(ia, &pz), "dat_pz_create");
	if (!server)
		return ask(ia, pz, argv[2], &argv[3], argc - 3);
	serve(ia, pz);
	return 0;
}

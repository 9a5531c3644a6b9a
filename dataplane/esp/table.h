/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers by address and inbound security associations by SPI. Immutable: a change makes a new table
 * (change.c). */
#ifndef DATAPLANE_ESP_TABLE_H
#define DATAPLANE_ESP_TABLE_H

#include "dataplane/esp/sa.h"

#define ESP_SAS_MAX (3 * CONFIG_IPSEC_MAX)
#define ESP_PEER_SLOTS 256u
#define ESP_SA_SLOTS 1024u

struct esp_peer {
	struct wire_addr addr;
	bool encrypt;
	struct esp_sa *out; /* NULL: none */
};

struct esp_table {
	uint32_t num_peers, num_sas;
	struct esp_peer peer[CONFIG_IPSEC_MAX];
	struct esp_sa *sa[ESP_SAS_MAX];
	char name[ESP_SAS_MAX][ONE_PORT_NAME];                     /* of their sections */
	uint16_t peer_slot[ESP_PEER_SLOTS], sa_slot[ESP_SA_SLOTS]; /* index + 1; 0: free */
	/* Out of use: the next table, and the keeper's list of retired ones. */
	struct esp_table *successor, *next_retired;
	uint64_t grace; /* grace period after which no core uses the table */
};

/* Cores: the current table, valid until the core's next quiescent state. NULL: all traffic is plain. */
extern _Atomic(struct esp_table *) esp_table;

struct esp_peer *esp_table_add_peer(struct esp_table *table, const struct wire_addr *addr);
void esp_table_add_sa(struct esp_table *table, struct esp_sa *sa, const char *name);
/* Look up a peer, or an inbound security association; NULL: not found. */
const struct esp_peer *esp_table_peer(const struct esp_table *table, const struct wire_addr *addr);
struct esp_sa *esp_table_sa(const struct esp_table *table, uint32_t spi);
/* `table` may be NULL. */
bool esp_table_has(const struct esp_table *table, const struct esp_sa *sa);

struct core;
/* Count the drop, for `sa` too unless NULL; free the frame and clear its place. */
void esp_drop(struct core *core, struct esp_sa *sa, struct rte_mbuf **place, enum engine_esp_drop reason);

/* mbuf flag, registered before the first table: the frame has passed esp_out() and is encrypted. */
extern uint64_t esp_protected;

#endif

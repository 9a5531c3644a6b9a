/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/esp/table.h"

#include <stdio.h>
#include <string.h>

_Atomic(struct esp_table *) esp_table;

/* Most slots are free, so a search mostly ends at the first one. */
static uint32_t
slot_of(uint32_t number, uint32_t slots)
{
	return (uint32_t)((uint64_t)(number * 2654435761u) * slots >> 32);
}

static uint32_t
slot_of_addr(const struct wire_addr *addr)
{
	uint32_t part[4];

	memcpy(part, addr->gid, sizeof(part));
	return slot_of(part[0] ^ part[1] ^ part[2] ^ part[3], ESP_PEER_SLOTS);
}

static void
take_slot(uint16_t *slots, uint32_t num, uint32_t slot, uint32_t index)
{
	while (slots[slot] != 0)
		slot = (slot + 1) % num;
	slots[slot] = (uint16_t)(index + 1);
}

struct esp_peer *
esp_table_add_peer(struct esp_table *table, const struct wire_addr *addr)
{
	uint32_t index = table->num_peers++;

	table->peer[index] = (struct esp_peer){.addr = *addr};
	take_slot(table->peer_slot, ESP_PEER_SLOTS, slot_of_addr(addr), index);
	return &table->peer[index];
}

void
esp_table_add_sa(struct esp_table *table, struct esp_sa *sa, const char *name)
{
	uint32_t index = table->num_sas++;

	table->sa[index] = sa;
	snprintf(table->name[index], sizeof(table->name[index]), "%s", name);
	if (!sa->outbound)
		take_slot(table->sa_slot, ESP_SA_SLOTS, slot_of(sa->spi, ESP_SA_SLOTS), index);
}

const struct esp_peer *
esp_table_peer(const struct esp_table *table, const struct wire_addr *addr)
{
	for (uint32_t slot = slot_of_addr(addr); table->peer_slot[slot] != 0;
	     slot = (slot + 1) % ESP_PEER_SLOTS) {
		const struct esp_peer *peer = &table->peer[table->peer_slot[slot] - 1];

		if (wire_addr_equal(&peer->addr, addr))
			return peer;
	}
	return NULL;
}

struct esp_sa *
esp_table_sa(const struct esp_table *table, uint32_t spi)
{
	for (uint32_t slot = slot_of(spi, ESP_SA_SLOTS); table->sa_slot[slot] != 0;
	     slot = (slot + 1) % ESP_SA_SLOTS) {
		struct esp_sa *sa = table->sa[table->sa_slot[slot] - 1];

		if (sa->spi == spi)
			return sa;
	}
	return NULL;
}

bool
esp_table_has(const struct esp_table *table, const struct esp_sa *sa)
{
	for (uint32_t i = 0; table != NULL && i < table->num_sas; i++)
		if (table->sa[i] == sa)
			return true;
	return false;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Encryption for the control thread: putting changes in force, and reporting. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "config/route.h"
#include "dataplane/engine/fact_sink.h"
#include "dataplane/engine/takeover.h"
#include "dataplane/esp/change.h"
#include "dataplane/esp/esp.h"
#include "dataplane/esp/pass.h"
#include "dataplane/esp/table.h"
#include "dataplane/port/port.h"

#define LINK_OVERHEAD (40u + 8u + 12u + 16u + 4u + 4u)

/* Connections may exist already. */
int
engine_ipsec_fits(const struct config *config, char *why, size_t why_len)
{
	for (uint32_t i = 0; i < config->num_ipsec; i++) {
		int port = config_port_to(config, &config->ipsec[i].addr, config->ipsec[i].port);
		/* A port that does not exist is refused elsewhere. */
		const struct engine_port_info *info =
			port >= 0 && (uint32_t)port < ports_num ? &ports[port].info : NULL;

		if (info == NULL || info->path_mtu + ENGINE_PATH_OVERHEAD + ESP_OVERHEAD_ROCE <= info->mtu)
			continue;
		return config_refuse(
			why, why_len, -EMSGSIZE,
			"ipsec %s: port %s has mtu %u, and a path MTU of %u with ESP needs %u; write that mtu, or a lower path_mtu, and start the data plane anew",
			config->ipsec[i].name, info->name, info->mtu, info->path_mtu,
			info->path_mtu + ENGINE_PATH_OVERHEAD + ESP_OVERHEAD_ROCE);
	}
	return 0;
}

int
engine_ipsec_prepare(const struct config *config, bool trial, struct esp_change **change, char *why,
		     size_t why_len)
{
	int error = engine_ipsec_fits(config, why, why_len);

	*change = NULL;
	return error != 0 ? error : esp_change_prepare(config, trial, change, why, why_len);
}

void
engine_ipsec_commit(struct esp_change *change)
{
	bool any = esp_change_commit(change);

	for (uint32_t i = 0; i < ports_num; i++)
		port_set_flag(&ports[i], PORT_FLAG_ESP, any);
}

static uint64_t
load_counter(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed); /* only reported */
}

static void
report_drops(struct fact_sink *sink, const struct esp_sa *sa)
{
	static const struct {
		enum engine_esp_drop reason;
		const char *name;
	} reasons[] = {{ENGINE_ESP_LENGTH, "drop_length"},
		       {ENGINE_ESP_ADDRESS, "drop_address"},
		       {ENGINE_ESP_REPLAY, "drop_replay"},
		       {ENGINE_ESP_ICV, "drop_icv"},
		       {ENGINE_ESP_LIMIT, "drop_limit"}};

	for (uint32_t i = 0; i < RTE_DIM(reasons); i++)
		sink->number(sink, reasons[i].name, load_counter(&sa->dropped[reasons[i].reason]));
}

/* Returns the table in force. Relaxed: only the control thread replaces the table. */
static const struct esp_table *
in_force(void)
{
	return atomic_load_explicit(&esp_table, memory_order_relaxed);
}

uint32_t
engine_ipsec_count(void)
{
	const struct esp_table *table = in_force();

	return table != NULL ? table->num_sas : 0;
}

uint32_t
engine_link_overhead(void)
{
	return LINK_OVERHEAD + (engine_ipsec_count() > 0 ? ESP_OVERHEAD_ROCE : 0);
}

void
engine_ipsec_peer(uint32_t index, struct wire_addr *peer)
{
	*peer = in_force()->sa[index]->peer;
}

void
engine_report_ipsec(struct fact_sink *sink, uint32_t index)
{
	const struct esp_table *table = in_force();
	const struct esp_sa *sa = table->sa[index];
	const struct esp_peer *peer = esp_table_peer(table, &sa->peer);
	char spi[16];

	snprintf(spi, sizeof(spi), "%#" PRIx32, sa->spi);
	sink->text(sink, "ipsec", table->name[index]);
	sink->text(sink, "spi", spi);
	sink->text(sink, "direction", sa->outbound ? "out" : "in");
	sink->text(sink, "policy", peer->encrypt ? "encrypt" : "plain");
	sink->text(sink, "port", ports[sa->port].info.name);
	sink->number(sink, "number", load_counter(&sa->next) - 1);
	sink->number(sink, "packets", load_counter(&sa->packets));
	sink->number(sink, "bytes", load_counter(&sa->bytes));
	report_drops(sink, sa);
}

/* ---- take-over ---- */

int
engine_ipsec_directory(void)
{
	return esp_state_directory();
}

void
engine_ipsec_inherit(int fd)
{
	esp_state_inherit(fd);
}

bool
engine_ipsec_hold(void)
{
	return esp_keeper_hold();
}

void
engine_ipsec_release(void)
{
	esp_state_inherit(-1);
	esp_keeper_release();
}

void
engine_ipsec_write(struct record_out *out)
{
	esp_pass_write(out);
}

int
engine_ipsec_read(const struct record *record)
{
	return esp_pass_read(record, engine_num_cores());
}

int
engine_ipsec_begin(char *why, size_t why_len)
{
	return esp_begin_rest(why, why_len);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and facts of cores and ports for the fake engine, which has no encryption. */
#include <string.h>

#include "dataplane/engine.h"
#include "dataplane/engine/fact_sink.h"

static void
report_nothing(struct fact_sink *sink, uint32_t number)
{
	sink->number(sink, "work", number);
}

void
engine_report_core(struct fact_sink *sink, uint32_t core)
{
	report_nothing(sink, core);
}

void
engine_report_drops(struct fact_sink *sink, uint32_t core)
{
	report_nothing(sink, core);
}

void
engine_report_transport(struct fact_sink *sink, uint32_t core)
{
	report_nothing(sink, core);
}

void
engine_report_port(struct fact_sink *sink, uint32_t port)
{
	report_nothing(sink, port);
}

void
engine_client_counts(const struct engine_client *client, uint64_t *work, uint64_t *completions)
{
	*work = 7;
	*completions = 8;
}

void
engine_report_ipsec(struct fact_sink *sink, uint32_t number)
{
	report_nothing(sink, number);
}

int
engine_ipsec_prepare(const struct config *config, bool trial, struct esp_change **change, char *why,
		     size_t why_len)
{
	*change = NULL;
	return 0;
}

bool
engine_ipsec_renews(const struct esp_change *change)
{
	return false;
}

void
engine_ipsec_commit(struct esp_change *change)
{
}

void
engine_ipsec_abandon(struct esp_change *change)
{
}

uint32_t
engine_ipsec_count(void)
{
	return 0;
}

void
engine_ipsec_peer(uint32_t index, struct wire_addr *peer)
{
}

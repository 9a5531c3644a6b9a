/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common parts of telemetry handlers. DPDK answers null for a command that fails, so a handler that was
 * called with wrong parameters succeeds, and reports the reason.
 */
#ifndef DATAPLANE_TELEMETRY_REPLY_H
#define DATAPLANE_TELEMETRY_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include <rte_telemetry.h>

#include "dataplane/base/compat.h"
#include "dataplane/engine/fact_sink.h"

/* Answers { "error": `why` }. */
static inline int
tel_refuse(struct rte_tel_data *d, const char *why)
{
	rte_tel_data_start_dict(d);
	return rte_tel_data_add_dict_string(d, "error", why);
}

/* Returns true if the command has parameters. */
static inline bool
tel_has(const char *params)
{
	return params != NULL && *params != '\0';
}

#define TEL_NO_PARAMETERS "it takes no parameters"

/* Facts as a dictionary of telemetry. */
struct telemetry_dictionary {
	struct fact_sink sink;
	struct rte_tel_data *data; /* NULL: no memory */
};

static inline void
telemetry_number(struct fact_sink *sink, const char *name, uint64_t number)
{
	rte_tel_data_add_dict_uint(((struct telemetry_dictionary *)sink)->data, name, number);
}

static inline void
telemetry_text(struct fact_sink *sink, const char *name, const char *text)
{
	rte_tel_data_add_dict_string(((struct telemetry_dictionary *)sink)->data, name, text);
}

static inline struct telemetry_dictionary
telemetry_dictionary(void)
{
	struct telemetry_dictionary dictionary = {{telemetry_number, telemetry_text}, rte_tel_data_alloc()};

	if (dictionary.data != NULL)
		rte_tel_data_start_dict(dictionary.data);
	return dictionary;
}

/* Adds the dictionary to `d` by a name. Returns 0; on failure (the answer has no room) the dictionary is
 * freed. */
static inline int
telemetry_add(struct rte_tel_data *d, const char *name, struct telemetry_dictionary *dictionary)
{
	int error = rte_tel_data_add_dict_container(d, name, dictionary->data, 0);

	if (error != 0)
		rte_tel_data_free(dictionary->data);
	return error;
}

void telemetry_register(void); /* commands for cores and ports */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What answers to telemetry have in common.  A command that fails would be
 * answered with null: so one that is asked wrongly succeeds, and says why.
 */
#ifndef DATAPLANE_TEL_H
#define DATAPLANE_TEL_H

#include <stdbool.h>
#include <stddef.h>

#include <rte_telemetry.h>

/* The whole answer: { "error": `why` }. */
static inline int
tel_refuse(struct rte_tel_data *d, const char *why)
{
	rte_tel_data_start_dict(d);
	return rte_tel_data_add_dict_string(d, "error", why);
}

/* The command was given parameters. */
static inline bool
tel_has(const char *params)
{
	return params != NULL && *params != '\0';
}

#define TEL_NO_PARAMETERS "it takes no parameters"

#endif

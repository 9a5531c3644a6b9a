/* SPDX-License-Identifier: BSD-3-Clause */
/* dat.conf, the static registry. */
#ifndef DAT_REGISTRY_CONF_H
#define DAT_REGISTRY_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <dat/udat.h>

/* One line of dat.conf. */
struct conf_entry {
	struct conf_entry *next;
	DAT_PROVIDER_INFO info;
	char *library;
	char *params;   /* field 7 */
	char *platform; /* field 8 */
	/* of a library in use; registry.c */
	void *dl;
	uint32_t opens;
};

/*
 * Appends the entries of `file` to the list: those of API kind `u` marked `default`, of any version.
 * Malformed lines are skipped; returns how many were, the first of which is in *first_skipped, or -ENOMEM.
 */
int conf_parse(FILE *file, struct conf_entry **list, int *first_skipped);
/* One entry from its text (no newline): 1, 0 for nothing of interest, -EINVAL malformed, -ENOMEM. */
int conf_parse_line(const char *line, struct conf_entry **out);
void conf_free(struct conf_entry *list);
/* The library field names this library itself. */
bool conf_is_ours(const struct conf_entry *entry);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* dat.conf, the static registry. */
#ifndef DAT_REGISTRY_CONF_H
#define DAT_REGISTRY_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <dat/udat.h>

/* Entry of dat.conf: one line. */
struct conf_entry {
	struct conf_entry *next;
	DAT_PROVIDER_INFO info;
	char *library;
	char *params;   /* field 7 */
	char *platform; /* field 8 */
	/* used by registry.c: the loaded library, or NULL, and its open IAs */
	void *dl;
	uint32_t opens;
};

/* Appends the entries of `file` to the list that have API kind `u` and are marked `default`, of any version.
 * Skips malformed lines and sets *first_skipped to the number of the first.  Returns the number of skipped
 * lines, or -ENOMEM. */
int conf_parse(FILE *file, struct conf_entry **list, int *first_skipped);
/* Parses one line without its newline.  Returns 1: entry in *out; 0: line without a usable entry; -EINVAL:
 * malformed; -ENOMEM. */
int conf_parse_line(const char *line, struct conf_entry **out);
void conf_free(struct conf_entry *list);
/* True if the entry's library is this library. */
bool conf_is_ours(const struct conf_entry *entry);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry: dat.conf (static) and providers that announced themselves
 * (dynamic).  The oneside provider is part of this library; others come by dlopen.
 */
#ifndef DAT_REGISTRY_INTERNAL_H
#define DAT_REGISTRY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <dat/udat.h>
#include <dat/dat_registry.h>

/* One line of dat.conf. */
struct conf_entry {
	struct conf_entry *next;
	char name[DAT_NAME_MAX_LENGTH];
	uint32_t major, minor;
	bool thread_safe;
	char *library;
	char *params;   /* field 7 */
	char *platform; /* field 8 */
	/* of a library in use; registry.c */
	void *dl;
	uint32_t opens;
};

/*
 * Appends the entries of `file` to the list: those of API kind `u` marked
 * `default`, of any version.  Malformed lines are skipped; returns how many
 * were, or -ENOMEM.
 */
int conf_parse(FILE *file, struct conf_entry **list);
/* One entry from its text (no newline): 1, 0 for nothing of interest, -EINVAL malformed, -ENOMEM. */
int conf_parse_line(const char *line, struct conf_entry **out);
void conf_free(struct conf_entry *list);
/* The library field names this library itself. */
bool conf_is_ours(const struct conf_entry *entry);

/* Field 7 of our own entries: the socket and the port named there, else "". */
DAT_RETURN ia_params(const char *params, char *socket, size_t socket_len, char *port, size_t port_len);

/* The table of a provider library's object, or NULL: no such library is in use. */
const DAT_PROVIDER *registry_foreign(DAT_HANDLE handle);

/* With DAT_DBG_TYPE in the environment: says on stderr why something failed. */
void registry_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by the files of config/. */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/address.h"
#include "config/config.h"

/* Value to be set, with its names for error texts. */
struct config_value {
	const char *section, *key, *text;
	char *why;
	size_t why_len;
};

/* Key of a section, and the location of its value. Values are compared bytewise, so texts are zero-padded. */
struct config_key {
	const char *name; /* NULL ends a table */
	int (*set)(const struct config_value *value, const struct config_key *key, void *field);
	size_t offset, size;      /* in the section's object */
	uint64_t min, max;        /* range of numbers and sizes */
	bool or_zero;             /* 0 is valid below `min`, and means none */
	bool of_port;             /* for addresses: a port's own, with prefix */
	bool fixed;               /* cannot change while a data plane runs */
	const char *const *words; /* for words: the value is the index here; NULL ends the list */
	const char *help;         /* for words; for numbers and sizes, replaces the common error texts */
};

/* [NAME] of the whole configuration, or [NAME OBJECT] of one object. */
struct config_section {
	const char *name, *whose; /* owner of the keys in error texts: "for a port" */
	const struct config_key *keys;
	/* for sections with objects, else 0 */
	const char *needs;   /* keys that each object needs */
	size_t list, num;    /* offsets in struct config: an array, and its number of entries */
	size_t size, id_len; /* of an object, and of the identifier at its start */
	uint32_t max;
	/* Fills an all-zero `object` with its identifier and defaults. */
	int (*begin)(const struct config_value *value, const char *name, void *object);
};

/* Writes the sentence that refuses the value, and returns `error`. */
#define REFUSE_VALUE(value, error, format, ...)                                                        \
	config_refuse((value)->why, (value)->why_len, error, "%s: %s = %s: " format, (value)->section, \
		      (value)->key, (value)->text __VA_OPT__(, ) __VA_ARGS__)

/* addresses.c: setters of an address, of address lists, and of routes. */
int config_set_address(const struct config_value *value, const struct config_key *key, void *field);
int config_set_addresses(const struct config_value *value, const struct config_key *key, void *field);
int config_set_routes(const struct config_value *value, const struct config_key *key, void *field);
/* Print such values as a file has them, "none" if empty; truncated at `len`. */
void config_addresses_text(const struct config_key *key, const void *field, char *text, size_t len);
void config_routes_text(const struct config_route route[CONFIG_ROUTES_MAX], char *text, size_t len);

/* Number of objects in the section's list. */
static inline uint32_t *
config_num_of(const struct config *config, const struct config_section *section)
{
	return (uint32_t *)(uintptr_t)((const char *)config + section->num);
}

enum {
	CONFIG_DATAPLANE,
	CONFIG_LIMITS,
	CONFIG_PORT,
	CONFIG_PEER,
	CONFIG_IPSEC,
	CONFIG_USER,
	CONFIG_SECTIONS
};
extern const struct config_section config_sections[CONFIG_SECTIONS];

/*
 * Resolves "port p0" to its section and object. A new object is initialised after the last one. Returns 0, or
 * -errno and a sentence.
 */
int config_object(struct config *config, const struct config_value *value,
		  const struct config_section **section, char **object);
/* Finds a key; "secret-file" equals secret_file, as for options. NULL: no such key. */
const struct config_key *config_key_find(const struct config_section *section, const char *name);
/* Do two objects or configurations differ in the key? */
bool config_key_differs(const struct config_key *key, const void *a, const void *b);
/* Prints a key's value as a file has it; not for secrets, nor for addresses of peers or of ipsec. */
void config_key_text(const struct config_key *key, const void *object, char *text, size_t len);

/* Returns -EINVAL: not a place to listen; -ENAMETOOLONG: the path is too long. */
int config_listen_parse(const char *text, struct config_listen *listen);

#endif

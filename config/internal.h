/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of config/ share among themselves. */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/address.h"
#include "config/config.h"

/* What is to be set, for sentences. */
struct config_value {
	const char *section, *key, *text;
	char *why;
	size_t why_len;
};

/* A key of a section and where its value goes.  Values are compared as bytes: there are zeros behind a text.
 */
struct config_key {
	const char *name; /* NULL ends a table */
	int (*set)(const struct config_value *value, const struct config_key *key, void *field);
	size_t offset, size;      /* in the section's object */
	uint64_t min, max;        /* of numbers and sizes */
	bool or_zero;             /* which is below the least, and none */
	bool of_port;             /* of addresses: a port's own, on its link */
	bool fixed;               /* while a data plane runs */
	const char *const *words; /* of those that are a word's place here; NULL ends them */
	const char *help;         /* of words; of numbers and sizes, instead of the common sentences */
};

/* [NAME] of the configuration as a whole, or [NAME OBJECT] of one of its objects. */
struct config_section {
	const char *name, *whose; /* are its keys: "for a port" */
	const struct config_key *keys;
	/* Of those with objects, else 0. */
	const char *needs;   /* what each has to be given */
	size_t list, num;    /* in struct config: an array, and how many of it are in use */
	size_t size, id_len; /* of an object, and of what tells it from others, which it begins with */
	uint32_t max;
	/* `object` is all zero: what tells it from others, and its defaults. */
	int (*begin)(const struct config_value *value, const char *name, void *object);
};

/* Writes the sentence of a refusal of the value, and returns `error`. */
#define REFUSE_VALUE(value, error, format, ...)                                                        \
	config_refuse((value)->why, (value)->why_len, error, "%s: %s = %s: " format, (value)->section, \
		      (value)->key, (value)->text __VA_OPT__(, ) __VA_ARGS__)

/* addresses.c: setters of an address, of several, and of routes. */
int config_set_address(const struct config_value *value, const struct config_key *key, void *field);
int config_set_addresses(const struct config_value *value, const struct config_key *key, void *field);
int config_set_routes(const struct config_value *value, const struct config_key *key, void *field);
/* The values of such keys as a file has them, "none" for an empty one; cut off where `text` ends. */
void config_addresses_text(const struct config_key *key, const void *field, char *text, size_t len);
void config_routes_text(const struct config_route route[CONFIG_ROUTES_MAX], char *text, size_t len);

/* How many objects a configuration has in its list. */
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

/* Of "port p0": the section, and where its object is, or is to be behind the others, as it begins.  0, or
 * -errno and a sentence. */
int config_object(struct config *config, const struct config_value *value,
		  const struct config_section **section, char **object);
/* "secret-file" is secret_file, as it is among the options; NULL: there is no such key. */
const struct config_key *config_key_find(const struct config_section *section, const char *name);
/* Whether two objects, or configurations, differ in a key. */
bool config_key_differs(const struct config_key *key, const void *a, const void *b);
/* The value of a key that is no secret, and no address of a peer or of ipsec, as a file has it. */
void config_key_text(const struct config_key *key, const void *object, char *text, size_t len);

/* Bytes that the machine has, or a cgroup of this process allows, whichever is less; `root`: of the files
 * asked. */
/* -EINVAL: no such form; -ENAMETOOLONG: the path does not fit. */
int config_listen_parse(const char *text, struct config_listen *listen);

#endif

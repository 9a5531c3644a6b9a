/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of config/ share among themselves. */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/address.h"
#include "config/config.h"

enum config_kind {
	KEY_NUMBER,
	KEY_SIZE,
	KEY_MODE,
	KEY_IDLE,
	KEY_SWITCH,
	KEY_PATH,
	KEY_GROUP,
	KEY_LISTEN,
	KEY_LEVEL
};

/* A key of [dataplane] or [limits] and where its value goes. */
struct config_key {
	const char *name; /* NULL ends a table */
	enum config_kind kind;
	size_t offset, size; /* in struct config */
	uint64_t min, max;   /* of numbers and sizes */
	bool fixed;          /* while a data plane runs */
};

extern const struct config_key config_keys[];
extern const struct config_key config_limit_keys[];

/* Writes the sentence and returns `error`. */
int config_refuse(char *why, size_t why_len, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Bytes that the machine has, or a cgroup of this process allows, whichever is less; `root`: of the files
 * asked. */
uint64_t config_memory(const char *root);
/* A key of [user NAME]. */
int config_user_set(struct config *config, const char *name, const char *key, const char *value, char *why,
		    size_t why_len);
int config_user_find(const char *name, uid_t *uid); /* by name or number */
bool config_name_ok(const char *name, size_t room);
int config_size(const char *text, uint64_t *value); /* "512M" */
/* -EINVAL: no such form; -ENAMETOOLONG: the path does not fit. */
int config_listen_parse(const char *text, struct config_listen *listen);

/* -errno and a sentence where one of the file's lines is none of a configuration. */
int config_lines_check(const char *path, char *why, size_t why_len);

/* ---- ipsec.c ---- */
int config_ipsec_set(struct config *config, const char *name, const char *key, const char *value, char *why,
		     size_t why_len);
int config_ipsec_validate(const struct config *config, char *why, size_t why_len);
bool config_ipsec_equal(const struct config *a, const struct config *b);

#endif

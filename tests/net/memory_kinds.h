/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kinds of memory that programs register (doc/udapl.md lists them), and whether the library
 * copies them. The test runs with ONESIDE_DEBUG=1.
 */
#ifndef TESTS_NET_MEMORY_KINDS_H
#define TESTS_NET_MEMORY_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIND_SIZE (8ul << 20)

enum kind_mode { KIND_IN_PLACE, KIND_COPIED };

struct kind {
	const char *name;
	/* Returns NULL and sets *reason if this machine cannot make the kind. */
	uint8_t *(*make)(const char **reason);
	enum kind_mode way;
};

extern const struct kind memory_kinds[];
extern const uint32_t num_memory_kinds;

/*
 * kind_listen() starts capturing standard error; kind_copied() ends it and returns the reported reason why
 * memory that was registered meanwhile is copied, or NULL.
 */
void kind_listen(void);
const char *kind_copied(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DAT2_LAYOUT_H
#define DAT2_LAYOUT_H

#include <stdint.h>

struct layout {
	const char *name;
	uint64_t value;
};

/* Arrays end with an entry without a name. */
extern const struct layout layout_ours[], layout_theirs[];

#define SIZE(type) {#type, sizeof(NAME(type))},
#define FIELD(type, member) {#type "." #member, offsetof(NAME(type), member)},
#define VALUE(name) {#name, (uint64_t)NAME(name)},
#define ALIKE(name) {#name, DAT_##name},

#endif

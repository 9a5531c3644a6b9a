/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for objects on the path of requests: the objects of two threads share no cache line. */
#ifndef CLIENT_LINES_H
#define CLIENT_LINES_H

#include <stdlib.h>
#include <string.h>

#include "abi/ring.h"

static inline size_t
one_whole_lines(size_t size)
{
	return (size + ONE_CACHE_LINE - 1) / ONE_CACHE_LINE * ONE_CACHE_LINE;
}

/* Returns zeroed memory of whole cache lines, for free(); NULL: no memory. */
static inline void *
one_zalloc_lines(size_t size)
{
	size_t whole = one_whole_lines(size);
	void *memory = aligned_alloc(ONE_CACHE_LINE, whole);

	return memory == NULL ? NULL : memset(memory, 0, whole);
}

#endif

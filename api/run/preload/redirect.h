/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liboneside-run.so, which oneside-run preloads before the C library.  Calls that name a file in
 * /dev/infiniband or /sys/class/infiniband are redirected to the file in the folder $ONESIDE_RUN, if one
 * exists there.  All other calls pass unchanged.
 *
 * Thread: every function may be called by any thread, and before the constructors of the program's libraries
 * have run.
 */
#ifndef REDIRECT_H
#define REDIRECT_H

/* Undefined, so that the headers declare the calls under their own names. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <limits.h>

/*
 * Returns the path to use for `path`: `path` itself, or the redirected path in `buffer`.  Preserves errno.
 * Paths with ".." are not redirected.
 */
const char *redirect_path(const char *path, char buffer[PATH_MAX]);

/* The definition of a call that follows this library's in the search order; looked up once. */
#define REDIRECT_NEXT(name)                                      \
	({                                                       \
		static _Atomic(void *) next;                     \
		(__typeof__(name) *)redirect_next(&next, #name); \
	})
void *redirect_next(_Atomic(void *) *next, const char *name);

#endif

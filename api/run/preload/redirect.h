/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liboneside-run.so, which oneside-run has the loader put in front of the C library: calls that name a file
 * of /dev/infiniband or /sys/class/infiniband get that of the folder $ONESIDE_RUN, if there is one.  All else
 * passes unchanged.
 *
 * Thread: every function may be called by any thread, and before the constructors of the program's libraries
 * have run.
 */
#ifndef REDIRECT_H
#define REDIRECT_H

/* The headers are to declare the calls under their own names. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <limits.h>

/*
 * The path to give to the kernel for `path`: itself, or what is written to `buffer`.  errno stays.  Paths
 * with ".." are not looked at.
 */
const char *redirect_path(const char *path, char buffer[PATH_MAX]);

/* The next definition of a call behind this library's; found once. */
#define REDIRECT_NEXT(name)                                      \
	({                                                       \
		static _Atomic(void *) next;                     \
		(__typeof__(name) *)redirect_next(&next, #name); \
	})
void *redirect_next(_Atomic(void *) *next, const char *name);

#endif

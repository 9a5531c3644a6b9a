/* SPDX-License-Identifier: BSD-3-Clause */
/* Redirects calls that open a file or a folder. */
#include "run/preload/redirect.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>

/* glibc's checked variants (_FORTIFY_SOURCE), without a mode. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags);

#define HAS_MODE(flags) (((flags) & (O_CREAT | O_TMPFILE)) != 0)
#define READ_MODE(mode, flags)                                     \
	do {                                                       \
		va_list args;                                      \
		va_start(args, flags);                             \
		mode = HAS_MODE(flags) ? va_arg(args, mode_t) : 0; \
		va_end(args);                                      \
	} while (0)

#define DEFINE_OPEN(name)                                                             \
	int name(const char *path, int flags, ...)                                    \
	{                                                                             \
		char buffer[PATH_MAX];                                                \
		mode_t mode;                                                          \
                                                                                      \
		READ_MODE(mode, flags);                                               \
		return REDIRECT_NEXT(name)(redirect_path(path, buffer), flags, mode); \
	}
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                                                   \
	int name(int folder, const char *path, int flags, ...)                                \
	{                                                                                     \
		char buffer[PATH_MAX];                                                        \
		mode_t mode;                                                                  \
                                                                                              \
		READ_MODE(mode, flags);                                                       \
		return REDIRECT_NEXT(name)(folder, redirect_path(path, buffer), flags, mode); \
	}
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

#define DEFINE_CHECKED(name)                                                    \
	int name(const char *path, int flags)                                   \
	{                                                                       \
		char buffer[PATH_MAX];                                          \
                                                                                \
		return REDIRECT_NEXT(name)(redirect_path(path, buffer), flags); \
	}
DEFINE_CHECKED(__open_2)
DEFINE_CHECKED(__open64_2)

#define DEFINE_CHECKED_AT(name)                                                         \
	int name(int folder, const char *path, int flags)                               \
	{                                                                               \
		char buffer[PATH_MAX];                                                  \
                                                                                        \
		return REDIRECT_NEXT(name)(folder, redirect_path(path, buffer), flags); \
	}
DEFINE_CHECKED_AT(__openat_2)
DEFINE_CHECKED_AT(__openat64_2)

#define DEFINE_FOPEN(name)                                                     \
	FILE *name(const char *path, const char *mode)                         \
	{                                                                      \
		char buffer[PATH_MAX];                                         \
                                                                               \
		return REDIRECT_NEXT(name)(redirect_path(path, buffer), mode); \
	}
DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)

DIR *
opendir(const char *path)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(opendir)(redirect_path(path, buffer));
}

int
scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
	int (*compare)(const struct dirent **, const struct dirent **))
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(scandir)(redirect_path(path, buffer), list, filter, compare);
}

int
scandir64(const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *),
	  int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(scandir64)(redirect_path(path, buffer), list, filter, compare);
}

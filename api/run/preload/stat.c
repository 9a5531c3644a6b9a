/* SPDX-License-Identifier: BSD-3-Clause */
/* Redirects calls that query a file. */
#include "run/preload/redirect.h"

#include <sys/stat.h>
#include <unistd.h>

/* Calls of programs that were built with a glibc before 2.33. */
int __xstat(int version, const char *path, struct stat *status);
int __xstat64(int version, const char *path, struct stat64 *status);
int __lxstat(int version, const char *path, struct stat *status);
int __lxstat64(int version, const char *path, struct stat64 *status);
int __fxstatat(int version, int folder, const char *path, struct stat *status, int flags);
int __fxstatat64(int version, int folder, const char *path, struct stat64 *status, int flags);

#define DEFINE_STAT(name, type)                                                  \
	int name(const char *path, struct type *status)                          \
	{                                                                        \
		char buffer[PATH_MAX];                                           \
                                                                                 \
		return REDIRECT_NEXT(name)(redirect_path(path, buffer), status); \
	}
DEFINE_STAT(stat, stat)
DEFINE_STAT(stat64, stat64)
DEFINE_STAT(lstat, stat)
DEFINE_STAT(lstat64, stat64)

#define DEFINE_OLD_STAT(name, type)                                                       \
	int name(int version, const char *path, struct type *status)                      \
	{                                                                                 \
		char buffer[PATH_MAX];                                                    \
                                                                                          \
		return REDIRECT_NEXT(name)(version, redirect_path(path, buffer), status); \
	}
DEFINE_OLD_STAT(__xstat, stat)
DEFINE_OLD_STAT(__xstat64, stat64)
DEFINE_OLD_STAT(__lxstat, stat)
DEFINE_OLD_STAT(__lxstat64, stat64)

#define DEFINE_STATAT(name, type)                                                               \
	int name(int folder, const char *path, struct type *status, int flags)                  \
	{                                                                                       \
		char buffer[PATH_MAX];                                                          \
                                                                                                \
		return REDIRECT_NEXT(name)(folder, redirect_path(path, buffer), status, flags); \
	}
DEFINE_STATAT(fstatat, stat)
DEFINE_STATAT(fstatat64, stat64)

#define DEFINE_OLD_STATAT(name, type)                                                                    \
	int name(int version, int folder, const char *path, struct type *status, int flags)              \
	{                                                                                                \
		char buffer[PATH_MAX];                                                                   \
                                                                                                         \
		return REDIRECT_NEXT(name)(version, folder, redirect_path(path, buffer), status, flags); \
	}
DEFINE_OLD_STATAT(__fxstatat, stat)
DEFINE_OLD_STATAT(__fxstatat64, stat64)

int
statx(int folder, const char *path, int flags, unsigned int mask, struct statx *status)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(statx)(folder, redirect_path(path, buffer), flags, mask, status);
}

#define DEFINE_ACCESS(name)                                                    \
	int name(const char *path, int mode)                                   \
	{                                                                      \
		char buffer[PATH_MAX];                                         \
                                                                               \
		return REDIRECT_NEXT(name)(redirect_path(path, buffer), mode); \
	}
DEFINE_ACCESS(access)
DEFINE_ACCESS(eaccess)
DEFINE_ACCESS(euidaccess)

int
faccessat(int folder, const char *path, int mode, int flags)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(faccessat)(folder, redirect_path(path, buffer), mode, flags);
}

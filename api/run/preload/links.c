/* SPDX-License-Identifier: BSD-3-Clause */
/* Redirects calls that follow links, and chdir(). */
#include "run/preload/redirect.h"

#include <stdlib.h>
#include <unistd.h>

/* glibc's checked variants (_FORTIFY_SOURCE). */
ssize_t __readlink_chk(const char *path, char *text, size_t size, size_t room);
ssize_t __readlinkat_chk(int folder, const char *path, char *text, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

ssize_t
readlink(const char *path, char *text, size_t size)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(readlink)(redirect_path(path, buffer), text, size);
}

ssize_t
__readlink_chk(const char *path, char *text, size_t size, size_t room)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(__readlink_chk)(redirect_path(path, buffer), text, size, room);
}

ssize_t
readlinkat(int folder, const char *path, char *text, size_t size)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(readlinkat)(folder, redirect_path(path, buffer), text, size);
}

ssize_t
__readlinkat_chk(int folder, const char *path, char *text, size_t size, size_t room)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(__readlinkat_chk)(folder, redirect_path(path, buffer), text, size, room);
}

char *
realpath(const char *path, char *resolved)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(realpath)(redirect_path(path, buffer), resolved);
}

char *
__realpath_chk(const char *path, char *resolved, size_t room)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(__realpath_chk)(redirect_path(path, buffer), resolved, room);
}

char *
canonicalize_file_name(const char *path)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(canonicalize_file_name)(redirect_path(path, buffer));
}

int
chdir(const char *path)
{
	char buffer[PATH_MAX];

	return REDIRECT_NEXT(chdir)(redirect_path(path, buffer));
}

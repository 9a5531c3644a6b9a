/* SPDX-License-Identifier: BSD-3-Clause */
/* Warnings about programs that the loader starts without oneside's libraries. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "run/run.h"

/* Finds the file that execvp() would start; false if none exists. */
static bool
find_program(const char *program, char path[PATH_MAX])
{
	const char *list = getenv("PATH");

	if (strchr(program, '/') != NULL) {
		snprintf(path, PATH_MAX, "%s", program);
		return access(path, X_OK) == 0;
	}
	return run_find(list != NULL ? list : "/usr/bin:/bin", program, X_OK, path);
}

/* True for an ELF file without an interpreter, hence without a loader that takes libraries. */
static bool
is_static(int fd)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(part))
		return false;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		off_t at = (off_t)(head.e_phoff + i * sizeof(part));

		if (pread(fd, &part, sizeof(part), at) != sizeof(part) || part.p_type == PT_INTERP)
			return false;
	}
	return true;
}

/* True for a program that gets rights by its file: the loader then ignores libraries of the environment. */
static bool
has_rights_of_its_own(int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return false;
	return ((status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid()) ||
	       ((status.st_mode & S_ISGID) != 0 && status.st_gid != getegid()) ||
	       (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0);
}

void
run_look_at(const char *program, bool in_namespace)
{
	char path[PATH_MAX];
	int fd = find_program(program, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	if (is_static(fd) && !in_namespace)
		run_say("%s is statically linked: only programs that it starts use oneside's libraries (--namespace shows it /dev/infiniband and /sys/class/infiniband); link it dynamically",
			path);
	else if (has_rights_of_its_own(fd))
		run_say("%s has rights by its file (set-user-ID, set-group-ID or file capabilities), so the loader ignores oneside's libraries; run a copy without these rights",
			path);
	close(fd);
}

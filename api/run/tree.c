/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The folder with the files that present a data plane.  Each user has one folder per socket, shared by all
 * programs of the user, and in memory if a tmpfs exists.  A new folder is created under another name and then
 * exchanged with the old one, so that programs never find an incomplete folder.  oneside-run removes folders
 * of the user whose socket no longer exists.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/attach.h"
#include "run/run.h"

#define ABOUT_MAX 65536u
#define SOCKET_FILE "socket"
#define ABOUT_FILE "about" /* all inputs of the other files: folders with an equal file are equal */

struct tree {
	int root;  /* descriptor of the folder */
	int error; /* first failure, -errno */
};

/* ---- files ---- */

static int
make_folders(int root, const char *path)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdirat(root, part, 0755) != 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

void
run_file(struct tree *tree, const char *path, const char *format, ...)
{
	va_list args;
	int fd, written;

	if (tree->error == 0)
		tree->error = make_folders(tree->root, path);
	if (tree->error != 0)
		return;
	fd = openat(tree->root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0) {
		tree->error = -errno;
		return;
	}
	va_start(args, format);
	written = vdprintf(fd, format, args);
	va_end(args);
	if (written < 0)
		tree->error = -errno;
	close(fd);
}

void
run_link(struct tree *tree, const char *path, const char *target)
{
	if (tree->error == 0)
		tree->error = make_folders(tree->root, path);
	if (tree->error == 0 && symlinkat(target, tree->root, path) != 0 && errno != EEXIST)
		tree->error = -errno;
}

/* Links the host's real devices, so that programs see those as well. */
static void
link_real_entries(struct tree *tree, const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		char path[PATH_MAX], *real;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		real = realpath(path, NULL);
		if (real != NULL)
			run_link(tree, path + 1, real);
		free(real);
	}
	if (dir != NULL)
		closedir(dir);
}

/* Removes a folder with its contents. */
static void
remove_folder(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(fd, entry->d_name, 0) != 0)
			remove_folder(fd, entry->d_name);
	}
	if (dir != NULL)
		closedir(dir);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* ---- the parent of a user's folders ---- */

/* Refuses a folder that another user owns or can write to, because programs take their devices from there. */
static int
check_owner(const char *path)
{
	struct stat status;

	if (lstat(path, &status) != 0)
		return -errno;
	if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
	    (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
		run_say("%s is not a folder that only this user can write to; remove it", path);
		return -EPERM;
	}
	return 0;
}

static int
open_home(char *path, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *const places[] = {runtime != NULL ? runtime : "/dev/shm", "/dev/shm", "/tmp"};
	int error = 0, fd = -1;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && fd < 0; i++) {
		snprintf(path, size, "%s/oneside-run-%u", places[i], (unsigned)geteuid());
		if (mkdir(path, 0755) != 0 && errno != EEXIST)
			continue;
		error = check_owner(path);
		if (error != 0)
			return error;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0) {
		error = -errno;
		run_say("%s: %s; set XDG_RUNTIME_DIR to a writable folder", path, strerror(-error));
		return error;
	}
	return fd;
}

/* Reads up to `size` - 1 bytes of a file; false if the file cannot be read. */
static bool
read_text(int folder, const char *name, char *text, size_t size)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);

	text[len < 0 ? 0 : len] = '\0';
	if (fd >= 0)
		close(fd);
	return len >= 0;
}

/* Removes the folders of data planes whose sockets no longer exist. */
static void
remove_stale(int home)
{
	DIR *dir = fdopendir(openat(home, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		char name[PATH_MAX], socket[PATH_MAX];

		snprintf(name, sizeof(name), "%s/" SOCKET_FILE, entry->d_name);
		if (entry->d_name[0] != '.' && read_text(home, name, socket, sizeof(socket)) &&
		    access(socket, F_OK) != 0 && errno == ENOENT)
			remove_folder(home, entry->d_name);
	}
	if (dir != NULL)
		closedir(dir);
}

/* ---- one data plane ---- */

static void
describe_ports(const struct run_ports *ports, char *text)
{
	size_t len = (size_t)snprintf(text, ABOUT_MAX, "oneside %s\n", ONESIDE_VERSION);

	for (uint32_t i = 0; i < ports->num; i++) {
		const struct one_port *port = &ports->port[i];

		len += (size_t)snprintf(text + len, ABOUT_MAX - len, "%s %012llx %u %u", port->name,
					(unsigned long long)port->hwaddr, port->mbps, port->link_up);
		for (uint32_t n = 0; n < port->num_addrs; n++) {
			char addr[INET6_ADDRSTRLEN] = "";

			inet_ntop(port->addr[n].family, port->addr[n].addr, addr, sizeof(addr));
			len += (size_t)snprintf(text + len, ABOUT_MAX - len, " %s", addr);
		}
		len += (size_t)snprintf(text + len, ABOUT_MAX - len, "\n");
	}
}

static void
list_addresses(const struct run_ports *ports, char *text)
{
	size_t len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < ports->num; i++) {
		for (uint32_t n = 0; n < ports->port[i].num_addrs; n++) {
			const struct one_port_addr *from = &ports->port[i].addr[n];
			char addr[INET6_ADDRSTRLEN] = "";

			inet_ntop(from->family, from->addr, addr, sizeof(addr));
			len += (size_t)snprintf(text + len, ABOUT_MAX - len, "oneside%u %s\n", i, addr);
		}
	}
}

static int
fill_tree(int root, const struct run_ports *ports, const char *about, const char *socket)
{
	static char addresses[ABOUT_MAX];
	struct tree tree = {.root = root};

	for (uint32_t i = 0; i < ports->num; i++)
		run_device(&tree, &ports->port[i], i);
	/* Programs check that this device exists; oneside's librdmacm does not open it. */
	run_link(&tree, "dev/infiniband/rdma_cm", "/dev/null");
	link_real_entries(&tree, "/sys/class/infiniband");
	link_real_entries(&tree, "/dev/infiniband");
	list_addresses(ports, addresses);
	if (tree.error == 0)
		tree.error = make_folders(root, RUN_SCRATCH "/");
	run_file(&tree, RUN_ADDRESSES, "%s", addresses);
	run_file(&tree, ABOUT_FILE, "%s", about);
	run_file(&tree, SOCKET_FILE, "%s", socket);
	return tree.error;
}

static int
give_name(int home, const char *fresh, const char *name)
{
	if (renameat2(home, fresh, home, name, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno == ENOENT && renameat(home, fresh, home, name) == 0)
		return 0;
	/* Success: another oneside-run has just created the folder for this data plane. */
	return errno == EEXIST || errno == ENOTEMPTY ? 0 : -errno;
}

/* Creates a folder under another name, and replaces the folder `name`, if one exists. */
static int
make_tree(int home, const char *name, const struct run_ports *ports, const char *about, const char *socket)
{
	char fresh[64];
	int root, error = 0;

	snprintf(fresh, sizeof(fresh), ".%s.%d", name, (int)getpid());
	remove_folder(home, fresh);
	if (mkdirat(home, fresh, 0755) != 0)
		return -errno;
	root = openat(home, fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	error = root < 0 ? -errno : fill_tree(root, ports, about, socket);
	if (root >= 0)
		close(root);
	if (error == 0)
		error = give_name(home, fresh, name);
	remove_folder(home, fresh);
	return error;
}

/* Hashes a socket's path (FNV-1a), for a folder name without slashes. */
static uint64_t
hash_path(const char *path)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *path != '\0'; path++)
		hash = (hash ^ (uint8_t)*path) * 0x100000001b3u;
	return hash;
}

int
run_present(const struct run_ports *ports, char *path, size_t size)
{
	static char about[ABOUT_MAX], found[ABOUT_MAX];
	char *socket = realpath(one_socket_path(NULL), NULL), name[32], file[64];
	int home = open_home(path, size), error = 0;
	size_t len;

	if (home >= 0 && socket != NULL) {
		remove_stale(home);
		describe_ports(ports, about);
		snprintf(name, sizeof(name), "%016llx", (unsigned long long)hash_path(socket));
		snprintf(file, sizeof(file), "%s/" ABOUT_FILE, name);
		if (!read_text(home, file, found, sizeof(found)) || strcmp(about, found) != 0)
			error = make_tree(home, name, ports, about, socket);
		len = strlen(path);
		snprintf(path + len, size - len, "/%s", name);
		if (error != 0)
			run_say("%s: %s", path, strerror(-error));
	} else {
		error = home < 0 ? home : -ENOENT;
	}
	if (home >= 0)
		close(home);
	free(socket);
	return error;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

char made_root[64];
struct setup_machine made;
static char routes[4096], trie[4096];

/* Returns the path below made_root; makes its folders. */
static const char *
place(const char *path)
{
	static char full[1024];

	snprintf(full, sizeof(full), "%s/%s", made_root, path);
	for (char *at = strchr(full + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
		*at = '\0';
		mkdir(full, 0755);
		*at = '/';
	}
	return full;
}

void
made_file(const char *path, const char *format, ...)
{
	FILE *file = fopen(place(path), "w");
	va_list args;

	assert_non_null(file);
	va_start(args, format);
	vfprintf(file, format, args);
	va_end(args);
	assert_int_equal(fclose(file), 0);
}

void
made_link(const char *path, const char *target)
{
	assert_int_equal(symlink(target, place(path)), 0);
}

void
made_iface(const char *name, unsigned int mtu)
{
	char path[256];

	snprintf(path, sizeof(path), "sys/class/net/%s/mtu", name);
	made_file(path, "%u\n", mtu);
	snprintf(path, sizeof(path), "sys/class/net/%s/type", name);
	made_file(path, "1\n");
	snprintf(path, sizeof(path), "sys/class/net/%s/flags", name);
	made_file(path, "0x1003\n");
}

void
made_nic(const char *pci, const char *driver, const char *iface, int group)
{
	char path[256], target[256];

	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/class", pci);
	made_file(path, "0x020000\n");
	if (driver != NULL) {
		snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/driver", pci);
		snprintf(target, sizeof(target), "../../../../bus/pci/drivers/%s", driver);
		made_link(path, target);
	}
	if (group != 0) {
		snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/iommu_group", pci);
		snprintf(target, sizeof(target), "../../../../kernel/iommu_groups/%d", group);
		made_link(path, target);
		snprintf(path, sizeof(path), "sys/kernel/iommu_groups/%d/devices/%s", group, pci);
		made_file(path, "a link\n");
	}
	if (iface == NULL)
		return;
	made_iface(iface, 1500);
	/* Interfaces of virtio belong to a device below the PCI device. */
	snprintf(path, sizeof(path), "sys/class/net/%s/device", iface);
	snprintf(target, sizeof(target), "../../../bus/pci/devices/%s%s", pci,
		 driver != NULL && strcmp(driver, "virtio-pci") == 0 ? "/virtio0" : "");
	made_link(path, target);
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/virtio0/name", pci);
	made_file(path, "x\n");
}

/* Returns an address as a little-endian kernel prints it. */
static unsigned int
word(unsigned int a, unsigned int b, unsigned int c, unsigned int d)
{
	return a | b << 8 | c << 16 | d << 24;
}

void
made_address(const char *iface, unsigned int a, unsigned int b, unsigned int c, unsigned int d)
{
	size_t len = strlen(routes);

	snprintf(routes + len, sizeof(routes) - len, "%s\t%08X\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
		 iface, word(a, b, c, 0));
	len = strlen(trie);
	snprintf(trie + len, sizeof(trie) - len, "           |-- %u.%u.%u.%u\n              /32 host LOCAL\n",
		 a, b, c, d);
}

void
made_default(const char *iface)
{
	size_t len = strlen(routes);

	snprintf(routes + len, sizeof(routes) - len,
		 "%s\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", iface);
}

void
made_read(void)
{
	made_file("proc/net/route", "Iface\tDestination\tGateway\n%s", routes);
	/* The kernel lists each address under Main and under Local. */
	made_file("proc/net/fib_trie", "Main:\n%sLocal:\n%s", trie, trie);
	setup_machine_read(&made, made_root);
}

int
made_begin(void **state)
{
	strcpy(made_root, "/tmp/oneside-setup.XXXXXX");
	assert_non_null(mkdtemp(made_root));
	routes[0] = trie[0] = '\0';
	made_file("sys/devices/system/cpu/online", "0-7\n");
	made_file("sys/devices/system/cpu/isolated", "\n");
	made_file("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7\n");
	unsetenv("SSH_CONNECTION");
	return 0;
}

static int
erase(const char *path, const struct stat *st, int type, struct FTW *where)
{
	return remove(path);
}

int
made_end(void **state)
{
	return nftw(made_root, erase, 16, FTW_DEPTH | FTW_PHYS);
}

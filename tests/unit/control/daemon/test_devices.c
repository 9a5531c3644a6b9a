/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that the EAL of a process that takes over must not open. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_dev.h>

#include "config/config.h"
#include "control/daemon/daemon.h"
#include "dataplane/port/device.h"
#include "dataplane/port/memif_rings.h"
#include "tests/unit/unit.h"

#define WORDS 24

static char opened[512];
static int fault;
static bool physical;

int
rte_eal_hotplug_add(const char *bus, const char *name, const char *args)
{
	size_t len = strlen(opened);

	snprintf(opened + len, sizeof(opened) - len, "%s%s:%s,%s", len > 0 ? " " : "", bus, name, args);
	return fault;
}

/* For device.c. */
uint16_t
rings_limit(const char *args)
{
	return 1;
}

/* Each case runs in a process of its own: devices are withheld once. */
static void
assert_withheld(const char *from, const char *devices, const char *to, const char *opens)
{
	char text[512], names[512], built[512] = "", why[200], *word[WORDS], *save = NULL, **kept;
	struct config config = {.num_ports = 0};
	int n = 0, status;
	pid_t pid = fork();

	if (pid > 0) {
		waitpid(pid, &status, 0);
		assert_int_equal(status, 0);
		return;
	}
	snprintf(text, sizeof(text), "%s", from);
	for (char *next = strtok_r(text, " ", &save); next != NULL; next = strtok_r(NULL, " ", &save))
		word[n++] = next;
	snprintf(names, sizeof(names), "%s", devices);
	for (char *next = strtok_r(names, " ", &save); next != NULL; next = strtok_r(NULL, " ", &save))
		snprintf(config.port[config.num_ports++].device, sizeof(config.port[0].device), "%s",
			 strcmp(next, "-") == 0 ? "" : next);
	kept = devices_withhold(&n, word, &config, physical);
	for (int i = 0; i < n; i++)
		strcat(strcat(built, i > 0 ? " " : ""), kept[i]);
	if (kept[n] != NULL || strcmp(built, to) != 0)
		_exit(fprintf(stderr, "arguments: %s\n", built) > 0);
	if (devices_open(why, sizeof(why)) != 0 || strcmp(opened, opens) != 0)
		_exit(fprintf(stderr, "opened: %s\n", opened) > 0);
	_exit(0);
}

static void
test_virtual(void **state)
{
	assert_withheld("eal -l 0,1 --vdev=net_memif0,id=1 --no-pci --vdev crypto_openssl --vdev net_null0",
			"- -", "eal -l 0,1 --no-pci --vdev crypto_openssl",
			"vdev:net_memif0,id=1 vdev:net_null0,");
}

/* In the order in which EAL numbers ports: PCI devices by address. */
static void
test_pci(void **state)
{
	assert_withheld("eal --vdev=net_null0 -a 01:00.1,a=b --allow=0000:01:00.0 -a0000:00:1F.2", "- - - -",
			"eal --allow=ffff:ff:1f.7 --iova-mode=va",
			"pci:0000:00:1f.2, pci:0000:01:00.0, pci:0000:01:00.1,a=b vdev:net_null0,");
	assert_withheld("eal --allow pci:0001:00:00.0,x", "-", "eal --allow=ffff:ff:1f.7 --iova-mode=va",
			"pci:0001:00:00.0,x");
	/* Devices of other buses are EAL's. */
	assert_withheld("eal -a auxiliary:mlx5_core.sf.4", "01:00.0",
			"eal -a auxiliary:mlx5_core.sf.4 --allow=ffff:ff:1f.7", "");
}

/* EAL chooses the mode by the devices, and needs the one of the process that serves. */
static void
test_addresses(void **state)
{
	physical = true;
	assert_withheld("eal -a 01:00.0", "-", "eal --allow=ffff:ff:1f.7 --iova-mode=pa",
			"pci:0000:01:00.0,");
	assert_withheld("eal --iova-mode va -a 01:00.0", "-", "eal --iova-mode va --allow=ffff:ff:1f.7",
			"pci:0000:01:00.0,");
	assert_withheld("eal --vdev=net_null0", "-", "eal --allow=ffff:ff:1f.7", "vdev:net_null0,");
	physical = false;
}

/* A device that no port has stays with the process that serves. */
static void
test_spare(void **state)
{
	assert_withheld("eal -a 01:00.0 -a 01:00.1", "0000:01:00.1",
			"eal --allow=ffff:ff:1f.7 --iova-mode=va", "pci:0000:01:00.1,");
}

/* EAL opens PCI devices that it knows, if no option names one. */
static void
test_unnamed(void **state)
{
	assert_withheld("eal -l 0,1", "02:00.0 net_null0", "eal -l 0,1 --allow=ffff:ff:1f.7 --iova-mode=va",
			"pci:0000:02:00.0,");
	assert_withheld("eal -b 03:00.0 --block=04:00.0 -m 1", "02:00.0",
			"eal -m 1 --allow=ffff:ff:1f.7 --iova-mode=va", "pci:0000:02:00.0,");
	assert_withheld("eal --no-pci", "02:00.0", "eal --no-pci", "");
}

static void
test_fault(void **state)
{
	char *word[] = {(char *)(uintptr_t) "eal", (char *)(uintptr_t) "-a", (char *)(uintptr_t) "01:00.0"};
	struct config config = {.num_ports = 1};
	char why[200], **kept;
	int n = 3;

	kept = devices_withhold(&n, word, &config, false);
	free(kept);
	fault = -EBUSY;
	assert_int_equal(devices_open(why, sizeof(why)), -EBUSY);
	assert_non_null(strstr(why, "device 0000:01:00.0 does not open: Device or resource busy"));
	assert_false(devices_can_share(1));
}

/* The socket of a memif server is held while a process has it, and a file that one has left is not. */
static void
test_held(void **state)
{
	char path[64], args[128];
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(path, sizeof(path), "/tmp/oneside-held-%d", (int)getpid());
	strcpy(addr.sun_path, path);
	snprintf(args, sizeof(args), "role=server,socket=%s,socket-abstract=no", path);
	assert_false(device_is_held("net_memif0", args));
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_true(device_is_held("net_memif0", args));
	device_remove_stale("net_memif0", args);
	assert_int_equal(access(path, F_OK), 0);
	args[5] = 'c'; /* not a server */
	assert_false(device_is_held("net_memif0", args));
	args[5] = 's';
	assert_false(device_is_held("net_tap0", args));
	close(fd);
	assert_false(device_is_held("net_memif0", args));
	device_remove_stale("net_memif0", args);
	assert_int_equal(access(path, F_OK), -1);
}

static void
test_held_name(void **state)
{
	char args[128];
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	int length = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "oneside-held-%d", (int)getpid());

	snprintf(args, sizeof(args), "role=server,socket=%s", addr.sun_path + 1);
	assert_false(device_is_held("net_memif0", args));
	assert_int_equal(bind(fd, (struct sockaddr *)&addr,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)),
			 0);
	assert_true(device_is_held("net_memif0", args));
	close(fd);
	assert_false(device_is_held("net_memif0", args));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_virtual),   cmocka_unit_test(test_pci),
		cmocka_unit_test(test_addresses), cmocka_unit_test(test_spare),
		cmocka_unit_test(test_unnamed),   cmocka_unit_test(test_fault),
		cmocka_unit_test(test_held),      cmocka_unit_test(test_held_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

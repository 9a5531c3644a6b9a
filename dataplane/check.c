/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `--check`.  First what can be seen without EAL, so that the advice is there
 * even if EAL would only say "cannot init"; then the real start of EAL and of
 * the engine's ports and memory, since nothing else proves that they work.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_cpuflags.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "check.h"
#include "engine.h"
#include "kernel_addr.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define MIB (1ull << 20)

struct report {
	const struct config *config;
	int argc;
	char **argv; /* of EAL */
	unsigned int missing, advice;
};

static void __attribute__((format(printf, 2, 3))) missing(struct report *report, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("missing: ", stdout);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	report->missing++;
}

static void __attribute__((format(printf, 2, 3))) advice(struct report *report, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("advice: ", stdout);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	report->advice++;
}

/* The first line of a small file; false when there is none. */
static bool
read_line(const char *path, char *line, size_t len)
{
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return false;
	bool ok = fgets(line, (int)len, file) != NULL;
	fclose(file);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

static bool
exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static bool
has_capability(unsigned int capability)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return (data[capability / 32].effective >> (capability % 32)) & 1;
}

/* "sudo " where the command needs it. */
static const char *
sudo(void)
{
	return geteuid() == 0 ? "" : "sudo ";
}

/* The value of "--name=value" or "--name value" at argv[i], or NULL. */
static const char *
eal_value(const struct report *report, int i, const char *name)
{
	size_t len = strlen(name);
	const char *arg = report->argv[i];

	if (strncmp(arg, name, len) != 0)
		return NULL;
	if (arg[len] == '=')
		return arg + len + 1;
	return arg[len] == '\0' && i + 1 < report->argc ? report->argv[i + 1] : NULL;
}

static bool
eal_has(const struct report *report, const char *name)
{
	for (int i = 1; i < report->argc; i++) {
		if (strcmp(report->argv[i], name) == 0)
			return true;
	}
	return false;
}

/* "key=value" in a comma-separated device argument. */
static bool
device_argument(const char *device, const char *key, char *value, size_t value_len)
{
	size_t len = strlen(key);
	for (const char *at = strchr(device, ','); at != NULL; at = strchr(at, ',')) {
		at++;
		if (strncmp(at, key, len) == 0 && at[len] == '=') {
			snprintf(value, value_len, "%.*s", (int)strcspn(at + len + 1, ","), at + len + 1);
			return true;
		}
	}
	return false;
}

/* ---- the machine ---- */

static void
check_cpu(struct report *report)
{
	cpu_set_t set;

	if (rte_cpu_get_flag_enabled(RTE_CPUFLAG_INVTSC) != 1)
		advice(report,
		       "processor: its time stamp counter may change speed or stop (no invariant TSC), so "
		       "timers "
		       "are inexact; on a virtual machine let the host pass its CPU through (-cpu host)");
	if (rte_cpu_get_flag_enabled(RTE_CPUFLAG_PCLMULQDQ) != 1)
		advice(report, "processor: no PCLMULQDQ, so checksums of packets are slow; on a virtual "
			       "machine let the "
			       "host pass its CPU through (-cpu host)");
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) < 2)
		missing(report,
			"processors: this process may use %d, and a data plane needs 2 (control thread and "
			"polling "
			"core); run it with taskset -c 0,1, or share one by the EAL option --lcores "
			"'0@0,1@0' "
			"with --idle sleep",
			CPU_COUNT(&set));
}

static uint64_t
memory_needed(const struct report *report)
{
	const struct config *config = report->config;
	uint64_t cores = 1, bytes = 192 * MIB; /* rings, tables, queue pairs */

	/* Polling cores, as far as one can tell without EAL: one, unless "-l" lists more. */
	for (int i = 1; i + 1 < report->argc; i++) {
		if (strcmp(report->argv[i], "-l") == 0) {
			unsigned int commas = 0;
			for (const char *c = report->argv[i + 1]; *c != '\0'; c++)
				commas += *c == ',';
			cores = commas > 0 ? commas : 1;
		}
	}
	for (uint32_t i = 0; i < config->num_ports; i++) {
		uint64_t mtu = config->port[i].mtu != 0 ? config->port[i].mtu : 1500;
		bytes += cores * config->mbufs * (mtu + 700);
	}
	return bytes + cores * config->work_pool * 256;
}

static void
check_hugepages(struct report *report)
{
	uint64_t available = 0, needed = memory_needed(report);
	char path[512], line[64];
	struct dirent *entry;

	if (eal_has(report, "--no-huge")) {
		advice(report,
		       "hugepages: --no-huge works, but is slower and cannot drive PCI devices; reserve some "
		       "with %shugeadm --pool-pages-min 2MB:%llu, and leave --no-huge out",
		       sudo(), (unsigned long long)((needed + 2 * MIB - 1) / (2 * MIB)));
		return;
	}
	DIR *dir = opendir("/sys/kernel/mm/hugepages");
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		unsigned long long kib;
		if (sscanf(entry->d_name, "hugepages-%llukB", &kib) != 1)
			continue;
		snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/%s/free_hugepages", entry->d_name);
		if (read_line(path, line, sizeof(line)))
			available += strtoull(line, NULL, 10) * kib * 1024;
	}
	if (dir != NULL)
		closedir(dir);
	unsigned long long pages = (needed + 2 * MIB - 1) / (2 * MIB);
	if (available == 0)
		missing(report,
			"hugepages: none is free; reserve them with %shugeadm --pool-pages-min 2MB:%llu "
			"(package "
			"libhugetlbfs-bin), or run without by the EAL options --no-huge -m %llu",
			sudo(), pages, (unsigned long long)(needed / MIB + 1));
	else if (available < needed)
		missing(report,
			"hugepages: %llu MiB are free and about %llu are needed; reserve more with %shugeadm "
			"--pool-pages-min 2MB:%llu",
			(unsigned long long)(available / MIB), (unsigned long long)(needed / MIB + 1), sudo(),
			pages);
	if (available != 0 && !eal_has(report, "--in-memory")) {
		FILE *mounts = fopen("/proc/mounts", "re");
		char mount[512];
		bool found = false;
		while (mounts != NULL && fgets(mount, sizeof(mount), mounts) != NULL)
			found |= strstr(mount, " hugetlbfs ") != NULL;
		if (mounts != NULL)
			fclose(mounts);
		if (!found)
			missing(report,
				"hugepages: no hugetlbfs is mounted; mount one with %shugeadm "
				"--create-mounts, or "
				"give the EAL option --in-memory",
				sudo());
	}
}

/* Applications need it, not we: without it their memory is reached by copying system calls. */
static void
check_userfaultfd(struct report *report)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};

	if (fd < 0) {
		advice(report,
		       "userfaultfd: this kernel refuses it (%s), so applications' memory is copied by "
		       "system "
		       "calls, slowly; boot a kernel from 5.11 on with CONFIG_USERFAULTFD",
		       strerror(errno));
		return;
	}
	if (ioctl(fd, UFFDIO_API, &api) < 0)
		advice(report, "userfaultfd: this kernel cannot write-protect by it, so applications' memory "
			       "is copied by "
			       "system calls, slowly; boot a kernel from 5.11 on for x86-64");
	close(fd);
}

static void
check_memlock(struct report *report, bool pci)
{
	struct rlimit limit;

	if (!pci || getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	    has_capability(CAP_IPC_LOCK))
		return;
	if (limit.rlim_cur < memory_needed(report))
		missing(report,
			"locked memory: the limit of %llu KiB is too low for a PCI device; raise it with "
			"%sprlimit "
			"--pid $$ --memlock=unlimited, or LimitMEMLOCK=infinity in the unit",
			(unsigned long long)limit.rlim_cur / 1024, sudo());
}

/* ---- files ---- */

/* Whether a file could be made at `path`; `made` when its directory would be made too. */
static bool
can_create(const char *path, bool make_directory, char *directory, size_t len)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", path);
	snprintf(directory, len, "%s", dirname(copy));
	if (exists(directory))
		return access(directory, W_OK | X_OK) == 0;
	snprintf(copy, sizeof(copy), "%s", directory);
	return make_directory && access(dirname(copy), W_OK | X_OK) == 0;
}

static void
check_socket(struct report *report)
{
	const struct config *config = report->config;
	char directory[512];

	if (!can_create(config->socket, true, directory, sizeof(directory)))
		missing(report,
			"socket %s: no file can be made in %s; make it yours with %sinstall -d -o %u %s, or "
			"choose "
			"another path by --socket",
			config->socket, directory, sudo(), geteuid(), directory);
}

int
check_socket_free(const struct config *config, char *why, size_t why_len)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return 0;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", config->socket);
	/* EAGAIN: it listens, and is busy. */
	bool used = connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 || errno == EAGAIN;
	close(fd);
	if (!used)
		return 0;
	snprintf(why, why_len,
		 "socket %s: a data plane runs there already; end it first, or choose another path by "
		 "--socket",
		 config->socket);
	return -EADDRINUSE;
}

/* ---- devices ---- */

static bool
is_pci(const char *device)
{
	unsigned int domain, bus, slot, function;
	int used = 0;
	return (sscanf(device, "%4x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &used) == 4 ||
		sscanf(device, "%2x:%2x.%1x%n", &bus, &slot, &function, &used) == 3) &&
	       device[used] == '\0';
}

static void
check_pci(struct report *report, const struct config_port *port)
{
	static const char *const drivers[] = {"vfio-pci",  "uio_pci_generic", "igb_uio",
					      "mlx5_core", "mlx4_core",       "mana"};
	char path[256], link[256], device[80];
	const char *name = port->device;

	snprintf(device, sizeof(device), "%s%s", strchr(name, ':') == strrchr(name, ':') ? "0000:" : "",
		 name);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", device);
	if (!exists(path)) {
		missing(report,
			"port %s: there is no PCI device %s; list them with dpdk-devbind.py --status-dev net",
			port->name, device);
		return;
	}
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", device);
	ssize_t len = readlink(path, link, sizeof(link) - 1);
	const char *driver = "none";
	if (len > 0) {
		link[len] = '\0';
		driver = basename(link);
	}
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
		if (strcmp(driver, drivers[i]) == 0)
			return;
	}
	if (!exists("/sys/module/vfio_pci"))
		missing(report,
			"port %s: the module vfio-pci is not loaded; load it with %smodprobe vfio-pci",
			port->name, sudo());
	missing(report,
		"port %s: device %s has the driver %s, which DPDK cannot use; bind it with %sdpdk-devbind.py "
		"--bind=vfio-pci %s",
		port->name, device, driver, sudo(), device);
	DIR *groups = opendir("/sys/kernel/iommu_groups");
	unsigned int entries = 0;
	while (groups != NULL && readdir(groups) != NULL)
		entries++;
	if (groups != NULL)
		closedir(groups);
	if (entries <= 2)
		missing(report,
			"port %s: there is no IOMMU; boot with intel_iommu=on or amd_iommu=on, or accept the "
			"risk "
			"with echo 1 | %stee /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
			port->name, sudo());
}

static void
check_interface(struct report *report, const char *device, const char *iface)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/class/net/%.64s", iface);
	if (!exists(path))
		missing(report,
			"device %.40s: there is no interface %s; make a pair with %sip link add %s type veth "
			"peer "
			"name %.10s-peer, or list those there are with ip link",
			device, iface, sudo(), iface, iface);
	if (!has_capability(CAP_NET_RAW))
		missing(report,
			"device %.40s: raw packets need CAP_NET_RAW; run as root, or %ssetcap "
			"cap_net_raw,cap_net_admin+ep on this program",
			device, sudo());
}

static void
check_vdev(struct report *report, const char *device)
{
	char value[256], directory[512];

	if (strncmp(device, "net_memif", 9) == 0) {
		bool abstract = !device_argument(device, "socket-abstract", value, sizeof(value)) ||
				strcmp(value, "no") != 0;
		if (!abstract && device_argument(device, "socket", value, sizeof(value)) &&
		    !can_create(value, false, directory, sizeof(directory)))
			missing(report,
				"device %.40s: the socket %s cannot be made in %s; make that directory yours "
				"with "
				"%sinstall -d -o %u %s, or choose another",
				device, value, directory, sudo(), geteuid(), directory);
	} else if (strncmp(device, "net_af_packet", 13) == 0 || strncmp(device, "net_af_xdp", 10) == 0 ||
		   strncmp(device, "eth_af_packet", 13) == 0) {
		if (device_argument(device, "iface", value, sizeof(value)))
			check_interface(report, device, value);
		else
			missing(report,
				"device %.40s: it names no interface; write as in --vdev=%.20s,iface=eth0",
				device, device);
	} else if (strncmp(device, "net_tap", 7) == 0) {
		if (!exists("/dev/net/tun"))
			missing(report, "device %.40s: there is no /dev/net/tun; load it with %smodprobe tun",
				device, sudo());
		if (!has_capability(CAP_NET_ADMIN))
			missing(report,
				"device %.40s: it needs CAP_NET_ADMIN; run as root, or %ssetcap "
				"cap_net_admin+ep on "
				"this program",
				device, sudo());
	}
}

static void
check_devices(struct report *report)
{
	bool pci = false, vdev = false;

	for (uint32_t i = 0; i < report->config->num_ports; i++) {
		if (is_pci(report->config->port[i].device)) {
			pci = true;
			check_pci(report, &report->config->port[i]);
		}
	}
	for (int i = 1; i < report->argc; i++) {
		const char *device = eal_value(report, i, "--vdev");
		if (device != NULL) {
			vdev = true;
			check_vdev(report, device);
		}
	}
	if (!pci && !vdev && eal_has(report, "--no-pci"))
		missing(report, "devices: --no-pci and no --vdev leave no port; add one as in "
				"--vdev=net_memif0,role=server,socket=/tmp/cable,socket-abstract=no");
	check_memlock(report, pci);
}

/*
 * A killed data plane leaves the socket of its end of a memif cable behind, and
 * the driver does not start over it.  Nobody answers there: it can go.
 */
static void
remove_stale_cable(const char *device)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char role[16], abstract[8];
	struct stat st;

	if (strncmp(device, "net_memif", 9) != 0 || !device_argument(device, "role", role, sizeof(role)) ||
	    (strcmp(role, "server") != 0 && strcmp(role, "master") != 0) ||
	    !device_argument(device, "socket-abstract", abstract, sizeof(abstract)) ||
	    strcmp(abstract, "no") != 0 ||
	    !device_argument(device, "socket", addr.sun_path, sizeof(addr.sun_path)) ||
	    lstat(addr.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno == ECONNREFUSED)
		unlink(addr.sun_path);
	close(fd);
}

int
check_eal_init(int argc, char **argv)
{
	struct report report = {.argc = argc, .argv = argv};

	for (int i = 1; i < argc; i++) {
		const char *device = eal_value(&report, i, "--vdev");
		if (device != NULL)
			remove_stale_cable(device);
	}
	return rte_eal_init(argc, argv);
}

static void
advise(void *report, const char *text)
{
	advice(report, "%s", text);
}

/* ---- by doing it ---- */

int
check_lcores(char *why, size_t why_len)
{
	unsigned int cores = rte_lcore_count();

	if (cores >= 2)
		return 0;
	snprintf(why, why_len,
		 "cores: EAL has %u, and a data plane needs at least 2 (the first is the control thread, the "
		 "others "
		 "poll); give the EAL option -l 0,1",
		 cores);
	return -EINVAL;
}

void
check_eal_failure(int argc, char **argv, char *why, size_t why_len)
{
	struct report report = {.argc = argc, .argv = argv};
	int error = rte_errno;

	if (!eal_has(&report, "--in-memory") && !eal_has(&report, "--no-shconf") &&
	    rte_eal_primary_proc_alive(NULL))
		snprintf(why, why_len,
			 "EAL: another DPDK program runs with the same file prefix; give this one its own by "
			 "the EAL "
			 "option --file-prefix=NAME (or --in-memory)");
	else if (error == EACCES || error == EPERM)
		snprintf(why, why_len,
			 "EAL: permission denied (see its lines above); without root use the EAL options "
			 "--no-huge -m 512 "
			 "--no-pci --iova-mode=va, or run as root");
	else if (!eal_has(&report, "--no-huge"))
		snprintf(why, why_len,
			 "EAL: it cannot start (%s; see its lines above); if hugepages are short, reserve "
			 "them with "
			 "%shugeadm --pool-pages-min 2MB:512, or do without by --no-huge -m 512; --check "
			 "tells more",
			 rte_strerror(error), sudo());
	else
		snprintf(why, why_len,
			 "EAL: it cannot start (%s; see its lines above); correct the EAL options before the "
			 "--",
			 rte_strerror(error));
}

static void
check_start(struct report *report)
{
	char why[512];

	if (check_eal_init(report->argc, report->argv) < 0) {
		check_eal_failure(report->argc, report->argv, why, sizeof(why));
		missing(report, "%s", why);
		return;
	}
	if (check_lcores(why, sizeof(why)) < 0)
		missing(report, "%s", why);
	else if (engine_init(report->config, why, sizeof(why)) < 0)
		missing(report, "%s", why);
	else
		engine_fini();
	rte_eal_cleanup();
}

unsigned int
check_run(const struct config *config, int argc, char **argv)
{
	struct report report = {.config = config, .argc = argc, .argv = argv};
	char why[512];

	setlinebuf(stdout);
	if (config_validate(config, why, sizeof(why)) < 0)
		missing(&report, "%s", why);
	check_cpu(&report);
	check_hugepages(&report);
	check_userfaultfd(&report);
	check_socket(&report);
	check_devices(&report);
	kernel_addr_look(config, advise, &report);
	if (check_socket_free(config, why, sizeof(why)) < 0)
		advice(&report, "%s",
		       why); /* its cores, memory and devices are in use: starting proves nothing */
	else if (report.missing == 0)
		check_start(&report);
	if (report.missing == 0)
		printf("Nothing essential is missing.\n");
	else
		printf("%u essential thing%s missing.\n", report.missing,
		       report.missing == 1 ? " is" : "s are");
	return report.missing;
}

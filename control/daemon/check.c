/* SPDX-License-Identifier: BSD-3-Clause */
/* `--check`. Checks first what needs no EAL, so that advice is printed even where EAL would only report
 * "cannot init". Then starts EAL and the engine's ports and memory: nothing else proves that they work.
 * `--precheck` omits the start, because the data plane starts next. */
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
#include <sys/utsname.h>
#include <unistd.h>

#include <rte_cpuflags.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "daemon.h"
#include "control/metrics/metrics.h"
#include "control/setup/machine.h"
#include "dataplane/engine.h"
#include "dataplane/port/device.h"
#include "dataplane/port/kernel_side.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define MIB (1ull << 20)
#define RUNTIME_ROOM (4 * MIB) /* more than EAL's files; --no-huge adds a word per page: */
#define RUNTIME_PER_MIB 16384

struct report {
	const struct config *config;
	int argc;
	char **argv; /* EAL's arguments */
	unsigned int missing;
};

static void
message_print(const char *what, const char *format, va_list args)
{
	printf("%s: ", what);
	vprintf(format, args);
	putchar('\n');
}

static void __attribute__((format(printf, 2, 3)))
report_missing(struct report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message_print("missing", format, args);
	va_end(args);
	report->missing++;
}

static void __attribute__((format(printf, 1, 2))) print_advice(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message_print("advice", format, args);
	va_end(args);
}

static bool
path_exists(const char *path)
{
	return access(path, F_OK) == 0;
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

/* EAL uses the last value of a repeated option. */
static const char *
eal_option(const struct report *report, const char *name)
{
	const char *last = NULL, *value;

	for (int i = 1; i < report->argc; i++) {
		value = eal_value(report, i, name);
		if (value != NULL)
			last = value;
	}
	return last;
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

/* ---- the machine ---- */

static void
check_cpu(struct report *report)
{
	cpu_set_t set;

	if (rte_cpu_get_flag_enabled(RTE_CPUFLAG_INVTSC) != 1)
		print_advice(
			"processor: its time stamp counter may change speed or stop (no invariant TSC), so timers are inexact; on a virtual machine let the host pass its CPU through (-cpu host)");
	if (rte_cpu_get_flag_enabled(RTE_CPUFLAG_PCLMULQDQ) != 1)
		print_advice(
			"processor: no PCLMULQDQ, so checksums of packets are slow; on a virtual machine let the host pass its CPU through (-cpu host)");
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) < 2)
		report_missing(
			report,
			"processors: this process may use %d; a data plane needs 2 (control thread and polling core); run it with taskset -c 0,1, or share one by the EAL option --lcores '0@0,1@0' with --idle sleep",
			CPU_COUNT(&set));
}

/* Reads "3", "0-3" or "(0,2-3)" at *at, and moves *at behind it. */
static void
take_numbers(const char **at, cpu_set_t *numbers)
{
	size_t group = **at == '(', len = strcspn(*at + group, group != 0 ? ")" : ",@");
	char text[512];

	snprintf(text, sizeof(text), "%.*s", (int)len, *at + group);
	setup_cpus_parse(text, numbers);
	*at += group + len;
	*at += **at == ')';
}

/* Counts the lcores of "0-3", "0@1,(1-2)@(0,1)", and collects their processors: the numbers after each @, or
 * those of the lcores. */
static uint64_t
parse_lcores(const char *list, cpu_set_t *cpus)
{
	cpu_set_t lcores, on;
	uint64_t count = 0;

	CPU_ZERO(cpus);
	for (; *list != '\0'; list += strspn(list, "),")) {
		take_numbers(&list, &lcores);
		on = lcores;
		if (*list == '@') {
			list++;
			take_numbers(&list, &on);
		}
		CPU_OR(cpus, cpus, &on);
		count += (uint64_t)CPU_COUNT(&lcores);
		list += strcspn(list, ",");
	}
	return count;
}

/* EAL prints only its usage for a missing processor. */
static void
check_processors(struct report *report)
{
	cpu_set_t set, named;
	int cpu;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return;
	for (int i = 1; i < report->argc; i++) {
		const char *name = "-l", *list = eal_value(report, i, name);
		if (list == NULL)
			list = eal_value(report, i, name = "--lcores");
		if (list == NULL)
			continue;
		parse_lcores(list, &named);
		for (cpu = 0; cpu < CPU_SETSIZE && (!CPU_ISSET(cpu, &named) || CPU_ISSET(cpu, &set));)
			cpu++;
		if (cpu < CPU_SETSIZE)
			report_missing(
				report,
				"processors: the EAL option %s %s names %d, which is missing or not available to this process; use those that taskset -cp %d shows",
				name, list, cpu, (int)getpid());
	}
}

/* Estimate without EAL, which uses all processors when -l is missing. */
static uint64_t
polling_cores(const struct report *report)
{
	uint64_t lcores = 0;
	cpu_set_t set;

	for (int i = 1; i < report->argc; i++) {
		const char *list = eal_value(report, i, "-l");
		if (list == NULL)
			list = eal_value(report, i, "--lcores");
		if (list != NULL)
			lcores = parse_lcores(list, &set);
	}
	if (lcores == 0 && sched_getaffinity(0, sizeof(set), &set) == 0)
		lcores = (uint64_t)CPU_COUNT(&set);
	return lcores > 1 ? lcores - 1 : 1;
}

/* Slot size of af_packet's rings; its packet buffers have the same size. */
static uint32_t
slot_of(const struct report *report, const char *device)
{
	for (int i = 1; i < report->argc; i++) {
		const char *text = eal_value(report, i, "--vdev");
		size_t len = strlen(device);
		if (text != NULL && strncmp(text, "net_af_packet", 13) == 0 &&
		    (len == 0 || (strncmp(text, device, len) == 0 && text[len] == ',')))
			return device_slot(text + strcspn(text, ","));
	}
	return 0;
}

static uint64_t
memory_needed(const struct report *report)
{
	const struct config *config = report->config;
	uint64_t cores = polling_cores(report);
	uint64_t bytes = setup_memory_tables(cores, config->work_pool);

	for (uint32_t i = 0; i < config->num_ports; i++) {
		uint64_t mtu = config->port[i].mtu != 0 ? config->port[i].mtu : 1500;
		uint64_t slot = slot_of(report, config->port[i].device);
		bytes += setup_memory_port(cores, config->mbufs, RTE_MAX(mtu, slot));
	}
	return bytes;
}

/* False if EAL finds enough hugepages, else the reason and remedy in `why`. */
static bool
lacks_hugepages(const struct report *report, uint64_t needed, char *why, size_t why_len)
{
	const char *prefix = eal_option(report, "--file-prefix"), *folder = eal_option(report, "--huge-dir");
	uint64_t available = hugepages_free(prefix != NULL ? prefix : "rte", folder);
	unsigned long long pages = (needed + 2 * MIB - 1) / (2 * MIB);
	uint64_t allowed = config_huge_memory("");

	if (allowed < needed)
		snprintf(
			why, why_len,
			"hugepages: a cgroup of this process allows %llu MiB and about %llu are needed; raise hugetlb.2MB.max there (of a container: its limit of hugepages-2Mi)",
			(unsigned long long)(allowed / MIB), (unsigned long long)(needed / MIB + 1));
	else if (available == 0)
		snprintf(
			why, why_len,
			"hugepages: none is free; reserve them with %shugeadm --pool-pages-min 2MB:%llu (package libhugetlbfs-bin), or run without by the EAL options --no-huge -m %llu --no-pci --iova-mode=va",
			privilege_sudo(), pages, (unsigned long long)(needed / MIB + 1));
	else if (!eal_has(report, "--in-memory") && !hugepages_mounted())
		snprintf(
			why, why_len,
			"hugepages: no hugetlbfs is mounted; mount one with %shugeadm --create-mounts, or give the EAL option --in-memory",
			privilege_sudo());
	else if (available < needed)
		snprintf(
			why, why_len,
			"hugepages: %llu MiB are free and about %llu are needed; reserve more with %shugeadm --pool-pages-min 2MB:%llu",
			(unsigned long long)(available / MIB), (unsigned long long)(needed / MIB + 1),
			privilege_sudo(), pages);
	else
		return false;
	return true;
}

static void
check_hugepages(struct report *report)
{
	uint64_t needed = memory_needed(report);
	char why[512];

	if (eal_has(report, "--no-huge"))
		print_advice(
			"hugepages: --no-huge works, but is slower and cannot drive PCI devices; reserve some with %shugeadm --pool-pages-min 2MB:%llu, and leave --no-huge out",
			privilege_sudo(), (unsigned long long)((needed + 2 * MIB - 1) / (2 * MIB)));
	else if (lacks_hugepages(report, needed, why, sizeof(why)))
		report_missing(report, "%s", why);
}

#define AUTOGROUP "/proc/sys/kernel/sched_autogroup_enabled"

/* Linux 6.18 has a fault in its group scheduling: while threads of one session yield to each other, other
 * sessions on their processor may not run, measured for up to 59 s. */
static void
check_autogroup(const struct report *report)
{
	FILE *file = report->config->idle != ONE_IDLE_SPIN ? fopen(AUTOGROUP, "re") : NULL;
	struct utsname kernel;

	if (file == NULL)
		return;
	if (fgetc(file) == '1' && uname(&kernel) == 0 && strncmp(kernel.release, "6.18.", 5) == 0)
		print_advice(
			"kernel.sched_autogroup_enabled = 1: on Linux %s a polling core and a program that share a processor can keep other sessions from it for a minute; run %ssysctl kernel.sched_autogroup_enabled=0",
			kernel.release, privilege_sudo());
	fclose(file);
}

/* Applications need userfaultfd: without it, system calls copy their memory. */
static void
check_userfaultfd(struct report *report)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};

	if (fd < 0) {
		print_advice(
			"userfaultfd: this kernel refuses it (%s), so applications' memory is copied by system calls, slowly; boot a kernel from 5.11 on with CONFIG_USERFAULTFD",
			strerror(errno));
		return;
	}
	if (ioctl(fd, UFFDIO_API, &api) < 0)
		print_advice(
			"userfaultfd: this kernel cannot write-protect by it, so applications' memory is copied by system calls, slowly; boot a kernel from 5.11 on for x86-64");
	close(fd);
}

static void
check_memlock(struct report *report, bool pci)
{
	struct rlimit limit;

	if (!pci || getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	    privilege_has(CAP_IPC_LOCK))
		return;
	if (limit.rlim_cur < memory_needed(report))
		report_missing(
			report,
			"locked memory: the limit of %llu KiB is too low for a PCI device; raise it with %sprlimit --pid $$ --memlock=unlimited, or LimitMEMLOCK=infinity in the unit",
			(unsigned long long)limit.rlim_cur / 1024, privilege_sudo());
}

/* ---- files ---- */

/* True for a directory in which this process may create files. */
static bool
is_ours(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && access(path, W_OK | X_OK) == 0;
}

/* Can a file be created at `path`? A missing parent directory is created, too. */
static bool
can_create(const char *path, char *directory, size_t len)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", path);
	snprintf(directory, len, "%s", dirname(copy));
	if (path_exists(directory))
		return is_ours(directory);
	snprintf(copy, sizeof(copy), "%s", directory);
	return is_ours(dirname(copy));
}

static void
check_place(struct report *report, const char *key, const char *path)
{
	char directory[512];

	if (!can_create(path, directory, sizeof(directory)))
		report_missing(
			report,
			"%s %s: no file can be made in %s; make it yours with %sinstall -d -o %u %s, or choose another path by --%s",
			key, path, directory, privilege_sudo(), geteuid(), directory, key);
}

/* Directory of EAL's files, or its nearest parent that exists. */
static void
find_runtime(const struct report *report, char path[512])
{
	const char *base = getenv("RUNTIME_DIRECTORY"), *prefix = eal_option(report, "--file-prefix");

	if (base == NULL && geteuid() == 0)
		base = "/var/run";
	else if (base == NULL)
		base = getenv("XDG_RUNTIME_DIR");
	if (base == NULL)
		base = "/tmp";
	snprintf(path, 512, "%s/dpdk/%s", base, prefix != NULL ? prefix : "rte");
	if (!path_exists(path))
		snprintf(path, 512, "%s/dpdk", base);
	if (!path_exists(path))
		snprintf(path, 512, "%s", base);
}

static uint64_t
runtime_room(const struct report *report)
{
	const char *memory = eal_option(report, "-m");

	if (!eal_has(report, "--no-huge") || memory == NULL)
		return RUNTIME_ROOM;
	return RUNTIME_ROOM + (strtoull(memory, NULL, 10) & UINT32_MAX) * RUNTIME_PER_MIB;
}

/* EAL maps its files before allocating them: on a full file system it dies of SIGBUS without a message. */
static int
check_runtime(const struct report *report, char *why, size_t why_len)
{
	uint64_t room = runtime_room(report);
	char directory[512], path[600];
	int fd, error;

	if (eal_has(report, "--in-memory") || eal_has(report, "--no-shconf"))
		return 0;
	find_runtime(report, directory);
	snprintf(path, sizeof(path), "%s/oneside.XXXXXX", directory);
	fd = mkostemp(path, O_CLOEXEC);
	error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)room);
	if (fd >= 0) {
		unlink(path);
		close(fd);
	}
	if (error != 0)
		snprintf(
			why, why_len,
			"EAL: its files cannot be made in %s: %s; make room for %llu MiB there, let this user write there, or name another directory by the variable RUNTIME_DIRECTORY",
			directory, strerror(error), (unsigned long long)(room / MIB));
	return -error;
}

/* `served`: a data plane runs and may use the addresses. */
static void
check_listeners(struct report *report, bool served)
{
	const struct config *config = report->config;
	struct listening listening;
	char why[512];

	check_place(report, "socket", config->socket);
	if (config->ctl[0] != '\0') /* default: the directory of `socket` */
		check_place(report, "ctl", config->ctl);
	if (config->metrics.family == AF_UNIX)
		check_place(report, "metrics", config->metrics.path);
	if (config->metrics.family == 0 || config->metrics.family == AF_UNIX || served)
		return;
	if (metrics_open(&config->metrics, &listening, why, sizeof(why)) != 0)
		report_missing(report, "%s", why);
	else
		listening_close(&listening);
}

int
check_socket_free(const struct config *config, char *why, size_t why_len)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return 0;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", config->socket);
	/* EAGAIN: the listener's backlog is full. */
	bool used = connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 || errno == EAGAIN;
	close(fd);
	if (!used)
		return 0;
	return config_refuse(
		why, why_len, -EADDRINUSE,
		"socket %s: a data plane runs there already; end it first, or choose another path by --socket",
		config->socket);
}

/* ---- devices ---- */

struct device {
	struct report *report;
	const char *name;
};

static void
missing_device(void *context, const char *sentence)
{
	const struct device *device = context;

	report_missing(device->report, "device %s: %s", device->name, sentence);
}

/* Cuts "net_memif0,role=server,..." at the name and returns the arguments. */
static const char *
split_device(const char *text, char name[64])
{
	size_t len = strcspn(text, ",");

	snprintf(name, 64, "%.*s", (int)len, text);
	return text[len] == ',' ? text + len + 1 : "";
}

static void
advise_device(void *context, const char *sentence)
{
	const struct device *device = context;

	print_advice("device %s: %s", device->name, sentence);
}

/* Uses the MTU of the port with that device, if one names it. */
static void
advise_on_device(struct device *device, const char *args)
{
	const struct config *config = device->report->config;
	uint32_t mtu = 0;

	for (uint32_t i = 0; i < config->num_ports; i++) {
		if (strcmp(config->port[i].device, device->name) == 0)
			mtu = config->port[i].mtu;
	}
	device_advice(device->name, args, mtu, advise_device, device);
	device_core_advice(device->name, args, polling_cores(device->report), advise_device, device);
}

/* Port with that device, or NULL. */
static const struct config_port *
port_of(const struct device *device)
{
	const struct config *config = device->report->config;

	for (uint32_t i = 0; i < config->num_ports; i++)
		if (strcmp(config->port[i].device, device->name) == 0 ||
		    (config->port[i].device[0] == '\0' && config->num_ports == 1))
			return &config->port[i];
	return NULL;
}

/* Checks the kernel's interface as it is now: the link may come up later, but the MTU does not grow by
 * itself. */
static void
check_interface(const struct device *device, const char *args)
{
	const struct config_port *port = port_of(device);
	struct kernel_side side = {.index = 0};
	struct kernel_state state;

	if (!device_argument(args, "iface", side.name, sizeof(side.name)) ||
	    !kernel_side_read(&side, &state) || !state.there)
		return; /* device_faults() reported that */
	if (port != NULL && port->mtu > state.mtu)
		report_missing(
			device->report,
			"device %s: port %s has mtu = %u, and interface %s only %u; write mtu = %u, or: ip link set %s mtu %u",
			device->name, port->name, port->mtu, side.name, state.mtu, state.mtu, side.name,
			port->mtu);
	if (!state.running)
		print_advice(
			"device %s: interface %s is down, or has no carrier, so no peer is reachable; run ip link set %s up, and check its cable",
			device->name, side.name, side.name);
}

static void
check_devices(struct report *report)
{
	bool pci = false, vdev = false;

	for (uint32_t i = 0; i < report->config->num_ports; i++) {
		const char *name = report->config->port[i].device;
		struct device device = {report, name};
		if (device_is_pci(name)) {
			pci = true;
			device_faults(name, "", missing_device, &device);
		}
	}
	for (int i = 1; i < report->argc; i++) {
		const char *text = eal_value(report, i, "--vdev");
		char name[64];
		struct device device = {report, name};
		if (text != NULL) {
			const char *args = split_device(text, name);
			vdev = true;
			device_faults(name, args, missing_device, &device);
			advise_on_device(&device, args);
			if (strncmp(name, "net_af_", 7) == 0)
				check_interface(&device, args);
		}
	}
	if (!pci && !vdev && eal_has(report, "--no-pci"))
		report_missing(
			report,
			"devices: --no-pci and no --vdev leave no port; add one as in --vdev=net_memif0,role=server,socket=/tmp/cable,socket-abstract=no");
	check_memlock(report, pci);
}

int
check_eal_init(int argc, char **argv)
{
	struct report report = {.argc = argc, .argv = argv};
	char why[1024];

	if (check_runtime(&report, why, sizeof(why)) != 0)
		return -1; /* check_eal_failure() finds the reason again */
	for (int i = 1; i < argc; i++) {
		const char *text = eal_value(&report, i, "--vdev");
		char name[64];
		if (text != NULL) {
			const char *args = split_device(text, name);
			device_remove_stale(name, args);
		}
	}
	return rte_eal_init(argc, argv);
}

static void
print_advice_text(void *report, const char *text)
{
	print_advice("%s", text);
}

/* ---- by starting EAL ---- */

int
check_lcores(char *why, size_t why_len)
{
	unsigned int cores = rte_lcore_count();

	if (cores >= 2)
		return 0;
	return config_refuse(
		why, why_len, -EINVAL,
		"cores: EAL has %u, and a data plane needs at least 2 (the first is the control thread, the others poll); give the EAL option -l 0,1",
		cores);
}

void
check_eal_failure(const struct config *config, int argc, char **argv, char *why, size_t why_len)
{
	struct report report = {.config = config, .argc = argc, .argv = argv};
	bool denied = rte_errno == EACCES || rte_errno == EPERM;
	int error = rte_errno;

	if (check_runtime(&report, why, why_len) != 0)
		return;
	if (!eal_has(&report, "--in-memory") && !eal_has(&report, "--no-shconf") &&
	    rte_eal_primary_proc_alive(NULL))
		snprintf(
			why, why_len,
			"EAL: another DPDK program runs with the same file prefix; give this one its own by the EAL option --file-prefix=NAME (or --in-memory)");
	else if ((denied || error == ENOMEM) && !eal_has(&report, "--no-huge") &&
		 lacks_hugepages(&report, memory_needed(&report), why, why_len))
		return;
	else if (denied)
		snprintf(
			why, why_len,
			"EAL: permission denied (see its lines above); without root use the EAL options --no-huge -m 512 --no-pci --iova-mode=va, or run as root");
	else
		snprintf(
			why, why_len,
			"EAL: it cannot start (%s; see its lines above); correct the EAL options before the --%s",
			rte_strerror(error),
			eal_has(&report, "--no-huge") ? "" : ", or ask --check what is missing");
}

static void
check_start(struct report *report)
{
	char why[1024];

	if (check_eal_init(report->argc, report->argv) < 0) {
		check_eal_failure(report->config, report->argc, report->argv, why, sizeof(why));
		report_missing(report, "%s", why);
		return;
	}
	if (check_lcores(why, sizeof(why)) < 0)
		report_missing(report, "%s", why);
	else if (engine_init(report->config, why, sizeof(why)) < 0)
		report_missing(report, "%s", why);
	else
		engine_fini();
	daemon_eal_end();
}

unsigned int
check_run(const struct config *config, bool start, int argc, char **argv)
{
	struct report report = {.config = config, .argc = argc, .argv = argv};
	char why[1024], served_why[512];
	bool served = check_socket_free(config, served_why, sizeof(served_why)) < 0;

	setlinebuf(stdout);
	if (config_validate(config, why, sizeof(why)) < 0)
		report_missing(&report, "%s", why);
	if (check_runtime(&report, why, sizeof(why)) != 0)
		report_missing(&report, "%s", why);
	check_cpu(&report);
	check_processors(&report);
	check_hugepages(&report);
	check_autogroup(&report);
	check_userfaultfd(&report);
	check_listeners(&report, served);
	check_devices(&report);
	kernel_addr_check(config, print_advice_text, &report);
	if (served)
		print_advice("%s",
			     served_why); /* cores, memory and devices are in use: a start proves nothing */
	else if (start && report.missing == 0)
		check_start(&report);
	if (report.missing == 0)
		printf("Nothing essential is missing.%s\n",
		       start ? ""
			     : " Only a start shows whether EAL takes its options, memory and devices (--check).");
	else
		printf("%u essential thing%s missing.\n", report.missing,
		       report.missing == 1 ? " is" : "s are");
	return report.missing;
}

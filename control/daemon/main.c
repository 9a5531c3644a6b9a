/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-dataplane [EAL options] -- [options]: a DPDK primary process. The main lcore runs the control
 * thread, the others poll. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_pdump.h>
#include <rte_version.h>

#include "config/config.h"
#include "daemon.h"
#include "control/ctl/ctl.h"
#include "dataplane/base/state.h"
#include "control/base/log.h"
#include "dataplane/engine.h"
#include "dataplane/engine/takeover.h"
#include "control/takeover/launch.h"
#include "control/takeover/takeover.h"

static struct config config; /* static: too large for a stack, lives as long as the process */

static int
print_error(const char *why)
{
	fprintf(stderr, "%soneside-dataplane: %s\n", journal_priority(RTE_LOG_ERR), why);
	takeover_explain(why);
	return EXIT_FAILURE;
}

static void
on_signal(int number)
{
	(void)number;
	daemon_stop();
}

static void
on_hangup(int number)
{
	(void)number;
	ctl_hangup();
}

/* SIGHUP, also from a closed terminal, reloads. The other signals must not end the process. */
static void
survive_signals(void)
{
	static const int ignored[] = {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGIO};
	struct sigaction action = {.sa_handler = on_hangup, .sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	sigaction(SIGHUP, &action, NULL);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
}

/* Call before shares of the limit are computed, and before a take-over sends the descriptors of all
 * attachments: the soft limit is often 1024. */
static void
raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Blocks SIGINT and SIGTERM until the control thread can handle them. */
static void
hold_signals(sigset_t *before)
{
	sigset_t held;
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &held, before);
}

static void
release_signals(const sigset_t *before)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void
print_ports(void)
{
	for (uint32_t i = 0; i < engine_num_ports(); i++) {
		const struct engine_port_info *port = engine_port(i);
		const uint8_t *mac = port->mac;
		char text[CONFIG_ADDR_TEXT];

		printf("port %s:", port->name);
		for (uint32_t j = 0; j < port->num_addrs; j++)
			printf(" %s", config_addr_text(&config.port[i].addr[j], true, text));
		printf(", MTU %u, path MTU %u, %02x:%02x:%02x:%02x:%02x:%02x\n", port->mtu, port->path_mtu,
		       mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
	}
	printf("oneside-dataplane: serving on %s with %u polling core%s\n", config.socket, engine_num_cores(),
	       engine_num_cores() == 1 ? "" : "s");
	fflush(stdout);
}

static void
log_kernel_address(void *user, const char *text)
{
	log_warning("event=kernel_address text=\"%s\"\n", text);
}

/* Checks a reloaded configuration. */
static void
examine_config(const struct config *other)
{
	kernel_addr_check(other, log_kernel_address, NULL);
}

/* The end of a process that has no attachments of its own, because another one serves: without a word to
 * applications and peers, and with the sockets left as they are. */
static void __attribute__((noreturn)) leave(int status)
{
	daemon_eal_end();
	_exit(status);
}

/* Serves until the end. The cores run. */
static int
serve_clients(void)
{
	int ret;

	print_ports();
	engine_leave_rseq();
	if (takeover_reload_is_due())
		ctl_hangup();
	takeover_explain_end();
	notify_service("READY=1", true);
	ret = daemon_run();
	if (ret > 0) {
		daemon_step_aside();
		leave(EXIT_SUCCESS);
	}
	notify_service("STOPPING=1", true);
	if (ret < 0)
		log_error("event=control_ended error=\"%s\"\n", strerror(-ret));
	return ret;
}

static int
open_ports(char *why, size_t why_len)
{
	int error = devices_open(why, why_len);

	return error != 0 ? error : engine_open(why, why_len);
}

/* Opens the engine with its ports, those of the process that serves if `takes_over`. Returns 1: that process
 * has stopped for us; 0: there is none; or -errno. */
static int
open_engine(bool takes_over, char *why, size_t why_len)
{
	bool shared = devices_can_share(config.num_ports) && takeover_may_share_ports();
	int taken = 0, error;

	if (!takes_over)
		return engine_init(&config, why, why_len);
	error = takeover_compare(&config, why, why_len);
	if (error == 0)
		error = engine_prepare(&config, takeover_room(), why, why_len);
	if (error == 0 && shared)
		error = open_ports(why, why_len);
	if (error == 0)
		taken = takeover_receive(shared, why, why_len);
	if (error == 0 && taken >= 0 && !shared)
		error = open_ports(why, why_len);
	if (error == 0 && taken > 0 && shared)
		engine_ports_drain();
	if (error == 0 && taken == 0)
		error = engine_ipsec_begin(why, why_len);
	if (error == 0 && taken == 0)
		engine_ipsec_release();
	return error != 0 ? error : taken;
}

/* Requires an initialised EAL. */
static int
run_dataplane(const struct ctl_source *source, bool takes_over)
{
	char why[512];
	sigset_t before;
	int ret, taken;

	if (check_lcores(why, sizeof(why)) < 0)
		return print_error(why);
	taken = open_engine(takes_over, why, sizeof(why));
	if (taken < 0)
		return print_error(why);
	hold_signals(&before);
	if (daemon_init(source, why, sizeof(why)) < 0) {
		print_error(why);
		if (taken > 0)
			leave(EXIT_FAILURE);
		engine_fini();
		return EXIT_FAILURE;
	}
	release_signals(&before);
	if (taken > 0 && takeover_build(&config, why, sizeof(why)) < 0)
		leave(print_error(why));
	if (taken > 0 && takeover_commit(why, sizeof(why)) < 0)
		leave(print_error(why));
	ret = engine_start();
	if (ret == 0 && taken > 0)
		takeover_finish();
	kernel_addr_check(&config, log_kernel_address, NULL);
	if (ret == 0)
		ret = serve_clients();
	else
		log_error("event=cores_not_started error=\"%s\"\n", strerror(-ret));
	daemon_fini();
	engine_stop();
	engine_fini();
	return ret < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void
trace_state(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to, const char *why,
	    bool allowed)
{
	if (allowed)
		log_debug("%s %#x: %s -> %s (%s)\n", machine->object, id, machine->name[from],
			  machine->name[to], why);
	else
		log_error(
			"event=state_wrong object=\"%s\" id=%#x from=\"%s\" to=\"%s\" why=\"%s\" text=\"illegal state transition\"\n",
			machine->object, id, machine->name[from], machine->name[to], why);
	ctl_transition(machine, id, from, to, why, allowed);
}

/* Handles options before `--`: EAL would answer --help and --version itself, and refuse our options. */
static int
before_split(int split, char **argv, enum config_action *action, char *why, size_t why_len)
{
	*action = CONFIG_SERVE;
	for (int i = 1; i < split; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			*action = CONFIG_HELP;
		else if (strcmp(argv[i], "--version") == 0)
			*action = CONFIG_VERSION;
		else if (config_is_option(argv[i])) {
			snprintf(
				why, why_len,
				"option %.64s: it is among the EAL options; write it after a --, as in oneside-dataplane -l 0,1 -- %.64s",
				argv[i], argv[i]);
			return -EINVAL;
		}
	}
	return 0;
}

int
main(int argc, char **argv)
{
	char why[1024];
	enum config_action action;
	int split = 0;

	/* Fix the threshold: glibc raises it on each larger free(), and memory below it is hardly ever
	 * returned to the kernel. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	takeover_remember(argc, argv);
	journal_open();
	while (split < argc && strcmp(argv[split], "--") != 0)
		split++;
	if (before_split(split, argv, &action, why, sizeof(why)) < 0)
		return print_error(why);

	survive_signals();
	/* config_options() takes argv[split], the "--", for the program's name. */
	config_defaults(&config);
	if (action == CONFIG_SERVE && config_options(&config, split < argc ? argc - split : 0, argv + split,
						     &action, why, sizeof(why)) < 0)
		return print_error(why);
	if (action == CONFIG_HELP)
		config_usage(stdout);
	if (action == CONFIG_VERSION)
		printf("oneside-dataplane " ONESIDE_VERSION ", %s\n", rte_version());
	if (action == CONFIG_HELP || action == CONFIG_VERSION)
		return EXIT_SUCCESS;
	if (action == CONFIG_CHECK || action == CONFIG_PRECHECK)
		return check_run(&config, action == CONFIG_CHECK, split, argv) == 0 ? EXIT_SUCCESS
										    : EXIT_FAILURE;
	if (config_validate(&config, why, sizeof(why)) < 0)
		return print_error(why);
	raise_descriptors();
	char **eal_argv = argv;
	int eal_argc = split;
	bool takes_over = false;
	if (action == CONFIG_TAKE_OVER) {
		int found = takeover_connect(&config, why, sizeof(why));
		if (found == 0 && takeover_is_launched())
			found = config_refuse(
				why, sizeof(why), -ENOENT,
				"the data plane that has started this one does not listen at the configured ctl socket; write the same `socket` and `ctl`, or restart it");
		if (found < 0)
			return print_error(why);
		takes_over = found > 0;
		if (takes_over)
			eal_argv = devices_withhold(&eal_argc, argv, &config, takeover_is_physical());
		if (eal_argv == NULL)
			return print_error("no memory for EAL's arguments");
	}
	if (!takes_over && check_socket_free(&config, why, sizeof(why)) < 0)
		return print_error(why);
	if (check_eal_init(eal_argc, eal_argv) < 0) {
		check_eal_failure(&config, eal_argc, eal_argv, why, sizeof(why));
		return print_error(why);
	}

	/* dpdk-dumpcap shares hugepage memory, and asks the data plane to copy packets. */
	if (rte_eal_has_hugepages() && rte_pdump_init() < 0)
		log_warning("event=capture_off error=\"%s\"\n", rte_strerror(rte_errno));
	state_trace = trace_state;
	const struct ctl_source source = {
		.config = &config,
		.argc = split < argc ? argc - split : 0,
		.argv = argv + split,
		.version = ONESIDE_VERSION,
		.examine = examine_config,
	};
	int status = run_dataplane(&source, takes_over);
	if (rte_eal_has_hugepages())
		rte_pdump_uninit();
	daemon_eal_end();
	return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oneside-dataplane [EAL options] -- [options]: a DPDK primary process whose
 * main lcore is the control thread and whose other lcores poll.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_lcore.h>

#include "check.h"
#include "config/config.h"
#include "control/control.h"
#include "engine.h"
#include "reach.h"

static struct config config; /* too large for a stack, and as long-lived as the process */

static int
refuse(const char *why)
{
	fprintf(stderr, "oneside-dataplane: %s\n", why);
	return EXIT_FAILURE;
}

static void
on_signal(int number)
{
	(void)number;
	control_stop();
}

/* Ctrl-C and SIGTERM are blocked until the control thread can be told. */
static void
hold_signals(sigset_t *before)
{
	sigset_t held;
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &held, before);
	signal(SIGPIPE, SIG_IGN);
}

static void
release_signals(const sigset_t *before)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void
print_ports(void)
{
	for (uint32_t i = 0; i < engine_num_ports(); i++) {
		const struct engine_port_info *port = engine_port(i);
		const uint8_t *mac = port->mac;
		char text[CONFIG_ADDR_TEXT];
		printf("port %s: %s, MTU %u, path MTU %u, %02x:%02x:%02x:%02x:%02x:%02x\n", port->name,
		       config_addr_text(&config.port[i].addr, true, text), port->mtu, port->path_mtu, mac[0],
		       mac[1], mac[2], mac[3], mac[4], mac[5]);
	}
	printf("oneside-dataplane: serving on %s with %u polling core%s\n", config.socket, engine_num_cores(),
	       engine_num_cores() == 1 ? "" : "s");
	fflush(stdout);
}

/* Between the initialised EAL and its cleanup. */
static int
serve(void)
{
	char why[512];
	sigset_t before;
	int ret;

	if (check_lcores(why, sizeof(why)) < 0)
		return refuse(why);
	if (engine_init(&config, why, sizeof(why)) < 0)
		return refuse(why);
	hold_signals(&before);
	if (control_init(&config, why, sizeof(why)) < 0) {
		engine_fini();
		return refuse(why);
	}
	release_signals(&before);
	ret = engine_start();
	if (ret == 0) {
		print_ports();
		engine_leave_rseq();
		ret = control_run();
		if (ret < 0)
			fprintf(stderr, "oneside-dataplane: the control thread ended: %s\n", strerror(-ret));
	} else {
		fprintf(stderr, "oneside-dataplane: the polling cores do not start: %s\n", strerror(-ret));
	}
	control_fini();
	engine_stop();
	engine_fini();
	return ret < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
	char why[1024];
	bool check, help;
	int split = 0;

	while (split < argc && strcmp(argv[split], "--") != 0)
		split++;
	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		config_usage(stdout);
		return EXIT_SUCCESS;
	}

	/* argv[split], the "--", stands where the options expect a program's name. */
	config_defaults(&config);
	if (config_options(&config, split < argc ? argc - split : 0, argv + split, &check, &help, why,
			   sizeof(why)) < 0)
		return refuse(why);
	if (help) {
		config_usage(stdout);
		return EXIT_SUCCESS;
	}
	if (check)
		return check_run(&config, split, argv) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	if (config_validate(&config, why, sizeof(why)) < 0)
		return refuse(why);
	if (check_socket_free(&config, why, sizeof(why)) < 0)
		return refuse(why);
	if (check_eal_init(split, argv) < 0) {
		check_eal_failure(split, argv, why, sizeof(why));
		return refuse(why);
	}

	int status = serve();
	rte_eal_cleanup();
	return status;
}

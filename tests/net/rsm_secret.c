/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A segment of two words, and importers: `import` uses the first word, `hold` the second.
 *
 *   net-rsm-secret export SEGMENT            publishes it for its user, until killed
 *   net-rsm-secret import NODE SEGMENT       connects, puts, gets; prints the name of an error
 *   net-rsm-secret hold NODE SEGMENT FILE    repeats puts and gets until FILE exists; then disconnects
 */
#include <rsmapi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u

static rsmapi_controller_handle_t controller;

static int
say(int error, const char *what)
{
	if (error != RSM_SUCCESS)
		printf("%s: %s\n", what, rsm_strerror(error));
	return error;
}

static int export(rsm_memseg_id_t id)
{
	rsm_memseg_export_handle_t segment;
	void *memory = aligned_alloc(PAGE, PAGE);

	if (memory == NULL ||
	    say(rsm_memseg_export_create(controller, &segment, memory, PAGE, 0), "create") ||
	    say(rsm_memseg_export_publish(segment, &id, NULL, 0), "publish"))
		return 1;
	printf("published\n");
	fflush(stdout);
	for (;;)
		pause();
}

static int
transfer(rsm_memseg_import_handle_t segment, off_t at, uint64_t number)
{
	uint64_t got = ~number;

	if (say(rsm_memseg_import_put64(segment, at, &number, 1), "put") ||
	    say(rsm_memseg_import_get64(segment, at, &got, 1), "get"))
		return 1;
	if (got == number)
		return 0;
	printf("%lx is %lx\n", number, got);
	return 1;
}

static int
import(rsm_node_id_t node, rsm_memseg_id_t id, const char *until)
{
	rsm_memseg_import_handle_t segment;
	rsmapi_barrier_t barrier;
	uint64_t number = 0x1234;

	if (say(rsm_memseg_import_connect(controller, node, id, RSM_PERM_RDWR, &segment), "connect") ||
	    say(rsm_memseg_import_init_barrier(segment, RSM_BAR_DEFAULT, &barrier), "barrier"))
		return 1;
	do {
		if (transfer(segment, until == NULL ? 0 : 8, number++) != 0)
			return 1;
		if (number == 0x1235) {
			printf("connected\n");
			fflush(stdout);
		}
		usleep(10000);
	} while (until != NULL && access(until, F_OK) != 0);
	return say(rsm_memseg_import_destroy_barrier(&barrier), "barrier") ||
	       say(rsm_memseg_import_disconnect(segment), "disconnect");
}

int
main(int argc, char **argv)
{
	static char name[] = "p0";

	if (say(rsm_get_controller(name, &controller), "controller") != RSM_SUCCESS)
		return 1;
	if (argc == 3 && strcmp(argv[1], "export") == 0)
		return export((rsm_memseg_id_t)strtoul(argv[2], NULL, 0));
	if (argc == 4 && strcmp(argv[1], "import") == 0)
		return import((rsm_node_id_t)atoi(argv[2]), (rsm_memseg_id_t)strtoul(argv[3], NULL, 0), NULL);
	if (argc == 5 && strcmp(argv[1], "hold") == 0)
		return import((rsm_node_id_t)atoi(argv[2]), (rsm_memseg_id_t)strtoul(argv[3], NULL, 0),
			      argv[4]);
	return 2;
}

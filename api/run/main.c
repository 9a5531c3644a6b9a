/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-run: starts a program that uses libibverbs or librdmacm on this host's data plane. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/run.h"

struct options {
	bool show, verbs_only, namespace;
};

static void
print_usage(FILE *to)
{
	fputs("usage: oneside-run [OPTION]... PROGRAM [ARGUMENT]...\n"
	      "       oneside-run [OPTION]... --show\n"
	      "Starts PROGRAM, which uses libibverbs or librdmacm, on the data plane of this host.\n\n"
	      "  --socket PATH   the data plane's socket (else ONESIDE_SOCKET, or /run/oneside/oneside.sock)\n"
	      "  --only-verbs    MPI, UCX and NCCL use verbs only, neither shared memory nor TCP\n"
	      "  --namespace     mount /dev/infiniband and /sys/class/infiniband for programs that ignore preloaded libraries\n"
	      "  --show          print the variables that PROGRAM would get, and start nothing\n"
	      "  --help, --version\n",
	      to);
}

static int
refuse_option(const char *option)
{
	run_say("%s: %s; `oneside-run --help` lists the options", option,
		strcmp(option, "--socket") == 0 ? "a PATH has to follow" : "there is no such option");
	return -1;
}

/* Returns the index of PROGRAM in argv; -1 for a wrong command line. */
static int
parse_options(int argc, char **argv, struct options *options)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--show") == 0)
			options->show = true;
		else if (strcmp(argv[i], "--only-verbs") == 0)
			options->verbs_only = true;
		else if (strcmp(argv[i], "--namespace") == 0)
			options->namespace = true;
		else if (strcmp(argv[i], "--socket") == 0 && i + 1 < argc)
			setenv("ONESIDE_SOCKET", argv[++i], 1);
		else if (strncmp(argv[i], "--socket=", 9) == 0)
			setenv("ONESIDE_SOCKET", argv[i] + 9, 1);
		else
			return refuse_option(argv[i]);
	}
	if (i < argc && strcmp(argv[i], "--") == 0)
		i++;
	if (i < argc || options->show)
		return i;
	print_usage(stderr);
	return -1;
}

/* Makes the socket's path absolute, so that a program that changes its folder finds the socket. */
static int
name_socket(bool show)
{
	const char *own = getenv("ONESIDE_SOCKET");
	char *path = own == NULL || own[0] == '\0' ? NULL : realpath(own, NULL);
	int error = path == NULL ? 0 : run_set("ONESIDE_SOCKET", path, show);

	free(path);
	return error;
}

/* Prepends `value` to a list in the environment, unless the list begins with it. */
static int
put_first(const char *name, const char *value, bool show)
{
	const char *own = getenv(name);
	size_t len = strlen(value);
	char *list;
	int error;

	if (own != NULL && strncmp(own, value, len) == 0 && (own[len] == ':' || own[len] == '\0'))
		return show ? run_set(name, own, show) : 0;
	if (asprintf(&list, "%s%s%s", value, own == NULL || own[0] == '\0' ? "" : ":",
		     own == NULL ? "" : own) < 0)
		return -ENOMEM;
	error = run_set(name, list, show);
	free(list);
	return error;
}

static int
set_environment(const struct run_ports *ports, const char *libraries, const char *tree,
		const struct options *options)
{
	int error = name_socket(options->show);

	if (error == 0)
		error = put_first("LD_LIBRARY_PATH", libraries, options->show);
	if (error == 0)
		error = put_first("LD_PRELOAD", RUN_PRELOADED, options->show);
	if (error == 0)
		error = run_set(RUN_VARIABLE, tree, options->show);
	if (error == 0)
		error = run_set_variables(ports, options->verbs_only, options->show);
	return error;
}

static int
prepare_run(const struct options *options)
{
	static struct run_ports ports;
	char *libraries = run_library_path(), tree[PATH_MAX];
	int error = libraries == NULL ? -ENOENT : run_ask(&ports);

	if (error == 0)
		error = run_present(&ports, tree, sizeof(tree));
	if (error == 0 && options->namespace && !options->show)
		error = run_namespace(tree);
	if (error == 0)
		error = set_environment(&ports, libraries, tree, options);
	free(libraries);
	return error;
}

int
main(int argc, char **argv)
{
	struct options options = {0};
	int program;

	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		print_usage(stdout);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("oneside-run " ONESIDE_VERSION);
		return 0;
	}
	program = parse_options(argc, argv, &options);
	if (program < 0)
		return 2;
	if (prepare_run(&options) != 0)
		return 1;
	if (options.show)
		return 0;
	run_look_at(argv[program], options.namespace);
	execvp(argv[program], &argv[program]);
	run_say("%s: %s", argv[program], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

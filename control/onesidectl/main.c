/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of onesidectl. */
#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/message.h"
#include "config/ctl_path.h"
#include "control/onesidectl/onesidectl.h"

struct options onesidectl_options;

void
onesidectl_fail(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("onesidectl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

void
onesidectl_misused(const char *format, ...)
{
	va_list args;

	fputs("onesidectl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("; see onesidectl --help\n", stderr);
	exit(USAGE_STATUS);
}

void
onesidectl_flush(void)
{
	int error = fflush(stdout) != 0 ? errno : ferror(stdout) ? EIO : 0;

	if (error != 0)
		onesidectl_fail("standard output: %s; write to another place", strerror(error));
}

bool
onesidectl_json(const json_t *value, size_t form)
{
	if (!onesidectl_options.json)
		return false;
	json_dumpf(value, stdout, form);
	putchar('\n');
	return true;
}

static void
print_usage(void)
{
	fputs("Usage: onesidectl [--socket PATH] [--json] COMMAND\n"
	      "\n"
	      "To look:\n"
	      "  show [WHAT] [pid=N] [uid=USER] [port=NAME] [peer=ADDRESS]\n"
	      "        WHAT: clients, endpoints, connections, listeners, segments, memory, ports,\n"
	      "        peers, neighbours, cores, drops, transport, quota, ipsec or version\n"
	      "  top [interval=SECONDS] [count=N]   rates of cores, ports and clients\n"
	      "  trace [QP | qp=N | client=N | pid=N] [count=N]\n"
	      "                                     state transitions as they happen\n"
	      "  metrics [openmetrics | prometheus] all counters as text\n"
	      "  capture [port=NAME] [file=FILE] [-- OPTIONS OF DPDK-DUMPCAP]\n"
	      "  check [FILE]                       check machine and configuration\n"
	      "\n"
	      "To begin:\n"
	      "  setup [--dry-run]                  inspect this machine and propose a data plane\n"
	      "  setup --yes --port NIC|INTERFACE|memif --address ADDRESS/PREFIX ...\n"
	      "                                     write its configuration; onesidectl(8) has all options\n"
	      "\n"
	      "To change (root, or a member of ctl_admin_group):\n"
	      "  reload [check | upgrade]           read the configuration again\n"
	      "  upgrade [BINARY]                   replace the data plane; programs go on\n"
	      "  peer add NODE ADDRESS [port=NAME]\n"
	      "  peer remove NODE\n"
	      "  client kill PID | client=N\n"
	      "  move QP CORE                       move a connection's queue pair to another core\n"
	      "  drain                              accept nothing new; end with the last connection\n"
	      "  log level [NAME] LEVEL             emergency, alert, critical, error, warning, notice,\n"
	      "                                     info or debug\n"
	      "\n"
	      "Status: 0 done, 1 refused or failed, 2 a wrong command line.\n",
	      stdout);
}

/* ---- words ---- */

json_int_t
word_number(const char *name, const char *text, json_int_t max)
{
	char *end;
	unsigned long long value;
	bool hex = strncmp(text, "0x", 2) == 0;

	value = strtoull(text, &end, hex ? 16 : 10);
	if (*text < '0' || *text > '9' || *end != '\0' || (hex && end == text + 2) || strlen(text) > 18 ||
	    value > (unsigned long long)max)
		onesidectl_misused("%s %s: not a number in range; write 0 to %" JSON_INTEGER_FORMAT, name,
				   text, max);
	return (json_int_t)value;
}

static json_int_t
user_number(const char *text)
{
	const struct passwd *user;

	if (*text >= '0' && *text <= '9')
		return word_number("uid", text, UINT32_MAX);
	user = getpwnam(text);
	if (user == NULL)
		onesidectl_misused("uid %s: no such user; write a name or a number", text);
	return user->pw_uid;
}

void
word_text(json_t *request, const char *name, const char *text)
{
	/* jansson refuses bytes that are not UTF-8; omitting the member would change the request. */
	if (json_object_set_new(request, name, json_string(text)) != 0)
		onesidectl_misused("%s %s: not UTF-8; write ASCII", name, text);
}

/* Is word[0..len) one of the words in `allowed`, separated by blanks? */
static bool
is_among(const char *word, size_t len, const char *allowed)
{
	while (*allowed != '\0') {
		size_t n = strcspn(allowed, " ");

		if (n == len && strncmp(word, allowed, n) == 0)
			return true;
		allowed += n + (allowed[n] == ' ');
	}
	return false;
}

bool
word_filter(json_t *request, const char *word, const char *allowed)
{
	const char *equals = strchr(word, '='), *value = equals != NULL ? equals + 1 : NULL;
	char name[16];

	if (equals == NULL || equals == word || (size_t)(equals - word) >= sizeof(name) ||
	    !is_among(word, (size_t)(equals - word), allowed))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
	if (*value == '\0')
		onesidectl_misused("%s: the value is missing; write %s=VALUE", name, name);
	if (json_object_get(request, name) != NULL)
		onesidectl_misused("%s: given twice; leave one out", name);
	if (strcmp(name, "uid") == 0)
		json_object_set_new(request, name, json_integer(user_number(value)));
	else if (strcmp(name, "port") == 0 || strcmp(name, "peer") == 0 || strcmp(name, "file") == 0)
		word_text(request, name, value);
	else
		json_object_set_new(request, name, json_integer(word_number(name, value, UINT32_MAX)));
	return true;
}

/* ---- show ---- */

/* Shows the lists that fit on a screen. */
static int
show_all(void)
{
	static const char *const lists[] = {"version", "ports", "cores", "clients", "segments", "drops"};
	json_t *all = json_object();

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		json_t *list = ask_list(lists[i], NULL);

		json_object_update(all, list);
		json_decref(list);
	}
	if (!onesidectl_json(all, JSON_INDENT(2)))
		columns_summary(all);
	json_decref(all);
	return EXIT_SUCCESS;
}

static int
show_run(int count, char **words)
{
	json_t *filters = json_object(), *answer;
	const char *what = words[0];

	if (count == 0)
		return show_all();
	if (!columns_known(what))
		onesidectl_misused("show %s: no such list", what);
	for (int i = 1; i < count; i++)
		if (!word_filter(filters, words[i], "pid uid port peer"))
			onesidectl_misused("show %s %s: not a filter; write pid=, uid=, port= or peer=", what,
					   words[i]);
	answer = ask_list(what, filters);
	if (!onesidectl_json(answer, JSON_INDENT(2)))
		columns_print(what, answer);
	json_decref(answer);
	json_decref(filters);
	return EXIT_SUCCESS;
}

/* ---- changes ---- */

static int
reload_run(int count, char **words)
{
	json_t *request;

	if (count == 1 && strcmp(words[0], "upgrade") == 0)
		return onesidectl_upgrade_or_reload();
	if (count > 1 || (count == 1 && strcmp(words[0], "check") != 0))
		onesidectl_misused("reload %s: write reload, reload check or reload upgrade",
				   words[count - 1]);
	request = json_pack("{s:s}", "command", "reload");
	if (count == 1)
		json_object_set_new(request, "check", json_true());
	ask_change(request);
	return EXIT_SUCCESS;
}

static int
peer_run(int count, char **words)
{
	bool add = count >= 1 && strcmp(words[0], "add") == 0;
	json_t *request;

	if (!(add && (count == 3 || count == 4)) && !(count == 2 && strcmp(words[0], "remove") == 0))
		onesidectl_misused("peer: write peer add NODE ADDRESS [port=NAME], or peer remove NODE");
	request = json_pack("{s:s, s:I}", "command", add ? "peer-add" : "peer-remove", "node",
			    word_number("node", words[1], UINT32_MAX));
	if (add)
		word_text(request, "address", words[2]);
	if (count == 4 && !word_filter(request, words[3], "port"))
		onesidectl_misused("peer add %s: write port=NAME, or leave it out", words[3]);
	ask_change(request);
	return EXIT_SUCCESS;
}

static int
client_run(int count, char **words)
{
	json_t *request = json_pack("{s:s}", "command", "client-kill");

	if (count != 2 || strcmp(words[0], "kill") != 0)
		onesidectl_misused("client: write client kill PID, or client kill client=NUMBER");
	if (!word_filter(request, words[1], "pid client"))
		json_object_set_new(request, "pid", json_integer(word_number("pid", words[1], UINT32_MAX)));
	ask_change(request);
	return EXIT_SUCCESS;
}

static int
move_run(int count, char **words)
{
	if (count != 2)
		onesidectl_misused("move: write move QP CORE, with numbers of show endpoints and show cores");
	ask_change(json_pack("{s:s, s:I, s:I}", "command", "move", "qp",
			     word_number("qp", words[0], UINT32_MAX), "core",
			     word_number("core", words[1], UINT32_MAX)));
	return EXIT_SUCCESS;
}

static int
drain_run(int count, char **words)
{
	if (count != 0)
		onesidectl_misused("drain %s: unexpected word; write only drain", words[0]);
	ask_change(json_pack("{s:s}", "command", "drain"));
	return EXIT_SUCCESS;
}

static int
log_run(int count, char **words)
{
	json_t *request;

	if ((count != 2 && count != 3) || strcmp(words[0], "level") != 0)
		onesidectl_misused("log: write log level [NAME] LEVEL");
	request = json_pack("{s:s}", "command", "log-level");
	word_text(request, "level", words[count - 1]);
	if (count == 3)
		word_text(request, "pattern", words[1]);
	ask_change(request);
	return EXIT_SUCCESS;
}

/* ---- */

static const struct {
	const char *name;
	int (*run)(int count, char **words);
} commands[] = {
	{"show", show_run},
	{"top", top_run},
	{"trace", trace_run},
	{"capture", capture_run},
	{"check", check_config_run},
	{"reload", reload_run},
	{"peer", peer_run},
	{"client", client_run},
	{"move", move_run},
	{"drain", drain_run},
	{"log", log_run},
	{"metrics", onesidectl_metrics_run},
	{"setup", onesidectl_setup_run},
	{"upgrade", onesidectl_upgrade_run},
};

/* Parses the options before the command; returns the command's index in argv. */
static int
take_options(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-j") == 0) {
			onesidectl_options.json = true;
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_usage();
			onesidectl_flush();
			exit(EXIT_SUCCESS);
		} else if (strcmp(argv[i], "--version") == 0) {
			puts("onesidectl " ONESIDE_VERSION);
			onesidectl_flush();
			exit(EXIT_SUCCESS);
		} else if (strncmp(argv[i], "--socket=", 9) == 0) {
			onesidectl_options.socket = argv[i] + 9;
		} else if ((strcmp(argv[i], "--socket") == 0 || strcmp(argv[i], "-s") == 0) && i + 1 < argc) {
			onesidectl_options.socket = argv[++i];
		} else {
			onesidectl_misused("option %s: unknown option, or its value is missing", argv[i]);
		}
	}
	return i;
}

static const char *
default_socket(void)
{
	static char beside[256];
	const char *own = getenv("ONESIDE_CTL"), *socket = getenv("ONESIDE_SOCKET");

	if (own != NULL && *own != '\0')
		return own;
	ctl_path_beside(socket != NULL && *socket != '\0' ? socket : ONE_SOCKET_DEFAULT, beside,
			sizeof(beside));
	return beside;
}

int
main(int argc, char **argv)
{
	int at;

	onesidectl_options.socket = default_socket();
	at = take_options(argc, argv);
	if (at >= argc)
		onesidectl_misused("a command is missing");
	/* Accept --json after the command, too. */
	if (argc > at + 1 && (strcmp(argv[argc - 1], "--json") == 0 || strcmp(argv[argc - 1], "-j") == 0)) {
		onesidectl_options.json = true;
		argc--;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		int status;

		if (strcmp(commands[i].name, argv[at]) != 0)
			continue;
		status = commands[i].run(argc - at - 1, argv + at + 1);
		onesidectl_flush();
		return status;
	}
	onesidectl_misused("%s: no such command", argv[at]);
}

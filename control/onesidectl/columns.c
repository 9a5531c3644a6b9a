/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists as tables for people. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/onesidectl/onesidectl.h"

enum form { TEXT, NUMBER, BYTES, ADDRESS };

struct column {
	const char *key, *title;
	enum form form;
};

#define COLUMNS 18
#define CELL 64

static const struct table_layout {
	const char *what;
	struct column column[COLUMNS];
} layouts[] = {
	{"clients",
	 {{"client", "CLIENT", NUMBER},
	  {"pid", "PID", NUMBER},
	  {"uid", "UID", NUMBER},
	  {"program", "PROGRAM", TEXT},
	  {"api", "API", TEXT},
	  {"port", "PORT", TEXT},
	  {"core", "CORE", NUMBER},
	  {"state", "STATE", TEXT},
	  {"qps", "QPS", NUMBER},
	  {"listeners", "LISTENERS", NUMBER},
	  {"mrs", "REGIONS", NUMBER},
	  {"segments", "SEGMENTS", NUMBER},
	  {"mapped_bytes", "MAPPED", BYTES},
	  {"arena_bytes", "ARENA", BYTES},
	  {"weight", "WEIGHT", NUMBER},
	  {"calls", "CALLS", NUMBER}}},
	{"endpoints",
	 {{"qpn", "QP", TEXT},
	  {"client", "CLIENT", NUMBER},
	  {"pid", "PID", NUMBER},
	  {"program", "PROGRAM", TEXT},
	  {"role", "ROLE", TEXT},
	  {"state", "STATE", TEXT},
	  {"peer", "PEER", TEXT},
	  {"peer_qpn", "PEER-QP", TEXT},
	  {"service", "SERVICE", NUMBER},
	  {"kind", "KIND", TEXT}}},
	{"connections",
	 {{"qpn", "QP", TEXT},
	  {"state", "STATE", TEXT},
	  {"side", "SIDE", TEXT},
	  {"by", "BY", TEXT},
	  {"local", "LOCAL", TEXT},
	  {"peer", "PEER", TEXT},
	  {"peer_qpn", "PEER-QP", TEXT},
	  {"service", "SERVICE", NUMBER},
	  {"path_mtu", "PATH-MTU", NUMBER},
	  {"kind", "KIND", TEXT},
	  {"pid", "PID", NUMBER},
	  {"program", "PROGRAM", TEXT}}},
	{"listeners",
	 {{"port", "PORT", TEXT},
	  {"service", "SERVICE", NUMBER},
	  {"state", "STATE", TEXT},
	  {"takes", "TAKES", TEXT},
	  {"client", "CLIENT", NUMBER},
	  {"pid", "PID", NUMBER},
	  {"program", "PROGRAM", TEXT}}},
	{"segments",
	 {{"segment", "SEGMENT", TEXT},
	  {"port", "PORT", TEXT},
	  {"length", "LENGTH", BYTES},
	  {"imports", "IMPORTS", NUMBER},
	  {"access_entries", "ACCESS", NUMBER},
	  {"client", "CLIENT", NUMBER},
	  {"pid", "PID", NUMBER},
	  {"uid", "UID", NUMBER},
	  {"program", "PROGRAM", TEXT}}},
	{"memory",
	 {{"address", "ADDRESS", ADDRESS},
	  {"length", "LENGTH", BYTES},
	  {"access", "ACCESS", TEXT},
	  {"way", "WAY", TEXT},
	  {"windows", "WINDOWS", NUMBER},
	  {"client", "CLIENT", NUMBER},
	  {"pid", "PID", NUMBER},
	  {"program", "PROGRAM", TEXT}}},
	{"ports",
	 {{"port", "PORT", TEXT},
	  {"address", "ADDRESS", TEXT},
	  {"link", "LINK", TEXT},
	  {"mbps", "MBPS", NUMBER},
	  {"mac", "MAC", TEXT},
	  {"device_name", "DEVICE", TEXT},
	  {"mtu", "MTU", NUMBER},
	  {"path_mtu", "PATH-MTU", NUMBER},
	  {"rx_packets", "RX-PACKETS", NUMBER},
	  {"tx_packets", "TX-PACKETS", NUMBER},
	  {"rx_missed", "RX-MISSED", NUMBER},
	  {"rx_errors", "RX-ERRORS", NUMBER}}},
	{"peers",
	 {{"node", "NODE", NUMBER},
	  {"address", "ADDRESS", TEXT},
	  {"port", "PORT", TEXT},
	  {"secret", "SECRET", TEXT}}},
	{"neighbours",
	 {{"address", "ADDRESS", TEXT},
	  {"mac", "MAC", TEXT},
	  {"port", "PORT", TEXT},
	  {"state", "STATE", TEXT}}},
	{"cores",
	 {{"core", "CORE", NUMBER},
	  {"busy_percent", "BUSY%", NUMBER},
	  {"work", "REQUESTS", NUMBER},
	  {"completions", "COMPLETIONS", NUMBER},
	  {"local_ops", "LOCAL", NUMBER},
	  {"local_bytes", "LOCAL-BYTES", BYTES},
	  {"rx_packets", "RX-PACKETS", NUMBER},
	  {"rx_bytes", "RX-BYTES", BYTES},
	  {"tx_packets", "TX-PACKETS", NUMBER},
	  {"tx_bytes", "TX-BYTES", BYTES},
	  {"wakes", "WAKES", NUMBER},
	  {"sleeps", "SLEEPS", NUMBER},
	  {"gaps", "GAPS", NUMBER}}},
	{"quota",
	 {{"uid", "UID", NUMBER},
	  {"clients", "CLIENTS", NUMBER},
	  {"clients_max", "OF", NUMBER},
	  {"bytes", "BYTES", BYTES},
	  {"bytes_max", "OF", BYTES},
	  {"weight", "WEIGHT", NUMBER},
	  {"max_ops", "OPS/S", NUMBER},
	  {"max_bytes", "BYTES/S", BYTES},
	  {"qps", "QPS", NUMBER},
	  {"qps_max", "OF", NUMBER},
	  {"keys", "KEYS", NUMBER},
	  {"keys_max", "OF", NUMBER},
	  {"mappings", "MAPPINGS", NUMBER},
	  {"mappings_max", "OF", NUMBER},
	  {"zones", "ZONES", NUMBER},
	  {"channels", "CHANNELS", NUMBER},
	  {"ahs", "AHS", NUMBER}}},
	{"ipsec",
	 {{"ipsec", "IPSEC", TEXT},
	  {"spi", "SPI", TEXT},
	  {"direction", "DIRECTION", TEXT},
	  {"peer", "PEER", TEXT},
	  {"port", "PORT", TEXT},
	  {"policy", "POLICY", TEXT},
	  {"crypto", "CRYPTO", TEXT},
	  {"number", "NUMBER", NUMBER},
	  {"packets", "PACKETS", NUMBER},
	  {"bytes", "BYTES", BYTES},
	  {"nic_packets", "BY-NIC", NUMBER},
	  {"drop_length", "LENGTH", NUMBER},
	  {"drop_address", "ADDRESS", NUMBER},
	  {"drop_replay", "REPLAY", NUMBER},
	  {"drop_icv", "ICV", NUMBER},
	  {"drop_limit", "LIMIT", NUMBER}}},
};

const char *
columns_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "?";
}

const char *
columns_bytes(double bytes, char text[32])
{
	static const char units[] = " KMGTPE";
	int unit = 0;

	while (bytes >= 1024 && unit < 6) {
		bytes /= 1024;
		unit++;
	}
	if (unit == 0)
		snprintf(text, 32, "%.0f", bytes);
	else
		snprintf(text, 32, bytes < 10 ? "%.1f%c" : "%.0f%c", bytes, units[unit]);
	return text;
}

static void
cell(const json_t *object, const struct column *column, char text[CELL])
{
	const json_t *value = json_object_get(object, column->key);
	char bytes[32];

	if (json_is_string(value))
		snprintf(text, CELL, "%s", json_string_value(value));
	else if (!json_is_integer(value))
		strcpy(text, "-");
	else if (column->form == BYTES)
		snprintf(text, CELL, "%s", columns_bytes((double)json_integer_value(value), bytes));
	else if (column->form == ADDRESS)
		snprintf(text, CELL, "%#" PRIx64, (uint64_t)json_integer_value(value));
	else
		snprintf(text, CELL, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	if (text[0] == '\0')
		strcpy(text, "-");
}

static void
put(const char *text, enum form form, size_t width, bool last)
{
	if (form != TEXT)
		printf("%*s%s", (int)width, text, last ? "\n" : "  ");
	else if (last)
		printf("%s\n", text);
	else
		printf("%-*s  ", (int)width, text);
}

static void
print_rows(const struct table_layout *layout, const json_t *list)
{
	size_t columns = 0, width[COLUMNS], i;
	char text[CELL];
	json_t *object;

	for (; columns < COLUMNS && layout->column[columns].key != NULL; columns++) {
		width[columns] = strlen(layout->column[columns].title);
		json_array_foreach(list, i, object)
		{
			cell(object, &layout->column[columns], text);
			if (strlen(text) > width[columns])
				width[columns] = strlen(text);
		}
	}
	for (size_t c = 0; c < columns; c++)
		put(layout->column[c].title, layout->column[c].form, width[c], c + 1 == columns);
	json_array_foreach(list, i, object)
	{
		for (size_t c = 0; c < columns; c++) {
			cell(object, &layout->column[c], text);
			put(text, layout->column[c].form, width[c], c + 1 == columns);
		}
	}
}

/* Counters that are not 0, one a line, a column for each core. */
static void
print_counters(const char *what, const json_t *list)
{
	json_t *first = json_array_get(list, 0), *value, *object;
	const char *name;
	bool none = true;
	size_t i;

	json_object_foreach(first, name, value)
	{
		bool any = false;

		if (strcmp(name, "core") == 0)
			continue;
		json_array_foreach(list, i, object) any |=
			json_integer_value(json_object_get(object, name)) != 0;
		if (!any)
			continue;
		if (none) {
			printf("%-24s", "CORE");
			json_array_foreach(list, i, object)
				printf(" %12" JSON_INTEGER_FORMAT,
				       json_integer_value(json_object_get(object, "core")));
			putchar('\n');
		}
		none = false;
		printf("%-24s", name);
		json_array_foreach(list, i, object)
			printf(" %12" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(object, name)));
		putchar('\n');
	}
	if (none)
		printf("no %s\n", what);
}

static void
print_facts(const json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		if (json_is_string(value))
			printf("%-18s %s\n", name, json_string_value(value));
		else
			printf("%-18s %" JSON_INTEGER_FORMAT "\n", name, json_integer_value(value));
	}
}

void
columns_print(const char *what, const json_t *answer)
{
	const json_t *list = json_object_get(answer, what);

	if (strcmp(what, "version") == 0) {
		print_facts(json_array_get(list, 0));
		return;
	}
	if (strcmp(what, "drops") == 0 || strcmp(what, "transport") == 0) {
		print_counters(what, list);
		return;
	}
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (strcmp(layouts[i].what, what) == 0)
			print_rows(&layouts[i], list);
}

void
columns_summary(const json_t *answer)
{
	static const char *const lists[] = {"ports", "cores", "clients", "segments", "drops"};
	const json_t *facts = json_array_get(json_object_get(answer, "version"), 0);
	json_int_t up = json_integer_value(json_object_get(facts, "uptime_s"));

	printf("oneside %s, %s, pid %" JSON_INTEGER_FORMAT ", node %" JSON_INTEGER_FORMAT
	       ", up %" JSON_INTEGER_FORMAT "d %02d:%02d:%02d%s\n",
	       columns_text(facts, "version"), columns_text(facts, "dpdk"),
	       json_integer_value(json_object_get(facts, "pid")),
	       json_integer_value(json_object_get(facts, "node")), up / 86400, (int)(up / 3600 % 24),
	       (int)(up / 60 % 60), (int)(up % 60),
	       strcmp(columns_text(facts, "drains"), "yes") == 0 ? ", draining" : "");
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (json_array_size(json_object_get(answer, lists[i])) == 0)
			continue;
		putchar('\n');
		columns_print(lists[i], answer);
	}
}

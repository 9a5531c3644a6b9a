/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists as tables. */
#include <ctype.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "control/onesidectl/onesidectl.h"

#define CELL 64

static const struct table_layout {
	const char *what, *columns; /* NULL: print facts or counters by name */
} layouts[] = {
	{"clients",
	 "client:n pid:n uid:n program api port core:n state qps:n listeners:n mrs=REGIONS:n segments:n mapped_bytes=MAPPED:b arena_bytes=ARENA:b weight:n calls:n"},
	{"endpoints", "qpn=QP client:n pid:n program role state core:n peer peer_qpn=PEER-QP service:n kind"},
	{"connections",
	 "qpn=QP state side by local peer peer_qpn=PEER-QP service:n path_mtu:n kind pid:n program"},
	{"listeners", "port address service:n state takes client:n pid:n program"},
	{"segments", "segment port length:b imports:n access_entries=ACCESS:n client:n pid:n uid:n program"},
	{"memory",
	 "address:x length:b access method windows:n client_copied_bytes=CLIENT-COPIED:b client:n pid:n program"},
	{"ports",
	 "port address link mbps:n mac device_name=DEVICE mtu:n path_mtu:n rx_packets:n tx_packets:n rx_missed:n rx_errors:n conflicts:n"},
	{"peers", "node:n address port secret"},
	{"neighbours", "address mac port state"},
	{"cores",
	 "core:n lanes:n qps:n busy_percent=BUSY%-SINCE-START:n work=REQUESTS:n completions:n local_ops=LOCAL:n local_bytes:b rx_packets:n rx_bytes:b tx_packets:n tx_bytes:b handed_over=HANDED-OVER:n tx_handed_over=TX-HANDED-OVER:n moves:n wakes:n sleeps:n gaps:n"},
	{"drops", NULL},
	{"transport", NULL},
	{"quota",
	 "uid:n clients:n clients_max=OF:n bytes:b bytes_max=OF:b weight:n max_ops=OPS/S:n max_bytes=BYTES/S:b qps:n qps_max=OF:n keys:n keys_max=OF:n mappings:n mappings_max=OF:n zones:n channels:n mappable:n ahs:n"},
	{"ipsec",
	 "ipsec spi direction peer port policy number:n packets:n bytes:b drop_length=LENGTH:n drop_address=ADDRESS:n drop_replay=REPLAY:n drop_icv=ICV:n drop_limit=LIMIT:n"},
	{"version", NULL},
};

/* Parses "key", "key=TITLE" and "key:FORM", separated by blanks. */
size_t
columns_parse(const char *text, struct column column[COLUMNS_MAX])
{
	size_t n = 0;

	for (int used = 0; sscanf(text, " %23[a-z_]%n", column[n].key, &used) == 1; n++) {
		struct column *one = &column[n];

		text += used;
		for (int i = 0; i <= (int)strlen(one->key); i++)
			one->title[i] = one->key[i] == '_' ? '-' : (char)toupper(one->key[i]);
		if (*text == '=' && sscanf(text, "=%23[^: ]%n", one->title, &used) == 1)
			text += used;
		one->form = 't';
		if (*text == ':' && sscanf(text, ":%c%n", &one->form, &used) == 1)
			text += used;
	}
	return n;
}

bool
columns_known(const char *what)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (strcmp(layouts[i].what, what) == 0)
			return true;
	return false;
}

const char *
columns_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "?";
}

json_int_t
columns_number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
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
format_cell(const json_t *object, const struct column *column, char text[CELL])
{
	const json_t *value = json_object_get(object, column->key);
	char bytes[32];

	if (json_is_string(value))
		snprintf(text, CELL, "%s", json_string_value(value));
	else if (!json_is_integer(value))
		strcpy(text, "-");
	else if (column->form == 'b')
		snprintf(text, CELL, "%s", columns_bytes((double)json_integer_value(value), bytes));
	else if (column->form == 'x')
		snprintf(text, CELL, "%#" PRIx64, (uint64_t)json_integer_value(value));
	else
		snprintf(text, CELL, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	if (text[0] == '\0')
		strcpy(text, "-");
}

static void
put_cell(const char *text, const struct column *column, size_t width, bool last)
{
	/* Text is left-aligned; the last column gets no trailing blanks. */
	int room = column->form != 't' ? (int)width : last ? 0 : -(int)width;

	printf("%*s%s", room, text, last ? "\n" : "  ");
}

static void
print_rows(const char *layout, const json_t *list)
{
	struct column column[COLUMNS_MAX];
	size_t columns = columns_parse(layout, column), width[COLUMNS_MAX], i;
	char text[CELL];
	json_t *object;

	for (size_t c = 0; c < columns; c++) {
		width[c] = strlen(column[c].title);
		json_array_foreach(list, i, object) {
			format_cell(object, &column[c], text);
			if (strlen(text) > width[c])
				width[c] = strlen(text);
		}
	}
	for (size_t c = 0; c < columns; c++)
		put_cell(column[c].title, &column[c], width[c], c + 1 == columns);
	json_array_foreach(list, i, object) {
		for (size_t c = 0; c < columns; c++) {
			format_cell(object, &column[c], text);
			put_cell(text, &column[c], width[c], c + 1 == columns);
		}
	}
}

/* Prints nonzero counters, one per line, with a column per core. */
static void
print_counters(const char *what, const json_t *list)
{
	json_t *first = json_array_get(list, 0), *value, *object;
	const char *name;
	bool none = true;
	size_t i;

	json_object_foreach(first, name, value) {
		bool any = false;

		if (strcmp(name, "core") == 0)
			continue;
		json_array_foreach(list, i, object)
			any |= columns_number(object, name) != 0;
		if (!any)
			continue;
		if (none) {
			printf("%-24s", "CORE");
			json_array_foreach(list, i, object)
				printf(" %12" JSON_INTEGER_FORMAT, columns_number(object, "core"));
			putchar('\n');
		}
		none = false;
		printf("%-24s", name);
		json_array_foreach(list, i, object)
			printf(" %12" JSON_INTEGER_FORMAT, columns_number(object, name));
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

	json_object_foreach((json_t *)(uintptr_t)object, name, value) {
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

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (strcmp(layouts[i].what, what) != 0)
			continue;
		if (layouts[i].columns != NULL)
			print_rows(layouts[i].columns, list);
		else if (strcmp(what, "version") == 0)
			print_facts(json_array_get(list, 0));
		else
			print_counters(what, list);
	}
}

void
columns_summary(const json_t *answer)
{
	static const char *const lists[] = {"ports", "cores", "clients", "segments", "drops"};
	const json_t *facts = json_array_get(json_object_get(answer, "version"), 0);
	json_int_t up = columns_number(facts, "uptime_s");

	printf("oneside %s, %s, pid %" JSON_INTEGER_FORMAT ", node %" JSON_INTEGER_FORMAT
	       ", up %" JSON_INTEGER_FORMAT "d %02d:%02d:%02d%s\n",
	       columns_text(facts, "version"), columns_text(facts, "dpdk"), columns_number(facts, "pid"),
	       columns_number(facts, "node"), up / 86400, (int)(up / 3600 % 24), (int)(up / 60 % 60),
	       (int)(up % 60), strcmp(columns_text(facts, "drains"), "yes") == 0 ? ", draining" : "");
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (json_array_size(json_object_get(answer, lists[i])) == 0)
			continue;
		putchar('\n');
		columns_print(lists[i], answer);
	}
}

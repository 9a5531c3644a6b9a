/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints state transitions as they happen. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control/onesidectl/onesidectl.h"

#define NS_PER_S 1000000000ll

static void
print_transition(const json_t *transition)
{
	json_int_t ns = columns_number(transition, "time_ns");
	const json_t *client = json_object_get(transition, "client");
	time_t seconds = (time_t)(ns / NS_PER_S);
	struct tm parts;
	char at[16];

	localtime_r(&seconds, &parts);
	strftime(at, sizeof(at), "%H:%M:%S", &parts);
	printf("%s.%06" JSON_INTEGER_FORMAT " ", at, ns % NS_PER_S / 1000);
	if (client != NULL)
		printf("client %" JSON_INTEGER_FORMAT " ", json_integer_value(client));
	printf("%s %#" PRIx64 ": %s -> %s (%s)%s\n", columns_text(transition, "object"),
	       (uint64_t)columns_number(transition, "id"), columns_text(transition, "from"),
	       columns_text(transition, "to"), columns_text(transition, "why"),
	       json_is_false(json_object_get(transition, "allowed")) ? " ILLEGAL TRANSITION" : "");
}

static void
print_packet(const json_t *packet)
{
	const json_t *transition = json_object_get(packet, "transition"),
		     *lost = json_object_get(packet, "lost");

	if (onesidectl_json(packet, JSON_COMPACT))
		;
	else if (transition != NULL)
		print_transition(transition);
	else if (lost != NULL)
		printf("(%" JSON_INTEGER_FORMAT " transitions were lost)\n", json_integer_value(lost));
	onesidectl_flush();
}

int
trace_run(int count, char **words)
{
	json_t *request = json_pack("{s:s}", "command", "trace"), *packet;
	json_int_t most, transitions = 0;
	int fd;

	for (int i = 0; i < count; i++) {
		if (word_filter(request, words[i], "qp client pid count"))
			continue;
		if (json_object_get(request, "qp") != NULL)
			onesidectl_misused("trace %s: only one queue pair can be traced; leave it out",
					   words[i]);
		json_object_set_new(request, "qp", json_integer(word_number("qp", words[i], UINT32_MAX)));
	}
	most = columns_number(request, "count");
	json_object_del(request, "count");
	fd = ask_connect();
	ask_send(fd, request);
	json_decref(ask_answer(fd));
	fprintf(stderr, "tracing\n");
	while (most == 0 || transitions < most) {
		packet = ask_answer(fd);
		transitions += json_object_get(packet, "transition") != NULL;
		print_packet(packet);
		json_decref(packet);
	}
	return EXIT_SUCCESS;
}

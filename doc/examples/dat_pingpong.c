/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uDAPL ping-pong: two programs send each other messages in turn and check each byte; the client measures.
 *
 *   dat_pingpong server                                serves one client, then ends
 *   dat_pingpong client ADDRESS [MESSAGES [BYTES]]     ADDRESS: of the server's interface adapter
 *
 *   cc dat_pingpong.c $(pkg-config --cflags --libs libdat) -o dat_pingpong
 *
 * All that a message needs (endpoint, registered memory, posted receives) exists before the connection does,
 * and each receive is posted before the message that elicits the answer. A sender repeats a message that
 * finds no receive for a while, then ends the connection.
 */
#include <dat/udat.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SERVICE 45301u /* the connection qualifier that the server listens on */
#define BYTES_MAX 65536u
#define PATIENCE_US 60000000u

struct end {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, connections, sent, received;
	DAT_EP_HANDLE ep;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT context;
	uint8_t *memory; /* the message to send, followed by the message received */
};

/* ONESIDE_DEBUG=1 in the environment makes the library print why a call failed. */
static void
must(DAT_RETURN ret, const char *call)
{
	const char *type = "", *subtype = "";

	if (ret == DAT_SUCCESS)
		return;
	dat_strerror(ret, &type, &subtype);
	fprintf(stderr, "dat_pingpong: %s: %s %s\n", call, type, subtype);
	exit(1);
}

/* Waits for the next event, which must be of this kind. */
static DAT_EVENT
expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, const char *what)
{
	DAT_EVENT event;
	DAT_COUNT more;

	must(dat_evd_wait(evd, PATIENCE_US, 1, &event, &more), what);
	if (event.event_number != number) {
		fprintf(stderr,
			"dat_pingpong: %s: event %#x came instead (DAT_CONNECTION_EVENT_* in <dat/dat.h>)\n",
			what, (unsigned)event.event_number);
		exit(1);
	}
	return event;
}

/* A completion has its own status: the call that posted the work returned success long before. */
static uint64_t
complete(DAT_EVD_HANDLE evd, const char *what)
{
	DAT_EVENT event = expect(evd, DAT_DTO_COMPLETION_EVENT, what);
	const DAT_DTO_COMPLETION_EVENT_DATA *done = &event.event_data.dto_completion_event_data;

	if (done->status != DAT_DTO_SUCCESS) {
		fprintf(stderr, "dat_pingpong: %s: completed with status %d (DAT_DTO_* in <dat/dat.h>)\n",
			what, done->status);
		exit(1);
	}
	return done->transfered_length;
}

static void
set_up(struct end *end)
{
	DAT_REGION_DESCRIPTION region;
	DAT_EVD_FLAGS both = (DAT_EVD_FLAGS)(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG);

	end->async = DAT_HANDLE_NULL;
	must(dat_ia_open("oneside", 8, &end->async, &end->ia), "dat_ia_open");
	must(dat_pz_create(end->ia, &end->pz), "dat_pz_create");
	must(dat_evd_create(end->ia, 8, DAT_HANDLE_NULL, both, &end->connections), "dat_evd_create");
	must(dat_evd_create(end->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->sent), "dat_evd_create");
	must(dat_evd_create(end->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->received), "dat_evd_create");

	/* Any memory can be registered. The flags below grant the data plane its accesses. */
	end->memory = calloc(2, BYTES_MAX);
	if (end->memory == NULL)
		exit(1);
	region.for_va = end->memory;
	must(dat_lmr_create(
		     end->ia, DAT_MEM_TYPE_VIRTUAL, region, 2 * BYTES_MAX, end->pz,
		     (DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG),
		     &end->lmr, &end->context, NULL, NULL, NULL),
	     "dat_lmr_create");
	/* NULL selects the default attributes, which suit most programs. */
	must(dat_ep_create(end->ia, end->pz, end->received, end->sent, end->connections, NULL, &end->ep),
	     "dat_ep_create");
}

static void
tear_down(struct end *end)
{
	must(dat_ep_free(end->ep), "dat_ep_free");
	must(dat_lmr_free(end->lmr), "dat_lmr_free");
	must(dat_evd_free(end->received), "dat_evd_free");
	must(dat_evd_free(end->sent), "dat_evd_free");
	must(dat_evd_free(end->connections), "dat_evd_free");
	must(dat_pz_free(end->pz), "dat_pz_free");
	must(dat_ia_close(end->ia, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
	free(end->memory);
}

static void
post_receive(struct end *end)
{
	DAT_LMR_TRIPLET into = {.lmr_context = end->context,
				.virtual_address = (uintptr_t)end->memory + BYTES_MAX,
				.segment_length = BYTES_MAX};
	DAT_DTO_COOKIE cookie = {.as_64 = 1};

	must(dat_ep_post_recv(end->ep, 1, &into, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv");
}

/* Byte `i` of message `number`. */
static uint8_t
pattern(uint64_t number, uint64_t i)
{
	return (uint8_t)(number * 31 + i);
}

static void
send_message(struct end *end, uint64_t number, uint64_t length)
{
	DAT_LMR_TRIPLET from = {.lmr_context = end->context,
				.virtual_address = (uintptr_t)end->memory,
				.segment_length = length};
	DAT_DTO_COOKIE cookie = {.as_64 = 2};

	for (uint64_t i = 0; i < length; i++)
		end->memory[i] = pattern(number, i);
	must(dat_ep_post_send(end->ep, 1, &from, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_send");
	/* The memory belongs to the send until it completes. */
	complete(end->sent, "a send");
}

/* Returns the message's length. Posts the next receive before the peer can send the next message. */
static uint64_t
receive_message(struct end *end, uint64_t number)
{
	uint64_t length = complete(end->received, "a receive");

	for (uint64_t i = 0; i < length; i++) {
		if (end->memory[BYTES_MAX + i] != pattern(number, i)) {
			fprintf(stderr, "dat_pingpong: byte %lu of message %lu is not as sent\n", i, number);
			exit(1);
		}
	}
	post_receive(end);
	return length;
}

static void
serve(struct end *end)
{
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;
	uint64_t number = 0, length;

	post_receive(end);
	must(dat_psp_create(end->ia, SERVICE, end->connections, DAT_PSP_CONSUMER_FLAG, &psp),
	     "dat_psp_create");
	printf("waiting for a client\n");
	fflush(stdout);
	event = expect(end->connections, DAT_CONNECTION_REQUEST_EVENT, "waiting for a client");
	must(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, end->ep, 0, NULL),
	     "dat_cr_accept");
	expect(end->connections, DAT_CONNECTION_EVENT_ESTABLISHED, "accepting the client");
	/* An empty message is the last. */
	do {
		length = receive_message(end, number);
		send_message(end, number++, length);
	} while (length > 0);
	expect(end->connections, DAT_CONNECTION_EVENT_DISCONNECTED, "waiting for the client's end");
	must(dat_psp_free(psp), "dat_psp_free");
	printf("%lu messages answered\n", number - 1);
}

static void
ping(struct end *end, const char *address, uint64_t messages, uint64_t length)
{
	struct addrinfo *to;
	struct timespec before, after;
	int error = getaddrinfo(address, NULL, NULL, &to);
	double us;

	if (error != 0) {
		fprintf(stderr, "dat_pingpong: %s: %s\n", address, gai_strerror(error));
		exit(1);
	}
	post_receive(end);
	must(dat_ep_connect(end->ep, (DAT_IA_ADDRESS_PTR)to->ai_addr, SERVICE, PATIENCE_US, 0, NULL,
			    DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
	     "dat_ep_connect");
	freeaddrinfo(to);
	expect(end->connections, DAT_CONNECTION_EVENT_ESTABLISHED, "connecting");

	clock_gettime(CLOCK_MONOTONIC, &before);
	for (uint64_t number = 0; number < messages; number++) {
		send_message(end, number, length);
		if (receive_message(end, number) != length) {
			fprintf(stderr, "dat_pingpong: answer %lu has another length\n", number);
			exit(1);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &after);
	send_message(end, messages, 0);
	receive_message(end, messages);

	must(dat_ep_disconnect(end->ep, DAT_CLOSE_GRACEFUL_FLAG), "dat_ep_disconnect");
	expect(end->connections, DAT_CONNECTION_EVENT_DISCONNECTED, "disconnecting");
	us = (double)(after.tv_sec - before.tv_sec) * 1e6 + (double)(after.tv_nsec - before.tv_nsec) / 1e3;
	printf("%lu messages of %lu bytes and their answers; %.2f us each way\n", messages, length,
	       us / 2 / (double)messages);
}

int
main(int argc, char **argv)
{
	bool server = argc == 2 && strcmp(argv[1], "server") == 0;
	uint64_t messages = argc > 3 ? strtoull(argv[3], NULL, 0) : 10000;
	uint64_t length = argc > 4 ? strtoull(argv[4], NULL, 0) : 64;
	struct end end;

	if (!server && (argc < 3 || argc > 5 || strcmp(argv[1], "client") != 0 || messages == 0 ||
			length == 0 || length > BYTES_MAX)) {
		fprintf(stderr,
			"usage: dat_pingpong server\n"
			"       dat_pingpong client ADDRESS [MESSAGES [BYTES, at most %u]]\n",
			BYTES_MAX);
		return 2;
	}
	set_up(&end);
	if (server)
		serve(&end);
	else
		ping(&end, argv[2], messages, length);
	tear_down(&end);
	return 0;
}

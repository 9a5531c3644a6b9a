/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The application protocol of rping, by uDAPL:
 *
 *   udapl-rping -s | -c ADDRESS [-p PORT] [-S SIZE] [-C COUNT] [-V]
 *
 * In each round the client advertises a text by a 16-byte message; the server READs it and confirms. The
 * client advertises a second buffer; the server WRITEs the text there and confirms; the client compares. With
 * -V the server, too, checks that the text is that of the round.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "side.h"

#define TEXT_FIRST 65 /* the letters go from A to z */
#define TEXT_LAST 122
#define SIZE_MAX_RPING 65536

enum { RECV, SEND, READ, WRITE }; /* cookies */

struct advert {
	uint64_t address;
	uint32_t key;
	uint32_t size;
};

struct rping {
	struct side side;
	struct buffer messages; /* the advert received, then the advert to send */
	struct buffer text, sink;
	size_t size;
	unsigned long rounds;
	bool verify;
};

/* Builds the text of a round: its number, then letters, starting one letter later each round. */
static void
fill(uint8_t *text, size_t size, unsigned long round)
{
	char head[32];
	size_t len = (size_t)snprintf(head, sizeof(head), "rdma-ping-%lu: ", round);
	unsigned c = TEXT_FIRST + (unsigned)(round % (TEXT_LAST - TEXT_FIRST + 1));

	if (len > size)
		len = size;
	memcpy(text, head, len);
	for (size_t i = len; i < size; i++) {
		text[i] = (uint8_t)c;
		c = c == TEXT_LAST ? TEXT_FIRST : c + 1;
	}
	text[size - 1] = 0;
}

/* Returns false if the peer has disconnected, which it may do before it acknowledges the last message. */
static bool
send_advert(struct rping *r, const struct buffer *b)
{
	struct advert advert = {htobe64((uintptr_t)b->data), htobe32(b->rmr_context),
				htobe32((uint32_t)r->size)};
	DAT_DTO_COMPLETION_EVENT_DATA dto;

	memcpy(r->messages.data + sizeof(advert), &advert, sizeof(advert));
	side_post_send(&r->side, &r->messages, sizeof(advert), sizeof(advert), SEND);
	side_completion(r->side.request, &dto);
	if (dto.status != DAT_DTO_SUCCESS && dto.status != DAT_DTO_ERR_FLUSHED)
		side_die("a SEND ended with status %d", dto.status);
	return dto.status == DAT_DTO_SUCCESS;
}

/* Returns false if the peer has disconnected. */
static bool
take_advert(struct rping *r, struct advert *advert)
{
	int64_t len = side_message(&r->side, NULL);

	if (len < 0)
		return false;
	if (len != sizeof(*advert))
		side_die("a message of %lld bytes", (long long)len);
	memcpy(advert, r->messages.data, sizeof(*advert));
	side_post_recv(&r->side, &r->messages, 0, sizeof(*advert), RECV);
	advert->address = be64toh(advert->address);
	advert->key = be32toh(advert->key);
	advert->size = be32toh(advert->size);
	return true;
}

static void
serve(struct rping *r)
{
	uint8_t expected[SIZE_MAX_RPING];
	struct advert advert;

	for (r->rounds = 0; take_advert(r, &advert); r->rounds++) {
		if (advert.size > r->size)
			side_die("%u bytes to READ into %zu", advert.size, r->size);
		memset(r->sink.data, 0, r->size);
		side_post_read(&r->side, &r->sink, 0, advert.size, READ,
			       &(struct target){advert.address, advert.key}, 0);
		side_complete(&r->side, READ);
		if (r->verify) {
			fill(expected, advert.size, r->rounds);
			if (memcmp(expected, r->sink.data, advert.size))
				side_die("round %lu: the READ brought another text", r->rounds);
		}
		/* The message means "go on"; its contents do not matter. */
		if (!send_advert(r, &r->sink) || !take_advert(r, &advert))
			side_die("disconnected in the midst of round %lu", r->rounds);
		if (advert.size > r->size)
			side_die("%u bytes to WRITE of %zu", advert.size, r->size);
		side_post_write(&r->side, &r->sink, 0, strnlen((char *)r->sink.data, advert.size - 1) + 1,
				WRITE, &(struct target){advert.address, advert.key}, 0);
		side_complete(&r->side, WRITE);
		if (!send_advert(r, &r->sink)) {
			r->rounds++;
			break;
		}
	}
}

static void
drive(struct rping *r, unsigned long count)
{
	struct advert advert;

	for (r->rounds = 0; r->rounds < count; r->rounds++) {
		fill(r->text.data, r->size, r->rounds);
		memset(r->sink.data, 0, r->size);
		if (!send_advert(r, &r->text) || !take_advert(r, &advert) || !send_advert(r, &r->sink) ||
		    !take_advert(r, &advert))
			side_die("disconnected in round %lu", r->rounds);
		if (r->verify && memcmp(r->text.data, r->sink.data, r->size))
			side_die("round %lu: another text came back", r->rounds);
	}
}

static void
prepare(struct side *s, void *arg)
{
	struct rping *r = arg;

	side_post_recv(s, &r->messages, 0, sizeof(struct advert), RECV);
}

int
main(int argc, char **argv)
{
	struct rping r = {.size = 64};
	DAT_EVENT event;
	const char *server = NULL;
	unsigned long count = 3;
	unsigned port = 7174;
	bool serving = false;
	int c;

	while ((c = getopt(argc, argv, "sc:p:S:C:V")) != -1) {
		switch (c) {
		case 's':
			serving = true;
			break;
		case 'c':
			server = optarg;
			break;
		case 'p':
			port = (unsigned)atoi(optarg);
			break;
		case 'S':
			r.size = strtoul(optarg, NULL, 0);
			break;
		case 'C':
			count = strtoul(optarg, NULL, 0);
			break;
		case 'V':
			r.verify = true;
			break;
		default:
			return 2;
		}
	}
	if (serving == (server != NULL) || optind != argc || r.size < 32 || r.size > SIZE_MAX_RPING) {
		fprintf(stderr, "usage: %s -s | -c ADDRESS [-p PORT] [-S SIZE] [-C COUNT] [-V]\n", argv[0]);
		return 2;
	}
	side_open(&r.side, 1, 1);
	buffer_make(&r.side, &r.messages, 2 * sizeof(struct advert),
		    DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
	buffer_make(&r.side, &r.text, r.size, DAT_MEM_PRIV_ALL_FLAG);
	buffer_make(&r.side, &r.sink, r.size, DAT_MEM_PRIV_ALL_FLAG);
	if (serving) {
		prepare(&r.side, &r);
		side_listen(&r.side, port);
		side_request(&r.side);
		side_accept(&r.side, NULL, 0);
		side_established(&r.side);
		serve(&r);
	} else {
		side_connect_until(&r.side, server, port, NULL, 0, prepare, &r, &event);
		drive(&r, count);
		side_disconnect(&r.side);
	}
	printf("%lu rounds of %zu bytes\n", r.rounds, r.size);
	side_close(&r.side);
	return 0;
}

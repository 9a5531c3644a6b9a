/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The application protocol of perftest with -R (version 6), by uDAPL:
 *
 *   udapl-perftest write_bw|read_bw|send_bw|write_lat [-c ADDRESS] [-p PORT] [-s SIZE] [-n ITERATIONS]
 *                  [-o READS]
 *
 * Without -c the program is the server. perftest makes two connections to one port. Over the first, both
 * sides introduce themselves by small SENDs, the client first; the second carries the test. Size and
 * iterations must be the same on both sides.
 */
#include <endian.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "side.h"

#define VERSION "6.06"
#define PAGE 4096 /* perftest spreads small operations over this much memory */
#define WINDOW 64 /* limit of outstanding operations */
#define BLANK 0xa5

enum test { WRITE_BW, READ_BW, SEND_BW, WRITE_LAT };

/* perftest's "destination", in network byte order. */
struct keys {
	uint32_t lid, out_reads, qpn, psn;
	uint32_t key, pad;
	uint64_t address;
	uint8_t gid[16];
	uint32_t srqn, gid_index;
};

#define SLOT 64 /* received messages land at 0, sent ones start at SLOT */

struct run {
	enum test test;
	const char *server; /* NULL: this side is the server */
	unsigned port;
	size_t size;
	unsigned long iterations;
	unsigned reads;
	struct side control, work;
	struct buffer slots;
	struct buffer mine;    /* source or destination of this side's operations */
	struct buffer offered; /* target of the peer's operations */
	struct target target;  /* target of this side's operations */
};

static void
send_control(struct run *r, const void *data, size_t len)
{
	memcpy(r->slots.data + SLOT, data, len);
	side_post_send(&r->control, &r->slots, SLOT, len, 1);
	side_complete(&r->control, 1);
}

static void
take_control(struct run *r, void *data, size_t len)
{
	int64_t got = side_message(&r->control, NULL);

	if (got != (int64_t)len)
		side_die("a control message of %lld bytes instead of %zu", (long long)got, len);
	memcpy(data, r->slots.data, len);
	side_post_recv(&r->control, &r->slots, 0, SLOT, 0);
}

static void
exchange(struct run *r, const void *mine, void *theirs, size_t len)
{
	if (r->server)
		send_control(r, mine, len);
	take_control(r, theirs, len);
	if (!r->server)
		send_control(r, mine, len);
}

static void
exchange_keys(struct run *r)
{
	struct keys mine = {.key = htobe32(r->offered.rmr_context),
			    .out_reads = htobe32(r->reads),
			    .address = htobe64((uintptr_t)r->offered.data)};
	struct keys theirs;

	exchange(r, &mine, &theirs, sizeof(mine));
	r->target = (struct target){be64toh(theirs.address), be32toh(theirs.key)};
}

/* Exchanges version, page size, cache line size and MTU. */
static void
introduce(struct run *r)
{
	char mine[16] = VERSION, theirs[16], mtu[2] = "3";
	uint32_t number = htobe32(PAGE), other;

	exchange(r, mine, theirs, sizeof(mine));
	theirs[sizeof(theirs) - 1] = 0;
	if (atof(theirs) < 6)
		side_die("perftest version \"%s\"", theirs);
	exchange(r, &number, &other, sizeof(number));
	number = htobe32(64);
	exchange(r, &number, &other, sizeof(number));
	exchange(r, mtu, mtu, sizeof(mtu));
}

static void
report(struct run *r)
{
	uint64_t mine[5] = {htobe64(r->size), htobe64(r->iterations)}, theirs;

	for (int i = 0; i < 5; i++)
		exchange(r, &mine[i], &theirs, sizeof(theirs));
}

static void
prepare(struct side *s, void *arg)
{
	struct run *r = arg;

	side_post_recv(s, &r->slots, 0, SLOT, 0);
}

static void
connect_both(struct run *r)
{
	DAT_EVENT event;

	if (r->server) {
		side_connect_until(&r->control, r->server, r->port, NULL, 0, prepare, r, &event);
	} else {
		prepare(&r->control, r);
		side_listen(&r->control, r->port);
		side_request(&r->control);
		side_accept(&r->control, NULL, 0);
		side_established(&r->control);
	}
	introduce(r);
	exchange_keys(r);
	if (r->server) {
		side_connect_until(&r->work, r->server, r->port, NULL, 0, NULL, NULL, &event);
	} else {
		side_request(&r->work);
		side_accept(&r->work, NULL, 0);
		side_established(&r->work);
	}
	/* perftest exchanges keys after connecting, once more, and twice before the work begins; two tests do
	 * so a fifth time. */
	for (int i = 0; i < (r->test == SEND_BW || r->test == WRITE_LAT ? 5 : 4); i++)
		exchange_keys(r);
}

static void
post(struct run *r, uint64_t cookie)
{
	switch (r->test) {
	case WRITE_BW:
		side_post_write(&r->work, &r->mine, 0, r->size, cookie, &r->target, 0);
		break;
	case READ_BW:
		side_post_read(&r->work, &r->mine, 0, r->size, cookie, &r->target, 0);
		break;
	default:
		side_post_send(&r->work, &r->mine, 0, r->size, cookie);
		break;
	}
}

static void
drive(struct run *r)
{
	unsigned long posted = 0;

	for (unsigned long done = 0; done < r->iterations; done++) {
		while (posted < r->iterations && posted < done + WINDOW)
			post(r, posted++);
		side_complete(&r->work, done);
	}
}

static void
receive(struct run *r)
{
	for (unsigned long i = 0; i < r->iterations; i++) {
		int64_t len = side_message(&r->work, NULL);

		if (len != (int64_t)r->size)
			side_die("message %lu has %lld bytes instead of %zu", i, (long long)len, r->size);
		if (i + SIDE_DEPTH < r->iterations)
			side_post_recv(&r->work, &r->offered, 0, r->size, 0);
	}
}

/* The last byte of each WRITE is its number. The perftest server writes first. */
static void
ping_pong(struct run *r)
{
	volatile uint8_t *arrived = r->offered.data + r->size - 1;
	unsigned long sent = 0, seen = 0;
	time_t until = time(NULL) + 120;

	while (sent < r->iterations || seen < r->iterations) {
		if (seen < r->iterations && (sent || r->server)) {
			seen++;
			while (*arrived != (uint8_t)seen) {
				if (time(NULL) > until)
					side_die("WRITE %lu does not arrive", seen);
				usleep(50); /* the guest needs the processors, too */
			}
		}
		if (sent < r->iterations) {
			r->mine.data[r->size - 1] = (uint8_t)++sent;
			side_post_write(&r->work, &r->mine, 0, r->size, sent, &r->target, 0);
			side_complete(&r->work, sent);
		}
	}
}

static void
fill(struct buffer *b, bool blank)
{
	for (size_t i = 0; i < b->size; i++)
		b->data[i] = blank ? BLANK : (uint8_t)i;
}

/* perftest's buffers hold random bytes: a run of BLANK bytes means that no data arrived there. */
static void
check_arrived(const struct run *r, const uint8_t *data)
{
	size_t blank = 0;

	for (size_t i = 0; i < r->size; i++) {
		blank = data[i] == BLANK ? blank + 1 : 0;
		if (blank == 8)
			side_die("nothing arrived at byte %zu", i - 7);
	}
}

static void
run(struct run *r)
{
	if (r->test == WRITE_LAT) {
		ping_pong(r);
		return;
	}
	if (r->test == SEND_BW) {
		if (r->server)
			drive(r);
		else
			receive(r);
	} else if (r->server) {
		drive(r);
		exchange_keys(r);
		report(r);
	} else {
		exchange_keys(r); /* waits until the client is done */
		report(r);
	}
	exchange_keys(r);
	if (r->test == READ_BW && r->server)
		check_arrived(r, r->mine.data);
	if ((r->test == WRITE_BW || r->test == SEND_BW) && !r->server)
		check_arrived(r, r->offered.data);
}

static void
parse(struct run *r, int argc, char **argv)
{
	static const char *const names[] = {"write_bw", "read_bw", "send_bw", "write_lat"};
	int c, test = 0;

	while ((c = getopt(argc, argv, "c:p:s:n:o:")) != -1) {
		switch (c) {
		case 'c':
			r->server = optarg;
			break;
		case 'p':
			r->port = (unsigned)atoi(optarg);
			break;
		case 's':
			r->size = strtoul(optarg, NULL, 0);
			break;
		case 'n':
			r->iterations = strtoul(optarg, NULL, 0);
			break;
		case 'o':
			r->reads = (unsigned)atoi(optarg);
			break;
		default:
			exit(2);
		}
	}
	while (test < 4 && optind < argc && strcmp(argv[optind], names[test]))
		test++;
	if (optind != argc - 1 || test == 4 || !r->size || !r->iterations || !r->reads) {
		fprintf(stderr,
			"usage: %s write_bw|read_bw|send_bw|write_lat [-c ADDRESS] [-p PORT] [-s SIZE] [-n ITERATIONS] [-o READS]\n",
			argv[0]);
		exit(2);
	}
	r->test = (enum test)test;
}

int
main(int argc, char **argv)
{
	struct run r = {.port = 18515, .size = 65536, .iterations = 100, .reads = 4};
	size_t offered;

	parse(&r, argc, argv);
	offered = r.size < PAGE ? PAGE : r.size;
	side_open(&r.control, 0, 0);
	side_open_beside(&r.work, &r.control, (int)r.reads, (int)r.reads);
	buffer_make(&r.control, &r.slots, 2 * SLOT,
		    DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
	buffer_make(&r.control, &r.mine, r.size,
		    DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
	buffer_make(&r.control, &r.offered, offered, DAT_MEM_PRIV_ALL_FLAG);
	/* The source of a READ is the peer's offered buffer. */
	fill(&r.mine, r.test == READ_BW);
	fill(&r.offered, r.test != READ_BW);
	r.offered.data[r.size - 1] = 0;
	if (r.test == SEND_BW && !r.server)
		for (unsigned long i = 0; i < SIDE_DEPTH && i < r.iterations; i++)
			side_post_recv(&r.work, &r.offered, 0, r.size, 0);
	connect_both(&r);
	run(&r);
	printf("%lu times %zu bytes\n", r.iterations, r.size);
	side_close(&r.control);
	return 0;
}

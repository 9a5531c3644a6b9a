/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oneside-copy: copies a file between two applications by uDAPL RDMA writes.
 *
 *   oneside-copy -d IA receive OUTFILE            on one host
 *   oneside-copy -d IA send FILE HOST             on the other
 *
 * The sender's connection request contains the size. The receiver allocates and registers a buffer, and
 * answers with its address and context. The sender writes the file in pieces, several in flight, then sends a
 * message that reports the end.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/lib/dat_common.h"
#include "perf/lib/file.h"
#include "perf/lib/report.h"

#define MAGIC 0x59504f43u
#define PIECE (1u << 20)
#define DEPTH 16u
#define SECONDS 60u

struct offer {
	uint32_t magic;
	uint32_t reserved;
	uint64_t size;
};

static bool
expect(struct dat_adapter *a, DAT_EVENT_NUMBER want, DAT_EVENT *event)
{
	return dat_conn_wait(a, SECONDS, event) && dat_event_is(event, want);
}

/* ---- receiver ---- */

static bool
receive(struct dat_adapter *a, DAT_CONN_QUAL port, const char *path)
{
	struct dat_memory memory = {.base = NULL}, note = {.base = NULL};
	DAT_LMR_TRIPLET iov;
	struct dat_target target;
	struct offer offer;
	DAT_PSP_HANDLE psp;
	DAT_EP_HANDLE ep;
	DAT_CR_HANDLE cr;
	DAT_CR_PARAM param;
	DAT_EVENT event;
	DAT_COUNT more;
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	bool ok = false;

	if (!dat_ok(dat_psp_create(a->ia, port, a->conn_evd, DAT_PSP_CONSUMER_FLAG, &psp), "dat_psp_create"))
		return false;
	fprintf(stderr, "oneside-copy: waiting for a sender\n");
	if (!expect(a, DAT_CONNECTION_REQUEST_EVENT, &event))
		return false;
	cr = event.event_data.cr_arrival_event_data.cr_handle;
	if (!dat_ok(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param), "dat_cr_query"))
		return false;
	memset(&offer, 0, sizeof(offer));
	if (param.private_data_size >= (DAT_COUNT)sizeof(offer))
		memcpy(&offer, param.private_data, sizeof(offer));
	if (offer.magic != MAGIC) {
		fprintf(stderr, "oneside-copy: the request is not from oneside-copy\n");
		dat_ok(dat_cr_reject(cr), "dat_cr_reject");
		return false;
	}
	if (!dat_memory_create(a, offer.size > 0 ? offer.size : 1, &memory) ||
	    !dat_memory_create(a, 8, &note) || !dat_endpoint_create(a, 4, 4, &ep))
		goto out;
	iov = (DAT_LMR_TRIPLET){.lmr_context = note.lmr_context,
				.virtual_address = (DAT_VADDR)(uintptr_t)note.base,
				.segment_length = 8};
	target = (struct dat_target){
		.address = (uintptr_t)memory.base, .length = memory.size, .rmr_context = memory.rmr_context};
	if (!dat_ok(dat_ep_post_recv(ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv") ||
	    !dat_ok(dat_cr_accept(cr, ep, sizeof(target), &target), "dat_cr_accept") ||
	    !expect(a, DAT_CONNECTION_EVENT_ESTABLISHED, &event) ||
	    !dat_ok(dat_evd_wait(a->recv_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait"))
		goto out;
	if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS) {
		fprintf(stderr, "oneside-copy: the sender went away: %s\n",
			dat_dto_status_name(event.event_data.dto_completion_event_data.status));
		goto out;
	}
	/* RDMA writes posted before a SEND are visible once its receive has completed. */
	ok = file_write(path, memory.base, offer.size) &&
	     dat_ok(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG), "dat_ep_disconnect") &&
	     expect(a, DAT_CONNECTION_EVENT_DISCONNECTED, &event);
	dat_ok(dat_ep_free(ep), "dat_ep_free");
out:
	dat_memory_free(&memory);
	dat_memory_free(&note);
	return ok;
}

/* ---- sender ---- */

struct sender {
	struct dat_adapter *a;
	DAT_EP_HANDLE ep;
	uint8_t *data;
	uint64_t size;
	DAT_LMR_CONTEXT lmr_context;
	struct dat_target target;
	uint64_t posted_at[DEPTH];
	struct histogram latency;
};

static bool
reap(struct sender *s, uint64_t *done)
{
	DAT_EVENT event;
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	if (!dat_dequeue_spin(s->a->request_evd, &event, SECONDS))
		return false;
	if (dto->status != DAT_DTO_SUCCESS) {
		fprintf(stderr, "oneside-copy: RDMA write: %s\n", dat_dto_status_name(dto->status));
		return false;
	}
	histogram_add(&s->latency, now_ns() - s->posted_at[dto->user_cookie.as_64 % DEPTH]);
	++*done;
	return true;
}

static bool
write_all(struct sender *s, double *seconds, struct peak *peak)
{
	uint64_t pieces = (s->size + PIECE - 1) / PIECE, posted = 0, done = 0, start = now_ns();
	bool tty = isatty(STDERR_FILENO);

	peak_begin(peak, start);
	while (done < pieces) {
		if (posted < pieces && posted - done < DEPTH) {
			uint64_t offset = posted * PIECE,
				 len = s->size - offset < PIECE ? s->size - offset : PIECE;
			DAT_LMR_TRIPLET local = {.lmr_context = s->lmr_context,
						 .virtual_address = (DAT_VADDR)(uintptr_t)(s->data + offset),
						 .segment_length = len};
			DAT_RMR_TRIPLET remote = {.rmr_context = s->target.rmr_context,
						  .target_address = s->target.address + offset,
						  .segment_length = len};
			DAT_DTO_COOKIE cookie = {.as_64 = posted};

			s->posted_at[posted % DEPTH] = now_ns();
			if (!dat_ok(dat_ep_post_rdma_write(s->ep, 1, &local, cookie, &remote,
							   DAT_COMPLETION_DEFAULT_FLAG),
				    "dat_ep_post_rdma_write"))
				return false;
			posted++;
			continue;
		}
		if (!reap(s, &done))
			return false;
		peak_look(peak, now_ns(), posted, done);
		if (tty && (done % 8 == 0 || done == pieces))
			fprintf(stderr, "\r  %3" PRIu64 "%%", done * 100 / pieces);
	}
	if (tty)
		fprintf(stderr, "\r      \r");
	*seconds = (double)(now_ns() - start) / 1e9;
	return true;
}

/*
 * Sends the message that reports the end, and waits for the receiver to disconnect, which it does when the
 * file is written.
 */
static bool
finish(struct sender *s)
{
	DAT_LMR_TRIPLET iov = {.lmr_context = s->lmr_context,
			       .virtual_address = (DAT_VADDR)(uintptr_t)s->data,
			       .segment_length = 8};
	DAT_DTO_COOKIE cookie = {.as_64 = UINT64_MAX};
	DAT_EVENT event;

	return dat_ok(dat_ep_post_send(s->ep, 1, &iov, cookie, DAT_COMPLETION_SUPPRESS_FLAG),
		      "dat_ep_post_send") &&
	       expect(s->a, DAT_CONNECTION_EVENT_DISCONNECTED, &event);
}

static bool
send_file(struct dat_adapter *a, DAT_CONN_QUAL port, const char *path, const char *host, bool json)
{
	struct sender *s = calloc(1, sizeof(*s));
	struct offer offer = {.magic = MAGIC};
	struct result r = {.test = "rdma_write", .size = PIECE};
	struct sockaddr_storage addr;
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_HANDLE lmr;
	struct peak peak;
	DAT_EVENT event;
	bool ok = false;

	s->a = a;
	histogram_clear(&s->latency);
	s->data = file_read(path, &s->size);
	if (s->data == NULL || !dat_resolve(host, &addr))
		goto out;
	offer.size = s->size;
	memset(&region, 0, sizeof(region));
	region.for_va = s->data;
	if (!dat_ok(dat_lmr_create(a->ia, DAT_MEM_TYPE_VIRTUAL, region, s->size < 8 ? 8 : s->size, a->pz,
				   DAT_MEM_PRIV_LOCAL_READ_FLAG, &lmr, &s->lmr_context, NULL, NULL, NULL),
		    "dat_lmr_create") ||
	    !dat_endpoint_create(a, DEPTH + 1, 1, &s->ep) ||
	    !dat_ok(dat_ep_connect(s->ep, (DAT_IA_ADDRESS_PTR)&addr, port, 20000000, sizeof(offer), &offer,
				   DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
		    "dat_ep_connect") ||
	    !expect(a, DAT_CONNECTION_EVENT_ESTABLISHED, &event))
		goto out;
	if (event.event_data.connect_event_data.private_data_size < (DAT_COUNT)sizeof(s->target)) {
		fprintf(stderr, "oneside-copy: %s reported no buffer: is it oneside-copy?\n", host);
		goto out;
	}
	memcpy(&s->target, event.event_data.connect_event_data.private_data, sizeof(s->target));
	if (!write_all(s, &r.seconds, &peak) || !finish(s))
		goto out;
	ok = dat_ok(dat_ep_free(s->ep), "dat_ep_free") && dat_ok(dat_lmr_free(lmr), "dat_lmr_free");
	r.iterations = s->size / PIECE;
	if (r.iterations == 0) {
		r.iterations = 1;
		r.size = s->size;
	}
	r.latency = &s->latency;
	peak_end(&peak, &r);
	report(&r, json);
out:
	free(s->data);
	free(s);
	return ok;
}

int
main(int argc, char **argv)
{
	static const struct option longopts[] = {{"help", no_argument, NULL, 'h'}, {0}};
	static const char usage[] = "usage: oneside-copy [-d IA] [-p PORT] [-j] receive OUTFILE\n"
				    "       oneside-copy [-d IA] [-p PORT] [-j] send FILE HOST\n";
	const char *ia = "oneside";
	DAT_CONN_QUAL port = 18516;
	struct dat_adapter adapter;
	bool json = false, ok = false;
	int c;

	while ((c = getopt_long(argc, argv, "d:p:jh", longopts, NULL)) != -1) {
		switch (c) {
		case 'd':
			ia = optarg;
			break;
		case 'p':
			port = (DAT_CONN_QUAL)strtoul(optarg, NULL, 0);
			break;
		case 'j':
			json = true;
			break;
		default:
			fputs(usage, c == 'h' ? stdout : stderr);
			return c == 'h' ? EXIT_SUCCESS : EXIT_FAILURE;
		}
	}
	argc -= optind;
	argv += optind;
	if (!(argc == 2 && strcmp(argv[0], "receive") == 0) && !(argc == 3 && strcmp(argv[0], "send") == 0)) {
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}
	if (dat_adapter_open(&adapter, ia, 8, 64))
		ok = argc == 2 ? receive(&adapter, port, argv[1])
			       : send_file(&adapter, port, argv[1], argv[2], json);
	dat_adapter_close(&adapter);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

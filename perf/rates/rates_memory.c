/* SPDX-License-Identifier: BSD-3-Clause */
/* Time to register memory, compared with pinning it, copying it, and a request to another thread. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perf/lib/dat_common.h"
#include "rates.h"
#include "perf/lib/report.h"

#define AGAIN 200u   /* registrations of the same memory */
#define REQUEST 1024 /* bytes, like struct one_msg */
#define REPLY 256    /* bytes, like struct one_reply */

enum what { FIRST, UNTOUCHED, AGAIN_US, FREE, GIVEN_BACK, MLOCK, MEMCPY, SOCKET, WHATS };

static const char *const name[WHATS] = {"first",  "untouched", "again",  "free",
					"munmap", "mlock",     "memcpy", "socket"};

struct least {
	uint64_t ns[WHATS]; /* minimum of the rounds; 0: not measured */
};

static void
keep_least(struct least *least, enum what what, uint64_t since)
{
	uint64_t ns = now_ns() - since;

	if (least->ns[what] == 0 || ns < least->ns[what])
		least->ns[what] = ns;
}

static void *
memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED)
		return p;
	fprintf(stderr, "oneside-rates: no memory for %zu bytes: %s\n", size, strerror(errno));
	return NULL;
}

static bool
enroll(const struct dat_adapter *adapter, void *p, size_t size, DAT_LMR_HANDLE *lmr)
{
	DAT_REGION_DESCRIPTION region = {.for_va = p};
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN length;
	DAT_VADDR address;

	return dat_ok(dat_lmr_create(adapter->ia, DAT_MEM_TYPE_VIRTUAL, region, size, adapter->pz,
				     DAT_MEM_PRIV_ALL_FLAG, lmr, &lmr_context, &rmr_context, &length,
				     &address),
		      "dat_lmr_create");
}

static bool
enroll_once(const struct dat_adapter *adapter, void *p, size_t size, struct least *least, enum what what)
{
	uint64_t start = now_ns();
	DAT_LMR_HANDLE lmr;

	if (!enroll(adapter, p, size, &lmr))
		return false;
	keep_least(least, what, start);
	start = now_ns();
	if (!dat_ok(dat_lmr_free(lmr), "dat_lmr_free"))
		return false;
	keep_least(least, FREE, start);
	return true;
}

/* Pins and copies fresh memory, which was not adopted before. */
static bool
others(size_t size, struct least *least)
{
	void *p = memory(size), *copy = memory(size);
	uint64_t start;

	if (p == NULL || copy == NULL)
		return false;
	memset(p, 1, size);
	start = now_ns();
	if (mlock(p, size) == 0)
		keep_least(least, MLOCK, start);
	munlock(p, size);
	start = now_ns();
	memcpy(copy, p, size);
	keep_least(least, MEMCPY, start);
	munmap(p, size);
	munmap(copy, size);
	return true;
}

static void *
answer(void *arg)
{
	const int *end = arg;
	char request[REQUEST];

	while (recv(end[1], request, sizeof(request), 0) == REQUEST &&
	       send(end[1], request, REPLY, MSG_NOSIGNAL) == REPLY)
		;
	return NULL;
}

/*
 * A request to a sleeping thread and its answer, as long as those of the control thread: the minimum cost of
 * a registration that needs a request.
 */
static bool
request(struct least *least)
{
	static const char message[REQUEST];
	char reply[REPLY];
	pthread_t thread;
	int end[2];
	bool ok = true;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end) != 0)
		return false;
	if (pthread_create(&thread, NULL, answer, end) != 0) {
		close(end[0]);
		close(end[1]);
		return false;
	}
	for (uint32_t i = 0; i < AGAIN && ok; i++) {
		uint64_t start = now_ns();

		ok = send(end[0], message, sizeof(message), MSG_NOSIGNAL) == REQUEST &&
		     recv(end[0], reply, sizeof(reply), 0) == REPLY;
		keep_least(least, SOCKET, start);
	}
	shutdown(end[0], SHUT_RDWR);
	pthread_join(thread, NULL);
	close(end[0]);
	close(end[1]);
	return ok;
}

static bool
one_round(const struct dat_adapter *adapter, size_t size, struct least *least)
{
	void *p = memory(size);
	uint64_t start;
	bool ok;

	if (p == NULL)
		return false;
	memset(p, 1, size);
	ok = enroll_once(adapter, p, size, least, FIRST);
	for (uint32_t i = 0; i < AGAIN && ok; i++)
		ok = enroll_once(adapter, p, size, least, AGAIN_US);
	start = now_ns();
	munmap(p, size);
	keep_least(least, GIVEN_BACK, start);
	p = memory(size);
	ok = ok && p != NULL && enroll_once(adapter, p, size, least, UNTOUCHED);
	if (p != NULL)
		munmap(p, size);
	return ok && others(size, least) && request(least);
}

static void
print_least(const struct rates_options *o, const struct least *least)
{
	if (o->json)
		printf("{\"test\":\"reg_lat\",\"size\":%" PRIu64, o->size);
	else
		printf(" reg_lat: %" PRIu64 " bytes:", o->size);
	for (int i = 0; i < WHATS; i++) {
		if (least->ns[i] != 0)
			printf(o->json ? ",\"%s_us\":%.2f" : " %s %.2f us", name[i],
			       (double)least->ns[i] / 1e3);
	}
	printf(o->json ? "}\n" : "\n");
}

int
rates_registration(const struct rates_options *o)
{
	uint64_t rounds = o->iterations > 0 ? o->iterations : o->size >= 256u << 20 ? 3 : 10;
	struct dat_adapter adapter;
	struct least least = {0};
	bool ok = dat_adapter_open(&adapter, o->ia, 64, 64);

	for (uint64_t i = 0; i < rounds && ok; i++)
		ok = one_round(&adapter, o->size, &least);
	if (ok)
		print_least(o, &least);
	dat_adapter_close(&adapter);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A uDAPL application whose data plane is killed: within a second it gets an asynchronous error and the end
 * of every connection, blocked threads return, and no call hangs.
 *
 *   net-dat-death CLIENT_SOCKET SERVER_SOCKET PID_OF_CLIENTS_DATA_PLANE
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "dat_pair.h"

static pid_t data_plane;

static void
server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, true, &b, 65536);
	dat_buffer_offer(&s, &b);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void *
blocked(void *user)
{
	struct dat_side *s = user;
	DAT_EVENT event;
	DAT_COUNT more;

	/* No receive ever completes: only the death of the data plane ends the wait. */
	return (void *)(uintptr_t)dat_evd_wait(s->recv, DAT_TIMEOUT_INFINITE, 1, &event, &more);
}

static void
client(struct pair *pair)
{
	struct dat_remote r;
	struct dat_buffer b;
	struct dat_side s;
	pthread_t thread;
	DAT_EVENT event;
	uint64_t before;
	void *ret;

	dat_side_start(&s, pair, false, &b, 65536);
	dat_remote_take(&s, &r);
	CHECK(pair, pthread_create(&thread, NULL, blocked, &s) == 0, "pthread_create");
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 65536, 1, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 65536);
	before = pair_now_ms();
	CHECK(pair, kill(data_plane, SIGKILL) == 0, "kill %d: %s", (int)data_plane, strerror(errno));
	dat_side_event(&s, s.async, 1000, &event);
	CHECK(pair, event.event_number == DAT_ASYNC_ERROR_IA_CATASTROPHIC, "asynchronous event 0x%x",
	      event.event_number);
	dat_side_event(&s, s.conn, 1000, &event);
	CHECK(pair, event.event_number == DAT_CONNECTION_EVENT_BROKEN, "connection event 0x%x",
	      event.event_number);
	CHECK(pair, pair_now_ms() - before < 1500 * PAIR_SHARE, "noticed only after %llu ms",
	      (unsigned long long)(pair_now_ms() - before));
	pthread_join(thread, &ret);
	CHECK(pair, (uintptr_t)ret != DAT_SUCCESS, "a wait on a dead interface adapter succeeded");
	/* Calls fail, and none hangs. */
	CHECK(pair,
	      dat_write(s.ep, &b, 0, 64, 2, &r, 0, DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS ||
		      dat_evd_wait(s.request, 1000000 * PAIR_SHARE, 1, &event, &(DAT_COUNT){0}) ==
			      DAT_SUCCESS,
	      "a post to a dead interface adapter vanished");
	dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG);
	dat_ep_free(s.ep);
	dat_lmr_free(b.lmr);
	memset(b.data, 1, b.size); /* The memory still belongs to the application. */
	dat_side_close(&s);
	pair_barrier(pair);
}

static const struct pair_case cases[] = {
	{"data_plane_death", server, client, false},
};

int
main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: %s CLIENT_SOCKET SERVER_SOCKET PID\n", argv[0]);
		return 2;
	}
	data_plane = (pid_t)strtol(argv[3], NULL, 10);
	return pair_main(3, argv, cases, 1);
}

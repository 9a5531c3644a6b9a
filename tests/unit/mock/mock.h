/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for the data plane, for tests of the libraries.
 *
 * A thread of the test's own process listens on a socket in a fresh directory
 * (ONESIDE_SOCKET is set to it), speaks api/abi/message.h, and hands out rings of
 * a real arena.  It moves no data by itself: the test plays the engine, with the
 * calls below, and may answer any request in its own way (mock_on, mock_refuse).
 *
 *   struct mock *mock = mock_start();
 *   ... dat_ia_open, dat_ep_create, dat_ep_post_rdma_write ...
 *   qp = mock_newest(mock, ONE_MSG_QP_CREATE);
 *   mock_take(mock, qp, false, &wqe, sge);              the descriptor as posted
 *   mock_complete(mock, qp, &wqe, ONE_STATUS_SUCCESS);  its completion
 *   mock_stop(mock);
 *
 * What a request does by default: objects get an id (unique in the mock), CQs,
 * QPs and staging get memory of the arena, regions and MRs are mapped, all else
 * succeeds without effect.  Nothing is checked that the real control thread
 * checks (protection, quotas, order of freeing): use mock_refuse for those.
 *
 * All calls are safe from all threads and abort the test on misuse.
 *
 * tests/fuzz/library/liar.h answers the same messages within the library's own
 * system calls, without threads and sockets, so that a fuzzed input repeats exactly.
 * tests/unit/control/fake_engine.h fakes another interface: dataplane/engine.h,
 * below the control thread.
 */
#ifndef TESTS_UNIT_MOCK_H
#define TESTS_UNIT_MOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/arena.h"
#include "abi/copy.h"
#include "abi/message.h"
#include "abi/ring.h"

/* Negotiated values of all connections; the timers are codes. */
enum { MOCK_RETRY_COUNT = 5, MOCK_RNR_RETRY = 3, MOCK_TIMEOUT = 16, MOCK_MIN_RNR_TIMER = 28 };

struct mock;

struct mock *mock_start(void);
/* Hangs up on all clients and frees everything. */
void mock_stop(struct mock *mock);
const char *mock_socket(const struct mock *mock);
/* The reply to HELLO; change it before attaching (idle, limits, addr, mtu, node_id ...). */
struct one_welcome *mock_welcome(struct mock *mock);
/* Gives `port` the address of the welcome as its only one. */
void mock_addr(struct mock *mock, struct one_port *port);
/* Sends WELCOME without descriptors from now on. */
void mock_withhold_fds(struct mock *mock, bool withhold);
/* Acts as kill -9 of the data plane: all connections end, and nothing listens any more. */
void mock_kill(struct mock *mock);
/* Listens again after mock_kill. */
void mock_revive(struct mock *mock);
/* Attachments from now on may revoke and renew keys of memory (struct one_keys). The mock's thread does so
 * and counts; the mock claims to sleep, so that the library wakes it. */
void mock_renewable(struct mock *mock);
uint32_t mock_revoked(struct mock *mock);
uint32_t mock_renewed(struct mock *mock);
/* Refuses to revoke and renew keys, while true. */
void mock_refuse_keys(struct mock *mock, bool refuse);
/* Declares all attachments faulty (enum one_fault) and hangs up, but goes on listening. */
void mock_fault(struct mock *mock, uint32_t fault);
/* Number of live attachments. */
uint32_t mock_attached(struct mock *mock);

/* ---- requests ---- */

/* Called by the mock's thread for each request of `type` before anything else is
 * done.  Return true when `reply` (type and seq are set, the rest is zero) is the
 * answer; false for the default.  Set reply->seq or type wrong to send nonsense.
 * Descriptors are closed by the mock.  Other mock_ calls may be made from within. */
typedef bool (*mock_handler)(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
			     struct one_reply *reply, void *user);
void mock_on(struct mock *mock, enum one_msg_type type, mock_handler handler, void *user);
/* The next `times` requests of `type` fail. */
void mock_refuse(struct mock *mock, enum one_msg_type type, int error, enum one_subject subject,
		 uint64_t value, uint32_t times);
/* Requests of `type` are carried out and not answered until mock_answer(). */
void mock_defer(struct mock *mock, enum one_msg_type type);
void mock_answer(struct mock *mock, enum one_msg_type type);
/* Replies to `type` without an error carry a copy of `fd`; -1: no longer. */
void mock_give_fd(struct mock *mock, enum one_msg_type type, int fd);
/* Number of requests of `type` so far, and the last of them. */
uint32_t mock_count(struct mock *mock, enum one_msg_type type);
bool mock_last(struct mock *mock, enum one_msg_type type, struct one_msg *out);
/* Id of the newest object created by a request of `type` (PZ, CQ, QP, LISTEN, REGION_ADD, MR, MW, SRQ,
 * RSM_PUBLISH: the segment, RSM_CONNECT: the queue pair); 0: none. */
uint32_t mock_newest(struct mock *mock, enum one_msg_type type);
/* Gives the next object this unused id, because the data plane reuses slots. */
void mock_number(struct mock *mock, uint32_t id);

/* ---- the engine's side of rings ---- */

/* Stores an entry, whose `phase` is filled in, and wakes armed waiters; false: the ring is full. */
bool mock_cqe(struct mock *mock, uint32_t cq, const struct one_cqe *cqe);
/* Both steps of mock_cqe(), as the engine does them: a stored entry is visible to pollers at once;
 * mock_publish() then checks the arm, and wakes nobody for entries that have left the ring by then. */
bool mock_cqe_early(struct mock *mock, uint32_t cq, const struct one_cqe *cqe);
void mock_publish(struct mock *mock, uint32_t cq);
/* Waits until N threads of the newest attachment sleep on its channels, after their last poll. */
void mock_wait_asleep(struct mock *mock, uint32_t threads);
/* Id of the newest attachment's ring of asynchronous events. */
uint32_t mock_async_cq(struct mock *mock);
/* Takes the next posted request, with up to ONE_MAX_SGE pieces, and frees its slots; false: there is none. */
bool mock_take(struct mock *mock, uint32_t qp, bool recv, struct one_wqe *wqe, struct one_sge *sge);
/* Counts a request as finished, without a completion. */
void mock_done(struct mock *mock, uint32_t qp, bool recv);
/* Calls mock_done(), and stores a completion with NOTIFY, with the request's cookie, op and length, in the
 * right CQ, if there is one. (For a receive: wqe->op ONE_OP_RECV.) With success, ONE_WQE_SUPPRESS and
 * UNSIGNALED apply. */
void mock_complete(struct mock *mock, uint32_t qp, const struct one_wqe *wqe, enum one_status status);
/* Takes the next receive of a shared queue for `qp`; then completes it. */
bool mock_srq_take(struct mock *mock, uint32_t srq, uint32_t qp, struct one_wqe *wqe, struct one_sge *sge);
void mock_srq_complete(struct mock *mock, uint32_t srq, uint32_t qp, const struct one_wqe *wqe,
		       enum one_status status);
/* True if the application has rung the doorbell of `qp` since the last call. */
bool mock_doorbell(struct mock *mock, uint32_t qp);
/* Number of requests posted and not taken, according to their phases. */
uint32_t mock_posted(struct mock *mock, uint32_t qp, bool recv);
/* Sets arena.engine_asleep, for idle mode sleep, and reads (and clears) the eventfd. */
void mock_sleep(struct mock *mock, bool asleep);
uint64_t mock_woken(struct mock *mock);

/* ---- connections ---- */

struct one_qp_shm *mock_qp_shm(struct mock *mock, uint32_t qp);
void mock_qp_state(struct mock *mock, uint32_t qp, enum one_qp_state state);
/* Sets state and private data, and stores ONE_CQE_CONNECT in the QP's conn_cq. */
void mock_connected(struct mock *mock, uint32_t qp, const void *private_data, uint16_t len);
/* Stores ONE_CQE_CONNECT with another outcome; the state becomes ERROR. */
void mock_conn_event(struct mock *mock, uint32_t qp, enum one_conn_event event);
/* Stores a connection request for `listener`; returns the CR's id. */
uint32_t mock_request(struct mock *mock, uint32_t listener, uint64_t conn_qual, const void *private_data,
		      uint16_t len);
/* Stores the outcome of the SIDR_ASK `object`, or a question for the listener `object`. */
void mock_sidr(struct mock *mock, uint32_t object, uint8_t status, const struct one_sidr_shm *what);

/* ---- memory ---- */

/* Copies the request that created `mr`; false: there is no such MR. */
bool mock_mr(struct mock *mock, uint32_t mr, struct one_mr_create *out);
/* Address where the data plane has mapped [va, va+len) of `mr`; NULL: the copy thread accesses it. */
uint8_t *mock_mr_ptr(struct mock *mock, uint32_t mr, uint64_t va, uint64_t len);
/* Id of the MR with this lkey or rkey; 0: none. */
uint32_t mock_mr_of_key(struct mock *mock, uint32_t key);
/* Number of regions held. */
uint32_t mock_regions(struct mock *mock);
/* Start of the newest attachment's arena, in the mock's own mapping. */
uint8_t *mock_arena(struct mock *mock);
/* Ring of copy requests to the newest attachment; NULL: without a copy thread. */
struct one_copies *mock_copies(struct mock *mock);

#endif

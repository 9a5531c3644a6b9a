/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The uDAPL end of an interoperability run: one endpoint whose other side is a
 * verbs program. A program of a run ends with status 0 only when all that it
 * checked was right; what went wrong is one line on stderr.  The IA is "oneside".
 */
#ifndef TESTS_INTEROP_SIDE_H
#define TESTS_INTEROP_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One source for both generations: SIDE_DAT2 is Debian's uDAPL 2.0, whose registry loads our provider. */
#ifdef SIDE_DAT2
#define DAT_EXTENSIONS
#include <netinet/in.h> /* which the next one needs */

#include <dat2/udat.h>
#include <dat2/dat_ib_extensions.h>
#include <dat2/udat_redirection.h> /* what libdat2 has no function for */
#define SIDE_ALL_RIGHTS ((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_ALL_FLAG | DAT_IB_MEM_PRIV_REMOTE_ATOMIC))
#else
#include <dat/udat.h>
#define SIDE_ALL_RIGHTS DAT_MEM_PRIV_ALL_FLAG
#endif

/* Generous: the peer may be a guest under emulation on a busy machine. */
#define SIDE_WAIT_US (60 * 1000 * 1000)

#define SIDE_DEPTH 128 /* operations of an endpoint under way, each way */

struct side {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, cr, conn, recv, request;
	DAT_EP_HANDLE ep;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE request_handle; /* of side_request */
	int reads_in, reads_out;
};

struct buffer {
	uint8_t *data;
	size_t size;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
};

/* Memory of the peer. */
struct target {
	uint64_t address;
	uint32_t key;
};

_Noreturn void side_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Dies unless `ret` is a success; `what` names the call. */
void side_must(DAT_RETURN ret, const char *what);
#define MUST(call) side_must((call), #call)

void side_open(struct side *s, int reads_in, int reads_out);
/* Another endpoint of the same adapter and zone, with dispatchers of its own. */
void side_open_beside(struct side *s, const struct side *first, int reads_in, int reads_out);
void side_close_beside(struct side *s);
void side_close(struct side *s);

void side_listen(struct side *s, unsigned port);
/* Waits for a connection request; side_accept answers it. */
void side_request(struct side *s);
void side_accept(struct side *s, void *private_data, size_t len);
/* uDAPL 1.2 has no private data for it. */
void side_reject(struct side *s, void *private_data, size_t len);
void side_established(struct side *s);
/* Posts the request; the answer comes as an event. */
void side_connect(struct side *s, const char *address, unsigned port, void *private_data, size_t len);
/* Connects, again and again while nobody listens there; `prepare` posts what each new endpoint needs.
 * `event` is ESTABLISHED. */
void side_connect_until(struct side *s, const char *address, unsigned port, void *private_data, size_t len,
			void (*prepare)(struct side *s, void *arg), void *arg, DAT_EVENT *event);
/* The next connection event within SIDE_WAIT_US. */
DAT_EVENT_NUMBER side_connection_event(struct side *s, DAT_EVENT *event);
void side_disconnect(struct side *s);
void side_expect_state(struct side *s, DAT_EP_STATE wanted, const char *name);
/* The end of a connection: this event comes, and the endpoint is in the state that goes with it. */
void side_expect_end(struct side *s, DAT_EVENT_NUMBER wanted, const char *name);

void buffer_make(struct side *s, struct buffer *b, size_t size, DAT_MEM_PRIV_FLAGS rights);

void side_post_recv(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie);
void side_post_send(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie);
void side_post_write(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
		     const struct target *t, uint64_t at);
void side_post_read(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
		    const struct target *t, uint64_t at);

/* Binds `window` to all of `b`, for the peer's WRITEs; the key. */
DAT_RMR_CONTEXT side_bind(struct side *s, DAT_RMR_HANDLE window, const struct buffer *b);

#ifdef SIDE_DAT2
void side_post_send_inv(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
			uint32_t key);
void side_post_write_imm(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
			 const struct target *t, uint64_t at, uint32_t immediate);
/* The eight bytes at `at` come to `offset`. */
void side_post_fetch_add(struct side *s, const struct buffer *b, size_t offset, uint64_t cookie,
			 const struct target *t, uint64_t at, uint64_t add);
void side_post_cmp_swap(struct side *s, const struct buffer *b, size_t offset, uint64_t cookie,
			const struct target *t, uint64_t at, uint64_t compare, uint64_t swap);
#endif

/* The next completion of `evd`; dies when none comes. */
void side_completion(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_EVENT_DATA *dto);
/* True when it brings immediate data, which only 2.0 tells. */
bool side_completion_immediate(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_EVENT_DATA *dto, uint32_t *immediate);
/* The next completion of a request is a success with this cookie; what else comes is told, with the event
 * of a connection that broke. */
void side_complete(struct side *s, uint64_t cookie);
/* A message of `len` bytes, or -1 when the peer has disconnected. */
int64_t side_message(struct side *s, uint64_t *cookie);

#endif

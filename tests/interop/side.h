/* SPDX-License-Identifier: BSD-3-Clause */
/* The uDAPL side of an interoperability run: one endpoint whose peer is a verbs program. A program of a run
 * ends with status 0 only if all its checks passed; otherwise it prints one line on stderr. The IA is
 * "oneside". */
#ifndef TESTS_INTEROP_SIDE_H
#define TESTS_INTEROP_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two generations share one source: SIDE_DAT2 is Debian's uDAPL 2.0, whose registry loads our provider. */
#ifdef SIDE_DAT2
#define DAT_EXTENSIONS
#include <netinet/in.h> /* needed by the header below */

#include <dat2/udat.h>
#include <dat2/dat_ib_extensions.h>
#include <dat2/udat_redirection.h> /* calls that libdat2 exports no function for */
#define SIDE_ALL_RIGHTS ((DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_ALL_FLAG | DAT_IB_MEM_PRIV_REMOTE_ATOMIC))
#else
#include <dat/udat.h>
#define SIDE_ALL_RIGHTS DAT_MEM_PRIV_ALL_FLAG
#endif

/* Generous: the peer may be a guest under emulation on a busy machine. */
#define SIDE_WAIT_US (60 * 1000 * 1000)

#define SIDE_DEPTH 128 /* limit of outstanding operations per endpoint and direction */

struct side {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, cr, conn, recv, request;
	DAT_EP_HANDLE ep;
	DAT_PSP_HANDLE psp;
	DAT_CR_HANDLE request_handle; /* set by side_request */
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
/* Exits with an error unless `ret` is a success; `what` names the call. */
void side_must(DAT_RETURN ret, const char *what);
#define MUST(call) side_must((call), #call)

void side_open(struct side *s, int reads_in, int reads_out);
/* Opens a further endpoint of the same adapter and zone, with its own EVDs. */
void side_open_beside(struct side *s, const struct side *first, int reads_in, int reads_out);
void side_close_beside(struct side *s);
void side_close(struct side *s);

void side_listen(struct side *s, unsigned port);
/* Waits for a connection request, which side_accept answers. */
void side_request(struct side *s);
void side_accept(struct side *s, void *private_data, size_t len);
/* Rejects the request. uDAPL 1.2 sends no private data with that. */
void side_reject(struct side *s, void *private_data, size_t len);
void side_established(struct side *s);
/* Sends the request; an event reports the answer. */
void side_connect(struct side *s, const char *address, unsigned port, void *private_data, size_t len);
/* Connects, and tries again while the peer does not listen yet. `prepare` posts the receives of each new
 * endpoint. Returns the ESTABLISHED event. */
void side_connect_until(struct side *s, const char *address, unsigned port, void *private_data, size_t len,
			void (*prepare)(struct side *s, void *arg), void *arg, DAT_EVENT *event);
/* Returns the next connection event, which must come within SIDE_WAIT_US. */
DAT_EVENT_NUMBER side_connection_event(struct side *s, DAT_EVENT *event);
void side_disconnect(struct side *s);
void side_expect_state(struct side *s, DAT_EP_STATE wanted, const char *name);
/* Expects the event `wanted` at the end of a connection, and the endpoint in the corresponding state. */
void side_expect_end(struct side *s, DAT_EVENT_NUMBER wanted, const char *name);

void buffer_make(struct side *s, struct buffer *b, size_t size, DAT_MEM_PRIV_FLAGS rights);

void side_post_recv(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie);
void side_post_send(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie);
void side_post_write(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
		     const struct target *t, uint64_t at);
void side_post_read(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
		    const struct target *t, uint64_t at);

/* Binds `window` to all of `b` for the peer's WRITEs; returns the key. */
DAT_RMR_CONTEXT side_bind(struct side *s, DAT_RMR_HANDLE window, const struct buffer *b);

#ifdef SIDE_DAT2
void side_post_send_inv(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
			uint32_t key);
void side_post_write_imm(struct side *s, const struct buffer *b, size_t offset, size_t len, uint64_t cookie,
			 const struct target *t, uint64_t at, uint32_t immediate);
/* Posts a FETCH-ADD at the target's `at`; the value found there is placed at `offset`. */
void side_post_fetch_add(struct side *s, const struct buffer *b, size_t offset, uint64_t cookie,
			 const struct target *t, uint64_t at, uint64_t add);
void side_post_cmp_swap(struct side *s, const struct buffer *b, size_t offset, uint64_t cookie,
			const struct target *t, uint64_t at, uint64_t compare, uint64_t swap);
#endif

/* Takes the next completion of `evd`; exits with an error if none comes. */
void side_completion(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_EVENT_DATA *dto);
/* Returns true if the completion has immediate data, which only uDAPL 2.0 reports. */
bool side_completion_immediate(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_EVENT_DATA *dto, uint32_t *immediate);
/* Expects the next request's completion with success and this cookie. On failure prints the completion, and
 * the event of a connection that broke. */
void side_complete(struct side *s, uint64_t cookie);
/* Returns the length of the next message, or -1 if the peer has disconnected. */
int64_t side_message(struct side *s, uint64_t *cookie);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Code shared by both ends of the uDAPL programs in perf/. */
#ifndef PERF_DAT_COMMON_H
#define PERF_DAT_COMMON_H

#include <dat/udat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* If `ret` is an error, prints "program: what: MAJOR MINOR" and returns false. */
bool dat_ok(DAT_RETURN ret, const char *what);

struct dat_adapter {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async_evd, conn_evd, recv_evd, request_evd;
};

/* Opens an adapter. conn_evd receives connection requests and connection events. */
bool dat_adapter_open(struct dat_adapter *adapter, const char *name, uint32_t conn_len, uint32_t dto_len);
/* Makes another thread's view of it: with its own queues of completions, which end with the adapter. */
bool dat_adapter_share(const struct dat_adapter *with, uint32_t dto_len, struct dat_adapter *adapter);
void dat_adapter_close(struct dat_adapter *adapter);

/* Makes an endpoint with queues for that many requests and receives. */
bool dat_endpoint_create(struct dat_adapter *adapter, uint32_t requests, uint32_t recvs, DAT_EP_HANDLE *ep);

/* Waits for an event of conn_evd. After `seconds`, prints an error and returns false. */
bool dat_conn_wait(struct dat_adapter *adapter, uint32_t seconds, DAT_EVENT *event);
/* Returns true for the wanted event; prints any other one, and what to do. */
bool dat_event_is(const DAT_EVENT *event, DAT_EVENT_NUMBER wanted);
const char *dat_dto_status_name(DAT_DTO_COMPLETION_STATUS status);

/*
 * Call after the `looks`-th failed poll. Yields the processor if `looks` exceeds dat_spin_looks (256 by
 * default), or on every call while another thread uses the yielded time: on a machine with as many busy
 * threads as processors, that is the data plane being waited for.
 */
void dat_idle(uint32_t looks);
extern uint32_t dat_spin_looks;

/* Polls an event queue, with dat_idle() between polls. After `seconds`, prints an error and returns false. */
bool dat_dequeue_spin(DAT_EVD_HANDLE evd, DAT_EVENT *event, uint32_t seconds);

struct dat_memory {
	void *base;
	size_t size;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	bool copied; /* a private mapping of a file, which the library must copy */
};
bool dat_memory_create(struct dat_adapter *adapter, size_t size, struct dat_memory *memory);
/* Makes memory that the library has to copy. */
bool dat_memory_create_copied(struct dat_adapter *adapter, size_t size, struct dat_memory *memory);
void dat_memory_free(struct dat_memory *memory);

bool dat_resolve(const char *host, struct sockaddr_storage *addr);

/* Private data of the acceptor: memory that the client may write and read. */
struct dat_target {
	uint64_t address;
	uint64_t length;
	uint32_t rmr_context;
	uint32_t reserved;
};

#endif

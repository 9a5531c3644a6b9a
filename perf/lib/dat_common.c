/* SPDX-License-Identifier: BSD-3-Clause */
#include "dat_common.h"

#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report.h"

bool
dat_ok(DAT_RETURN ret, const char *what)
{
	const char *major = "?", *minor = "?";

	if (ret == DAT_SUCCESS)
		return true;
	dat_strerror(ret, &major, &minor);
	fprintf(stderr, "%s: %s: %s %s\n", program_invocation_short_name, what, major, minor);
	return false;
}

static bool
create_queues(struct dat_adapter *a, uint32_t dto_len)
{
	return dat_ok(dat_evd_create(a->ia, (DAT_COUNT)dto_len, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
				     &a->recv_evd),
		      "dat_evd_create (receives)") &&
	       dat_ok(dat_evd_create(a->ia, (DAT_COUNT)dto_len, DAT_HANDLE_NULL,
				     DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &a->request_evd),
		      "dat_evd_create (requests)");
}

bool
dat_adapter_open(struct dat_adapter *a, const char *name, uint32_t conn_len, uint32_t dto_len)
{
	char ia_name[DAT_NAME_MAX_LENGTH];

	memset(a, 0, sizeof(*a));
	snprintf(ia_name, sizeof(ia_name), "%s", name);
	return dat_ok(dat_ia_open(ia_name, 8, &a->async_evd, &a->ia), "dat_ia_open") &&
	       dat_ok(dat_pz_create(a->ia, &a->pz), "dat_pz_create") &&
	       dat_ok(dat_evd_create(a->ia, (DAT_COUNT)conn_len, DAT_HANDLE_NULL,
				     DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG, &a->conn_evd),
		      "dat_evd_create (connections)") &&
	       create_queues(a, dto_len);
}

bool
dat_adapter_share(const struct dat_adapter *with, uint32_t dto_len, struct dat_adapter *a)
{
	*a = *with;
	return create_queues(a, dto_len);
}

void
dat_adapter_close(struct dat_adapter *a)
{
	if (a->ia != DAT_HANDLE_NULL)
		dat_ok(dat_ia_close(a->ia, DAT_CLOSE_ABRUPT_FLAG), "dat_ia_close");
	a->ia = DAT_HANDLE_NULL;
}

bool
dat_endpoint_create(struct dat_adapter *a, uint32_t requests, uint32_t recvs, DAT_EP_HANDLE *ep)
{
	DAT_EP_ATTR attr;

	memset(&attr, 0, sizeof(attr));
	attr.service_type = DAT_SERVICE_TYPE_RC;
	attr.max_message_size = 1u << 30;
	attr.max_rdma_size = 1u << 30;
	attr.max_recv_dtos = (DAT_COUNT)recvs;
	attr.max_request_dtos = (DAT_COUNT)requests;
	attr.max_recv_iov = 1;
	attr.max_request_iov = 1;
	attr.max_rdma_read_in = 16;
	attr.max_rdma_read_out = 16;
	attr.max_rdma_read_iov = 1;
	attr.max_rdma_write_iov = 1;
	return dat_ok(dat_ep_create(a->ia, a->pz, a->recv_evd, a->request_evd, a->conn_evd, &attr, ep),
		      "dat_ep_create");
}

bool
dat_conn_wait(struct dat_adapter *a, uint32_t seconds, DAT_EVENT *event)
{
	DAT_COUNT more;

	return dat_ok(dat_evd_wait(a->conn_evd, seconds * 1000000u, 1, event, &more),
		      "waiting for a connection event");
}

static const char *
event_name(DAT_EVENT_NUMBER number)
{
	switch (number) {
	case DAT_DTO_COMPLETION_EVENT:
		return "DTO_COMPLETION";
	case DAT_RMR_BIND_COMPLETION_EVENT:
		return "RMR_BIND_COMPLETION";
	case DAT_CONNECTION_REQUEST_EVENT:
		return "CONNECTION_REQUEST";
	case DAT_CONNECTION_EVENT_ESTABLISHED:
		return "ESTABLISHED";
	case DAT_CONNECTION_EVENT_PEER_REJECTED:
		return "PEER_REJECTED";
	case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
		return "NON_PEER_REJECTED";
	case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
		return "ACCEPT_COMPLETION_ERROR";
	case DAT_CONNECTION_EVENT_DISCONNECTED:
		return "DISCONNECTED";
	case DAT_CONNECTION_EVENT_BROKEN:
		return "BROKEN";
	case DAT_CONNECTION_EVENT_TIMED_OUT:
		return "TIMED_OUT";
	case DAT_CONNECTION_EVENT_UNREACHABLE:
		return "UNREACHABLE";
	default:
		return "asynchronous or unknown event";
	}
}

static const char *
event_remedy(DAT_EVENT_NUMBER number)
{
	switch (number) {
	case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
		return "; no server waits there: start it first, with the same options";
	case DAT_CONNECTION_EVENT_UNREACHABLE:
	case DAT_CONNECTION_EVENT_TIMED_OUT:
		return "; no data plane answers there: check HOST, and `onesidectl show peers`";
	default:
		return "";
	}
}

bool
dat_event_is(const DAT_EVENT *event, DAT_EVENT_NUMBER wanted)
{
	if (event->event_number == wanted)
		return true;
	fprintf(stderr, "%s: expected %s, got %s%s\n", program_invocation_short_name, event_name(wanted),
		event_name(event->event_number), event_remedy(event->event_number));
	return false;
}

const char *
dat_dto_status_name(DAT_DTO_COMPLETION_STATUS status)
{
	static const char *const name[] = {
		"SUCCESS",          "FLUSHED",
		"LOCAL_LENGTH",     "LOCAL_EP",
		"LOCAL_PROTECTION", "BAD_RESPONSE",
		"REMOTE_ACCESS",    "REMOTE_RESPONDER",
		"TRANSPORT",        "RECEIVER_NOT_READY",
		"PARTIAL_PACKET",   "RMR_OPERATION_FAILED",
	};

	return (size_t)status < sizeof(name) / sizeof(name[0]) ? name[status] : "unknown";
}

uint32_t dat_spin_looks = 256;

#define CLOCK_LOOKS 1024u
#define ALONE_NS 1000u /* a sched_yield() that ran no other thread takes less */

void
dat_idle(uint32_t looks)
{
	static __thread bool wanted; /* the last yield ran another thread */
	uint64_t before;

	if (looks <= dat_spin_looks && !wanted)
		return;
	if (dat_spin_looks == 0) { /* yields on every poll */
		sched_yield();
		return;
	}
	before = now_ns();
	sched_yield();
	wanted = now_ns() - before > ALONE_NS;
}

bool
dat_dequeue_spin(DAT_EVD_HANDLE evd, DAT_EVENT *event, uint32_t seconds)
{
	uint64_t deadline = 0;

	for (uint32_t looks = 1;; looks++) {
		DAT_RETURN ret = dat_evd_dequeue(evd, event);

		if (ret == DAT_SUCCESS)
			return true;
		if (DAT_GET_TYPE(ret) != DAT_QUEUE_EMPTY)
			return dat_ok(ret, "dat_evd_dequeue");
		dat_idle(looks);
		if (looks % CLOCK_LOOKS == 0) {
			uint64_t now = now_ns();

			if (deadline == 0)
				deadline = now + seconds * 1000000000ull;
			if (now > deadline) {
				fprintf(stderr, "%s: no completion in %u seconds\n",
					program_invocation_short_name, seconds);
				return false;
			}
		}
	}
}

static void *
map_private_file(size_t size)
{
	int fd = memfd_create("oneside-perf", MFD_CLOEXEC);
	void *base = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, (off_t)size) == 0)
		base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	return base == MAP_FAILED ? NULL : base;
}

static void
free_memory(struct dat_memory *m)
{
	if (m->copied && m->base != NULL)
		munmap(m->base, m->size);
	else
		free(m->base);
	m->base = NULL;
}

static bool
create_memory(struct dat_adapter *a, size_t size, struct dat_memory *m, bool copied)
{
	DAT_REGION_DESCRIPTION region;
	DAT_VLEN registered_size;
	DAT_VADDR registered_address;

	memset(m, 0, sizeof(*m));
	m->size = size;
	m->copied = copied;
	m->base = copied ? map_private_file(size) : aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
	if (m->base == NULL) {
		fprintf(stderr, "%s: no memory for a buffer of %zu bytes\n", program_invocation_short_name,
			size);
		return false;
	}
	memset(m->base, 0, size);
	memset(&region, 0, sizeof(region));
	region.for_va = m->base;
	if (!dat_ok(dat_lmr_create(a->ia, DAT_MEM_TYPE_VIRTUAL, region, size, a->pz, DAT_MEM_PRIV_ALL_FLAG,
				   &m->lmr, &m->lmr_context, &m->rmr_context, &registered_size,
				   &registered_address),
		    "dat_lmr_create")) {
		free_memory(m);
		return false;
	}
	return true;
}

bool
dat_memory_create(struct dat_adapter *a, size_t size, struct dat_memory *m)
{
	return create_memory(a, size, m, false);
}

bool
dat_memory_create_copied(struct dat_adapter *a, size_t size, struct dat_memory *m)
{
	return create_memory(a, size, m, true);
}

void
dat_memory_free(struct dat_memory *m)
{
	if (m->lmr != DAT_HANDLE_NULL)
		dat_ok(dat_lmr_free(m->lmr), "dat_lmr_free");
	free_memory(m);
	memset(m, 0, sizeof(*m));
}

bool
dat_resolve(const char *host, struct sockaddr_storage *addr)
{
	/*
	 * Explicit hints: the defaults (AI_V4MAPPED, AI_ADDRCONFIG) depend on the kernel's interfaces, so
	 * 192.0.2.1 could become ::ffff:192.0.2.1.
	 */
	const struct addrinfo hints = {.ai_family = AF_UNSPEC};
	struct addrinfo *info;
	int error = getaddrinfo(host, NULL, &hints, &info);

	if (error != 0) {
		fprintf(stderr, "%s: host \"%s\": %s\n", program_invocation_short_name, host,
			gai_strerror(error));
		return false;
	}
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	return true;
}

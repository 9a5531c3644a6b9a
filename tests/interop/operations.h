/* SPDX-License-Identifier: BSD-3-Clause */
/* Each connection carries one operation, between our uDAPL program and our verbs program, which uses
 * unmodified libibverbs and librdmacm. The packaged programs never do these operations. Both sides share this
 * table: the starter names the operation in the private data of its request, and the responder answers with
 * its memory. */
#ifndef TESTS_INTEROP_OPERATIONS_H
#define TESTS_INTEROP_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OPERATIONS_PORT 7471
#define OPERATIONS_MEMORY (256 * 1024)
#define OPERATIONS_IMMEDIATE 0xa1b2c3d4
#define OPERATIONS_REQUEST 56      /* private data of a request that rdma_cm leaves to the user */
#define OPERATIONS_REPLY 64        /* private data of a reply from uDAPL */
#define OPERATIONS_VERBS_REPLY 196 /* private data of a reply from verbs */
#define OPERATIONS_REFUSAL 64      /* private data of a refusal, from uDAPL 2.0 on */
#define OPERATIONS_VERBS_REFUSAL 148
#define OPERATIONS_OVER 0xff /* in place of an operation: the responder may end */
#define OPERATIONS_ADD UINT64_C(0x0203050709fffefd)
#define OPERATIONS_SWAP UINT64_C(0x1122334455667788)

enum kind { SEND, SEND_IMM, SEND_INV, WRITE, WRITE_IMM, READ, FETCH_ADD, CMP_SWAP, REJECTED, NOBODY };
enum receives { NO_RECEIVE, RECEIVE, LATE_RECEIVE, SHORT_RECEIVE };
enum ending { FINE, NO_ACCESS, INVALID, TOO_LONG, NOT_READY };
enum starter { ANYONE, UDAPL, VERBS };

struct operation {
	const char *name;
	enum kind kind;
	uint32_t len, times; /* number of operations outstanding at once */
	uint64_t offset;     /* in the memory of both sides */
	enum receives receives;
	enum ending ending;
	enum starter starter;
	bool read_only, wrong_key;
};

/* The responder's memory, in network byte order, in the private data of the reply. */
struct offer {
	uint64_t address;
	uint32_t key, read_only_key;
};

static const struct operation operations[] = {
	{.name = "SEND", .kind = SEND, .len = 100, .times = 1, .receives = RECEIVE},
	{.name = "SEND of nothing", .kind = SEND, .len = 0, .times = 1, .receives = RECEIVE},
	{.name = "SEND of 1 byte", .kind = SEND, .len = 1, .times = 3, .receives = RECEIVE},
	{.name = "SEND of many packets", .kind = SEND, .len = 9999, .times = 3, .receives = RECEIVE},
	{.name = "SEND of just one packet", .kind = SEND, .len = 1024, .times = 2, .receives = RECEIVE},
	{.name = "SEND with immediate",
	 .kind = SEND_IMM,
	 .len = 100,
	 .times = 2,
	 .receives = RECEIVE,
	 .starter = VERBS},
	{.name = "SEND with immediate of many packets",
	 .kind = SEND_IMM,
	 .len = 5001,
	 .times = 2,
	 .receives = RECEIVE,
	 .starter = VERBS}, /* uDAPL 2.0 supports immediate data with WRITEs only */
	/* The responder binds a window and sends its key in a message. The starter WRITEs through the window,
	 * invalidates it, and must fail to WRITE again. */
	{.name = "SEND with invalidate", .kind = SEND_INV, .len = 100, .times = 1, .receives = RECEIVE},
	{.name = "WRITE", .kind = WRITE, .len = 100, .times = 1},
	{.name = "WRITE of nothing", .kind = WRITE, .len = 0, .times = 1},
	{.name = "WRITE at an odd place", .kind = WRITE, .len = 4097, .times = 5, .offset = 3},
	{.name = "WRITE with immediate", .kind = WRITE_IMM, .len = 100, .times = 1, .receives = RECEIVE},
	{.name = "WRITE with immediate of nothing",
	 .kind = WRITE_IMM,
	 .len = 0,
	 .times = 1,
	 .receives = RECEIVE},
	{.name = "WRITE with immediate of many packets",
	 .kind = WRITE_IMM,
	 .len = 7003,
	 .times = 3,
	 .receives = RECEIVE},
	{.name = "READ", .kind = READ, .len = 100, .times = 1},
	{.name = "READ of nothing", .kind = READ, .len = 0, .times = 1},
	{.name = "READ at an odd place", .kind = READ, .len = 4097, .times = 1, .offset = 3},
	{.name = "READ, several outstanding", .kind = READ, .len = 3001, .times = 16, .offset = 5},
	{.name = "SEND before the receive", .kind = SEND, .len = 3000, .times = 2, .receives = LATE_RECEIVE},
	/* The responder sets the limit of retries. A port of oneside has none unless configured. */
	{.name = "SEND without a receive", .kind = SEND, .len = 100, .times = 2, .ending = NOT_READY},
	{.name = "FETCH-ADD", .kind = FETCH_ADD, .len = 8, .times = 1, .offset = 64},
	{.name = "FETCH-ADD, several outstanding", .kind = FETCH_ADD, .len = 8, .times = 16, .offset = 4096},
	{.name = "CMP-SWAP", .kind = CMP_SWAP, .len = 8, .times = 1, .offset = 64},
	{.name = "CMP-SWAP that finds another value", .kind = CMP_SWAP, .len = 8, .times = 3, .offset = 8},
	{.name = "FETCH-ADD at an odd place",
	 .kind = FETCH_ADD,
	 .len = 8,
	 .times = 1,
	 .offset = 4,
	 .ending = INVALID,
	 .starter = UDAPL}, /* Soft-RoCE does not let a program post this operation */
	{.name = "FETCH-ADD without the right",
	 .kind = FETCH_ADD,
	 .len = 8,
	 .times = 1,
	 .read_only = true,
	 .ending = NO_ACCESS},
	{.name = "CMP-SWAP with a wrong key",
	 .kind = CMP_SWAP,
	 .len = 8,
	 .times = 2,
	 .wrong_key = true,
	 .ending = NO_ACCESS},
	{.name = "SEND that is too long",
	 .kind = SEND,
	 .len = 100,
	 .times = 1,
	 .receives = SHORT_RECEIVE,
	 .ending = TOO_LONG},
	{.name = "WRITE without the right",
	 .kind = WRITE,
	 .len = 100,
	 .times = 1,
	 .read_only = true,
	 .ending = NO_ACCESS},
	{.name = "WRITE with a wrong key, and more behind it",
	 .kind = WRITE,
	 .len = 100,
	 .times = 4,
	 .wrong_key = true,
	 .ending = NO_ACCESS},
	{.name = "WRITE past the end",
	 .kind = WRITE,
	 .len = 100,
	 .times = 1,
	 .offset = OPERATIONS_MEMORY - 99,
	 .ending = NO_ACCESS},
	{.name = "long WRITE past the end",
	 .kind = WRITE,
	 .len = 5000,
	 .times = 1,
	 .offset = OPERATIONS_MEMORY - 4999,
	 .ending = NO_ACCESS},
	{.name = "READ with a wrong key",
	 .kind = READ,
	 .len = 100,
	 .times = 1,
	 .wrong_key = true,
	 .ending = NO_ACCESS},
	{.name = "READ past the end",
	 .kind = READ,
	 .len = 5000,
	 .times = 1,
	 .offset = OPERATIONS_MEMORY - 4999,
	 .ending = NO_ACCESS},
	{.name = "a request that is rejected", .kind = REJECTED},
	{.name = "a request that nobody listens for", .kind = NOBODY},
};

#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* Contents of the starter's and of the responder's memory, which differ at every offset. */
static inline uint8_t
starter_byte(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

static inline uint8_t
responder_byte(size_t i)
{
	return (uint8_t)(starter_byte(i) ^ 0x5a);
}

static inline uint8_t
request_byte(size_t i)
{
	return (uint8_t)(i * 3 + 1);
}

/* Contents of a reply's private data after the offer. */
static inline uint8_t
reply_byte(size_t i)
{
	return (uint8_t)~request_byte(i);
}

/* Contents of a refusal's private data after the first byte. */
static inline uint8_t
refusal_byte(size_t i)
{
	return (uint8_t)(i * 5 + 9);
}

static inline bool
operation_is_atomic(const struct operation *op)
{
	return op->kind == FETCH_ADD || op->kind == CMP_SWAP;
}

/* Is the operation part of the run? uDAPL 1.2 supports fewer operations than 2.0. Without a name, the
 * operation that needs a port with a limit of RNR retries is left out. */
static inline bool
operation_wanted(const struct operation *op, enum starter starter, bool dat2, const char *name)
{
	if (op->starter != ANYONE && op->starter != starter)
		return false;
	if (!dat2 && (operation_is_atomic(op) ||
		      (starter == UDAPL && (op->kind == SEND_INV || op->kind == WRITE_IMM))))
		return false;
	if (name)
		return !strncmp(op->name, name, strlen(name));
	return op->ending != NOT_READY || starter == UDAPL;
}

/* Joins the words of a name from `argv`; returns NULL if there is none. */
static inline const char *
operation_name(char **argv)
{
	static char name[256];

	for (; *argv; argv++) {
		if (name[0])
			strncat(name, " ", sizeof(name) - strlen(name) - 1);
		strncat(name, *argv, sizeof(name) - strlen(name) - 1);
	}
	return name[0] ? name : NULL;
}

/* True if the starter's error breaks the connection at the responder, too, because of how the responder
 * refuses. */
static inline bool
operation_breaks_responder(const struct operation *op)
{
	return op->kind == SEND_INV || (op->ending != FINE && op->ending != NOT_READY);
}

/* The eight bytes of an atomic operation's target, before the first operation. */
static inline uint64_t
first_value(const struct operation *op)
{
	uint8_t bytes[8];
	uint64_t value;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = responder_byte(op->offset + i);
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* The target's value after `times` operations; each operation returns the value before it. */
static inline uint64_t
value_after(const struct operation *op, uint32_t times)
{
	if (op->kind == FETCH_ADD)
		return first_value(op) + times * OPERATIONS_ADD;
	return times ? OPERATIONS_SWAP : first_value(op);
}

static inline bool
operation_writes(const struct operation *op)
{
	return (op->kind == WRITE || op->kind == WRITE_IMM || op->kind == SEND_INV) && op->ending == FINE;
}

/* The responder's memory at `i` after the operation. */
static inline uint8_t
expected_byte(const struct operation *op, size_t i)
{
	if (operation_is_atomic(op) && op->ending == FINE && i >= op->offset && i < op->offset + 8) {
		uint64_t value = value_after(op, op->times);

		return ((uint8_t *)&value)[i - op->offset];
	}
	if (operation_writes(op) && i >= op->offset && i < op->offset + (uint64_t)op->len * op->times)
		return starter_byte(i);
	return responder_byte(i);
}

/* The starter's memory at `i` after the operation; READs and atomic operations place their results there. */
static inline uint8_t
expected_starter_byte(const struct operation *op, size_t i)
{
	bool within = op->ending == FINE && i >= op->offset && i < op->offset + (uint64_t)op->len * op->times;

	if (within && op->kind == READ)
		return responder_byte(i);
	if (within && operation_is_atomic(op)) {
		uint64_t value = value_after(op, (uint32_t)((i - op->offset) / 8));

		return ((uint8_t *)&value)[(i - op->offset) % 8];
	}
	return starter_byte(i);
}

#endif

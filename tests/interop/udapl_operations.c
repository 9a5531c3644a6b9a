/* SPDX-License-Identifier: BSD-3-Clause */
/* The uDAPL side of operations.h:   udapl-operations serve | connect ADDRESS [NAME...] */
#include "operations.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "side.h"

#ifdef SIDE_DAT2
#define DAT2 true
#else
#define DAT2 false
#endif

static struct buffer memory, read_only, inbox;

static void
open_buffers(struct side *s)
{
	side_open(s, 4, 4);
	buffer_make(s, &memory, OPERATIONS_MEMORY, SIDE_ALL_RIGHTS);
	buffer_make(s, &read_only, OPERATIONS_MEMORY,
		    DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG |
			    DAT_MEM_PRIV_REMOTE_READ_FLAG);
	buffer_make(s, &inbox, OPERATIONS_MEMORY,
		    DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
}

/* ---- the responder ---- */

static void
post_receives(struct side *s, const struct operation *op)
{
	for (uint32_t i = 0; i < op->times; i++)
		side_post_recv(s, &inbox, (size_t)i * op->len,
			       op->receives == SHORT_RECEIVE ? op->len - 1 : op->len, i);
}

static void
take_messages(struct side *s, const struct operation *op)
{
	bool brings_immediate = DAT2 && (op->kind == SEND_IMM || op->kind == WRITE_IMM);
	DAT_DTO_COMPLETION_EVENT_DATA dto;
	uint32_t immediate;

	for (uint32_t i = 0; i < op->times; i++) {
		bool brought = side_completion_immediate(s->recv, &dto, &immediate);

		if (op->receives == SHORT_RECEIVE) {
			if (dto.status != DAT_DTO_ERR_LOCAL_LENGTH)
				side_die("%s: the receive ends with status %d", op->name, dto.status);
			return;
		}
		if (dto.status != DAT_DTO_SUCCESS || dto.user_cookie.as_64 != i)
			side_die("%s: receive %u ends with status %d", op->name, i, dto.status);
		if (dto.transfered_length != op->len)
			side_die("%s: %llu bytes came", op->name, (unsigned long long)dto.transfered_length);
		if (brought != brings_immediate || (brought && be32toh(immediate) != OPERATIONS_IMMEDIATE))
			side_die("%s: receive %u brings immediate data %d 0x%x", op->name, i, brought,
				 immediate);
	}
	if (op->kind == WRITE_IMM)
		return;
	for (size_t i = 0; i < (size_t)op->len * op->times; i++)
		if (inbox.data[i] != starter_byte(op->offset + i))
			side_die("%s: byte %zu of the messages is wrong", op->name, i);
}

/* Binds a window for the peer's WRITEs, and sends its key in a message. */
static DAT_RMR_HANDLE
offer_window(struct side *s)
{
	DAT_RMR_HANDLE window;
	uint32_t key;

	MUST(dat_rmr_create(s->pz, &window));
	key = htobe32(side_bind(s, window, &memory));
	memcpy(inbox.data + OPERATIONS_MEMORY - sizeof(key), &key, sizeof(key));
	side_post_send(s, &inbox, OPERATIONS_MEMORY - sizeof(key), sizeof(key), 2);
	side_complete(s, 2);
	return window;
}

static void
respond(struct side *s, const struct operation *op)
{
	struct offer offer = {htobe64((uintptr_t)(op->read_only ? read_only.data : memory.data)),
			      htobe32(memory.rmr_context), htobe32(read_only.rmr_context)};
	DAT_RMR_HANDLE window = DAT_HANDLE_NULL;
	uint8_t reply[OPERATIONS_REPLY];

	memcpy(reply, &offer, sizeof(offer));
	for (size_t i = sizeof(offer); i < sizeof(reply); i++)
		reply[i] = reply_byte(i);
	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		memory.data[i] = read_only.data[i] = responder_byte(i);
	memset(inbox.data, 0, OPERATIONS_MEMORY);
	if (op->receives == RECEIVE || op->receives == SHORT_RECEIVE)
		post_receives(s, op);
	side_accept(s, reply, sizeof(reply));
	side_established(s);
	if (op->kind == SEND_INV)
		window = offer_window(s);
	if (op->receives == LATE_RECEIVE) {
		nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
		post_receives(s, op);
	}
	if (op->receives != NO_RECEIVE)
		take_messages(s, op);
	side_expect_end(s,
			operation_breaks_responder(op) ? DAT_CONNECTION_EVENT_BROKEN
						       : DAT_CONNECTION_EVENT_DISCONNECTED,
			op->name);
	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		if (memory.data[i] != expected_byte(op, i) || read_only.data[i] != responder_byte(i))
			side_die("%s: byte %zu of the memory is wrong", op->name, i);
	if (window != DAT_HANDLE_NULL)
		MUST(dat_rmr_free(window));
	printf("%s\n", op->name);
}

static void
serve(struct side *s)
{
	DAT_CR_PARAM request;
	const uint8_t *data;
	struct side work;

	side_listen(s, OPERATIONS_PORT);
	for (;;) {
		side_request(s);
		MUST(dat_cr_query(s->request_handle, DAT_CR_FIELD_ALL, &request));
		data = request.private_data;
		if (request.private_data_size < OPERATIONS_REQUEST)
			side_die("private data of %d bytes", request.private_data_size);
		for (size_t i = 1; i < OPERATIONS_REQUEST; i++)
			if (data[i] != request_byte(i))
				side_die("byte %zu of the private data is wrong", i);
		if (data[0] == OPERATIONS_OVER) {
			side_reject(s, NULL, 0);
			return;
		}
		if (data[0] >= OPERATIONS)
			side_die("operation %u", data[0]);
		if (operations[data[0]].kind == REJECTED) {
			uint8_t refusal[OPERATIONS_REFUSAL];

			for (size_t i = 0; i < sizeof(refusal); i++)
				refusal[i] = refusal_byte(i);
			side_reject(s, refusal, sizeof(refusal));
			printf("%s\n", operations[data[0]].name);
			continue;
		}
		const struct operation *op = &operations[data[0]];

		side_open_beside(&work, s, 4, 4);
		respond(&work, op);
		side_close_beside(&work);
	}
}

/* ---- the starter ---- */

static void
fill_request(uint8_t *request, uint8_t number)
{
	request[0] = number;
	for (size_t i = 1; i < OPERATIONS_REQUEST; i++)
		request[i] = request_byte(i);
}

/* Expects the refusal's event and no further one; with uDAPL 2.0 the event holds the whole private data that
 * the peer sent. */
static void
expect_refusal(struct side *s, const char *name, DAT_EVENT_NUMBER wanted, bool spoken)
{
	const DAT_CONNECTION_EVENT_DATA *data;
	const uint8_t *refusal;
	DAT_EVENT event;
	DAT_EVENT_NUMBER number = side_connection_event(s, &event);

	if (number != wanted)
		side_die("%s: connection event 0x%x instead of 0x%x", name, number, wanted);
	data = &event.event_data.connect_event_data;
	refusal = data->private_data;
	if (DAT2 && spoken && data->private_data_size < OPERATIONS_REFUSAL)
		side_die("%s: a refusal with %d bytes", name, data->private_data_size);
	if (!DAT2 && data->private_data_size != 0)
		side_die("%s: a refusal with %d bytes in uDAPL 1.2", name, data->private_data_size);
	for (size_t i = 0; i < (size_t)data->private_data_size; i++)
		if (refusal[i] != (spoken ? refusal_byte(i) : 0))
			side_die("%s: byte %zu of the refusal is wrong", name, i);
	side_expect_state(s, DAT_EP_STATE_DISCONNECTED, name);
}

static DAT_DTO_COMPLETION_STATUS
status_of(enum ending ending)
{
	switch (ending) {
	case FINE:
		return DAT_DTO_SUCCESS;
	case NO_ACCESS:
		return DAT_DTO_ERR_REMOTE_ACCESS;
	case TOO_LONG:
	case INVALID:
		return DAT_DTO_ERR_REMOTE_RESPONDER;
	default:
		return DAT_DTO_ERR_RECEIVER_NOT_READY;
	}
}

static void
post(struct side *s, const struct operation *op, const struct target *target, uint32_t i)
{
	size_t step = (size_t)i * op->len;
	size_t local = (op->ending == NO_ACCESS ? 0 : op->offset) + step;

	switch (op->kind) {
	case SEND:
		side_post_send(s, &memory, local, op->len, i);
		break;
	case WRITE:
		side_post_write(s, &memory, local, op->len, i, target, op->offset + step);
		break;
	case READ:
		side_post_read(s, &memory, local, op->len, i, target, op->offset + step);
		break;
#ifdef SIDE_DAT2
	case WRITE_IMM:
		side_post_write_imm(s, &memory, local, op->len, i, target, op->offset + step,
				    htobe32(OPERATIONS_IMMEDIATE));
		break;
	case FETCH_ADD:
		side_post_fetch_add(s, &memory, local, i, target, op->offset, OPERATIONS_ADD);
		break;
	case CMP_SWAP:
		side_post_cmp_swap(s, &memory, local, i, target, op->offset, first_value(op),
				   OPERATIONS_SWAP);
		break;
	case SEND_INV:
		side_post_send_inv(s, &memory, local, op->len, i, target->key);
		break;
#endif
	default:
		side_die("%s cannot be posted", op->name);
	}
}

static void
expect_status(struct side *s, const struct operation *op, uint64_t cookie, DAT_DTO_COMPLETION_STATUS wanted)
{
	DAT_DTO_COMPLETION_EVENT_DATA dto;

	side_completion(s->request, &dto);
	if (dto.user_cookie.as_64 != cookie || dto.status != wanted)
		side_die("%s: completion %llu with status %d instead of %llu with %d", op->name,
			 (unsigned long long)dto.user_cookie.as_64, dto.status, (unsigned long long)cookie,
			 wanted);
}

static void
drive(struct side *s, const struct operation *op, const struct offer *offer)
{
	uint32_t key =
		be32toh(op->read_only ? offer->read_only_key : offer->key) ^ (op->wrong_key ? 0x5500 : 0);
	struct target target = {be64toh(offer->address), key};

	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		memory.data[i] = starter_byte(i);
	for (uint32_t i = 0; i < op->times; i++)
		post(s, op, &target, i);
	/* Operations after the failing one are flushed. */
	for (uint32_t i = 0; i < op->times; i++)
		expect_status(s, op, i,
			      i && op->ending != FINE ? DAT_DTO_ERR_FLUSHED : status_of(op->ending));
	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		if (memory.data[i] != expected_starter_byte(op, i))
			side_die("%s: byte %zu here is wrong", op->name, i);
	if (op->ending == FINE)
		side_disconnect(s);
	else
		side_expect_end(s, DAT_CONNECTION_EVENT_BROKEN, op->name);
}

/* WRITEs through a window, which the second operation invalidates. */
static void
drive_window(struct side *s, const struct operation *op, const struct offer *offer)
{
	const struct operation write = {.name = op->name, .kind = WRITE, .len = op->len};
	struct target target = {.address = be64toh(offer->address)};
	uint32_t key;

	if (side_message(s, NULL) != sizeof(key))
		side_die("%s: the window's key is not that long", op->name);
	memcpy(&key, inbox.data, sizeof(key));
	target.key = be32toh(key);
	for (size_t i = 0; i < OPERATIONS_MEMORY; i++)
		memory.data[i] = starter_byte(i);
	post(s, &write, &target, 0);
	side_complete(s, 0);
	post(s, op, &target, 0);
	side_complete(s, 0);
	post(s, &write, &target, 0);
	expect_status(s, op, 0, DAT_DTO_ERR_REMOTE_ACCESS);
	side_expect_end(s, DAT_CONNECTION_EVENT_BROKEN, op->name);
}

static void
check_reply(const struct operation *op, const DAT_CONNECTION_EVENT_DATA *data)
{
	const uint8_t *reply = data->private_data;

	if (data->private_data_size < OPERATIONS_REPLY || data->private_data_size > OPERATIONS_VERBS_REPLY)
		side_die("%s: a reply of %d bytes", op->name, data->private_data_size);
	for (size_t i = sizeof(struct offer); i < (size_t)data->private_data_size; i++)
		if (reply[i] != reply_byte(i))
			side_die("%s: byte %zu of the reply is wrong", op->name, i);
}

static void
post_inbox(struct side *s, void *arg)
{
	(void)arg;
	side_post_recv(s, &inbox, 0, OPERATIONS_MEMORY, 0);
}

static void
start(struct side *first, const char *address, uint8_t number)
{
	const struct operation *op = &operations[number];
	uint8_t request[OPERATIONS_REQUEST];
	DAT_EVENT event;
	struct side s;

	fill_request(request, number);
	side_open_beside(&s, first, 4, 4);
	if (op->kind == REJECTED || op->kind == NOBODY) {
		side_connect(&s, address, OPERATIONS_PORT + (op->kind == NOBODY), request, sizeof(request));
		expect_refusal(&s, op->name,
			       op->kind == NOBODY ? DAT_CONNECTION_EVENT_NON_PEER_REJECTED
						  : DAT_CONNECTION_EVENT_PEER_REJECTED,
			       op->kind == REJECTED);
	} else {
		struct offer offer;

		side_connect_until(&s, address, OPERATIONS_PORT, request, sizeof(request),
				   op->kind == SEND_INV ? post_inbox : NULL, NULL, &event);
		check_reply(op, &event.event_data.connect_event_data);
		memcpy(&offer, event.event_data.connect_event_data.private_data, sizeof(offer));
		if (op->kind == SEND_INV)
			drive_window(&s, op, &offer);
		else
			drive(&s, op, &offer);
	}
	printf("%s\n", op->name);
	fflush(stdout);
	side_close_beside(&s);
}

int
main(int argc, char **argv)
{
	unsigned done = 0;
	struct side s;

	if (argc == 2 && !strcmp(argv[1], "serve")) {
		open_buffers(&s);
		serve(&s);
		printf("all that was asked for\n");
	} else if (argc >= 3 && !strcmp(argv[1], "connect")) {
		const char *name = operation_name(argv + 3);
		uint8_t request[OPERATIONS_REQUEST];

		open_buffers(&s);
		for (uint8_t i = 0; i < OPERATIONS; i++) {
			if (!operation_wanted(&operations[i], UDAPL, DAT2, name))
				continue;
			/* A refusal does not say whether the peer does not listen yet: the first operation
			 * must be another, which waits for the peer. */
			if (!done && (operations[i].kind == REJECTED || operations[i].kind == NOBODY))
				start(&s, argv[2], 0);
			start(&s, argv[2], i);
			done++;
		}
		fill_request(request, OPERATIONS_OVER);
		side_connect(&s, argv[2], OPERATIONS_PORT, request, sizeof(request));
		expect_refusal(&s, "the end", DAT_CONNECTION_EVENT_PEER_REJECTED, false);
		if (!done)
			side_die("no operation has that name");
		printf("%u operations\n", done);
	} else {
		fprintf(stderr, "usage: %s serve | connect ADDRESS [NAME...]\n", argv[0]);
		return 2;
	}
	side_close(&s);
	return 0;
}

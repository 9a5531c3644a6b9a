/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds on a connection, begun by either end. A block is written into the peer's area, read back and
 * compared, and announced by a message that follows both. The peer checks the block and answers; until then
 * the area does not change. Hence no end ever has more than one message and one answer to receive, and no
 * sender waits for a receive. */
#include "dat_link.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_MIN 4096u
#define MESSAGE 64u
#define RECEIVES 2u
#define WRITES 3u
#define GONE 0xEE

enum kind { KIND_WRITE, KIND_READ, KIND_NOTE, KIND_ANSWER, KIND_RECEIVE };

enum { MESSAGE_NOTE, MESSAGE_ANSWER };

struct message {
	uint32_t kind, stream, sequence, at, len;
};

/* Offsets in a link's memory. */
#define AREA(link) 0u
#define MIRROR(link) ((link)->size)
#define BACK(link) (2 * (link)->size)
#define MESSAGES(link) (3 * (link)->size)
#define OUT_NOTE(link) MESSAGES(link)
#define OUT_ANSWER(link) (MESSAGES(link) + MESSAGE)
#define INBOX(link, n) (MESSAGES(link) + (2 + (n)) * MESSAGE)
#define WHOLE(link) (MESSAGES(link) + (2 + RECEIVES) * MESSAGE)

bool
chaos_dat_ok(DAT_RETURN ret, const char *what)
{
	const char *major = "?", *minor = "?";

	if (ret == DAT_SUCCESS)
		return true;
	dat_strerror(ret, &major, &minor);
	CHAOS_CHECK(!chaos_plane_lives(), "%s: %s %s", what, major, minor);
	return false;
}

static DAT_LMR_TRIPLET
piece(const struct link *link, uint32_t at, uint32_t len)
{
	return (DAT_LMR_TRIPLET){.lmr_context = link->context,
				 .virtual_address = (DAT_VADDR)(uintptr_t)(link->memory + at),
				 .segment_length = len};
}

static DAT_DTO_COOKIE
cookie(const struct link *link, enum kind kind, uint32_t n)
{
	return (DAT_DTO_COOKIE){.as_64 = (uint64_t)link->use << 32 | n << 24 | (uint32_t)kind << 16 |
					 link->index << 8};
}

/* Counts a post. A refused post means that the connection is ending, which an event will report. */
static void
posted(struct link *link, DAT_RETURN ret, uint32_t completions, const char *what)
{
	if (ret == DAT_SUCCESS) {
		link->outstanding += completions;
		return;
	}
	CHAOS_CHECK(DAT_GET_TYPE(ret) == DAT_INVALID_STATE || !chaos_plane_lives(), "%s: %#x", what, ret);
	link->flushed = true;
}

/* ---- making and freeing ---- */

static bool
make_memory(struct link *link, struct chaos_ia *ia)
{
	DAT_REGION_DESCRIPTION region;
	DAT_RMR_CONTEXT remote;
	DAT_VLEN registered;
	DAT_VADDR address;

	link->size = SIZE_MIN << (chaos_control ? 4 : chaos_number(5));
	link->memory = malloc(WHOLE(link));
	memset(link->memory, 0, WHOLE(link));
	region.for_va = link->memory;
	chaos_enter(CHAOS_REGISTER);
	if (!chaos_dat_ok(dat_lmr_create(ia->ia, DAT_MEM_TYPE_VIRTUAL, region, WHOLE(link), ia->pz,
					 DAT_MEM_PRIV_ALL_FLAG, &link->lmr, &link->context, &remote,
					 &registered, &address),
			  "dat_lmr_create"))
		return false;
	link->own = (struct link_offer){
		.address = (uintptr_t)link->memory, .context = remote, .size = link->size};
	return true;
}

static void
post_receive(struct link *link, uint32_t n)
{
	DAT_LMR_TRIPLET iov = piece(link, INBOX(link, n), MESSAGE);

	posted(link,
	       dat_ep_post_recv(link->ep, 1, &iov, cookie(link, KIND_RECEIVE, n),
				DAT_COMPLETION_DEFAULT_FLAG),
	       1, "dat_ep_post_recv");
}

bool
link_make(struct link *link, struct chaos_ia *ia, bool client)
{
	static uint32_t uses;
	struct chaos_lives lives = link->lives;
	uint32_t index = link->index;

	memset(link, 0, sizeof(*link));
	link->lives = lives;
	link->index = index;
	link->client = client;
	link->use = ++uses;
	if (!make_memory(link, ia) ||
	    !chaos_dat_ok(dat_ep_create(ia->ia, ia->pz, ia->recv, ia->request, ia->conn, NULL, &link->ep),
			  "dat_ep_create")) {
		link_forget(link);
		return false;
	}
	for (uint32_t n = 0; n < RECEIVES; n++)
		post_receive(link, n);
	return true;
}

void
link_offer(struct link *link, struct link_offer *offer)
{
	*offer = link->own;
	offer->slot = chaos_self;
	offer->to = link->lives.slot;
	offer->stream = (uint32_t)chaos_number(UINT32_MAX);
	offer->plane = link->lives.own;
	offer->life = atomic_load(&chaos_slot()->life);
	offer->killed = atomic_load(&chaos_slot()->killed);
	link->own = *offer;
}

void
link_take(struct link *link, const struct link_offer *offer)
{
	link->peer = *offer;
	chaos_lives_take(&link->lives, &(struct chaos_lives){.slot = offer->slot,
							     .plane = offer->plane,
							     .life = offer->life,
							     .killed = offer->killed});
}

void
link_forget(struct link *link)
{
	memset(link->memory, GONE, WHOLE(link));
	free(link->memory);
	link->memory = NULL;
	link->state = LINK_FREE;
}

/* After its endpoint has been freed, nobody may write to the memory any more. */
void
link_free(struct link *link)
{
	if (link->memory == NULL)
		return;
	chaos_enter(CHAOS_END);
	chaos_dat_ok(dat_ep_free(link->ep), "dat_ep_free");
	memset(link->memory, GONE, WHOLE(link));
	usleep((useconds_t)chaos_number(500));
	for (uint32_t at = 0; at < WHOLE(link) && chaos_plane_lives(); at++)
		CHAOS_CHECK(((volatile uint8_t *)link->memory)[at] == GONE,
			    "byte %u was changed after the endpoint was freed", at);
	chaos_dat_ok(dat_lmr_free(link->lmr), "dat_lmr_free");
	free(link->memory);
	link->memory = NULL;
	link->state = LINK_FREE;
}

/* ---- rounds ---- */

static void
send_message(struct link *link, enum kind kind, const struct message *message)
{
	uint32_t at = kind == KIND_NOTE ? OUT_NOTE(link) : OUT_ANSWER(link);
	DAT_LMR_TRIPLET iov = piece(link, at, MESSAGE);

	memcpy(link->memory + at, message, sizeof(*message));
	posted(link,
	       dat_ep_post_send(link->ep, 1, &iov, cookie(link, kind, 0),
				kind == KIND_NOTE ? DAT_COMPLETION_BARRIER_FENCE_FLAG
						  : DAT_COMPLETION_DEFAULT_FLAG),
	       1, "dat_ep_post_send");
}

static void
write_pieces(struct link *link)
{
	for (uint32_t from = 0, n, w = 0; from < link->len; from += n, w++) {
		DAT_RMR_TRIPLET remote = {.rmr_context = link->peer.context,
					  .target_address = link->peer.address + link->at + from};
		DAT_LMR_TRIPLET iov;

		n = w == WRITES - 1 ? link->len - from : 1 + (uint32_t)chaos_number(link->len - from);
		remote.segment_length = n;
		iov = piece(link, MIRROR(link) + link->at + from, n);
		posted(link,
		       dat_ep_post_rdma_write(link->ep, 1, &iov, cookie(link, KIND_WRITE, w), &remote,
					      DAT_COMPLETION_SUPPRESS_FLAG),
		       0, "dat_ep_post_rdma_write");
	}
}

static void
begin_round(struct link *link)
{
	uint32_t size = link->size < link->peer.size ? link->size : link->peer.size;
	DAT_RMR_TRIPLET remote = {.rmr_context = link->peer.context};
	struct message note = {.kind = MESSAGE_NOTE, .stream = link->own.stream};
	DAT_LMR_TRIPLET iov;

	link->len = CHAOS_BLOCK_MIN + (uint32_t)chaos_number(chaos_number(2) ? 64 : size - CHAOS_BLOCK_MIN);
	link->at = (uint32_t)chaos_number(size - link->len);
	note.sequence = ++link->sequence;
	note.at = link->at;
	note.len = link->len;
	chaos_block_fill(link->memory + MIRROR(link) + link->at, link->len,
			 (struct chaos_origin){chaos_self, link->own.stream, link->sequence});
	chaos_enter(CHAOS_TRANSFER);
	link->reading = link->noting = link->unanswered = 1;
	write_pieces(link);
	iov = piece(link, BACK(link), link->len);
	remote.target_address = link->peer.address + link->at;
	remote.segment_length = link->len;
	posted(link,
	       dat_ep_post_rdma_read(link->ep, 1, &iov, cookie(link, KIND_READ, 0), &remote,
				     DAT_COMPLETION_DEFAULT_FLAG),
	       1, "dat_ep_post_rdma_read");
	send_message(link, KIND_NOTE, &note);
}

static void
compare(struct link *link, const uint8_t *block, uint32_t len, uint32_t slot, uint32_t stream,
	uint32_t sequence, const char *what)
{
	const char *wrong = chaos_block_wrong(block, len, (struct chaos_origin){slot, stream, sequence});

	CHAOS_CHECK(wrong == NULL, "block %u of %u bytes %s slot %u: %s", sequence, len, what,
		    link->lives.slot, wrong);
}

static void
answer(struct link *link)
{
	struct message message = {
		.kind = MESSAGE_ANSWER, .stream = link->peer.stream, .sequence = link->answer_due};

	if (link->answering || link->answer_due == 0)
		return;
	link->answering = 1;
	link->answer_due = 0;
	send_message(link, KIND_ANSWER, &message);
}

static void
received(struct link *link, uint32_t n, uint64_t len)
{
	struct message message;

	CHAOS_CHECK(len == MESSAGE, "a message of %lu bytes", (unsigned long)len);
	memcpy(&message, link->memory + INBOX(link, n), sizeof(message));
	post_receive(link, n);
	if (message.kind == MESSAGE_ANSWER) {
		CHAOS_CHECK(link->unanswered && message.stream == link->own.stream &&
				    message.sequence == link->sequence,
			    "an answer to round %u, this is %u", message.sequence, link->sequence);
		link->unanswered = 0;
		return;
	}
	CHAOS_CHECK(message.kind == MESSAGE_NOTE && message.stream == link->peer.stream &&
			    message.len >= CHAOS_BLOCK_MIN && message.at <= link->size &&
			    message.len <= link->size - message.at,
		    "a wrong message from slot %u", link->lives.slot);
	compare(link, link->memory + AREA(link) + message.at, message.len, link->lives.slot, message.stream,
		message.sequence, "written by");
	atomic_fetch_add(&chaos_slot()->received, 1);
	link->answer_due = message.sequence;
	answer(link);
}

/* The end of the connection follows flushed work, and is judged by itself. */
static void
failed(struct link *link, const DAT_DTO_COMPLETION_EVENT_DATA *dto)
{
	CHAOS_CHECK(dto->status == DAT_DTO_ERR_FLUSHED || chaos_excused(&link->lives),
		    "work to slot %u failed with status %d, and nothing has happened to it", link->lives.slot,
		    dto->status);
	link->flushed = true;
}

void
link_completed(struct link *link, const DAT_DTO_COMPLETION_EVENT_DATA *dto)
{
	uint64_t value = dto->user_cookie.as_64;

	CHAOS_CHECK(link->state != LINK_FREE && value >> 32 == link->use && dto->ep_handle == link->ep,
		    "a completion (status %d) of work that is over", dto->status);
	CHAOS_CHECK(link->state != LINK_ENDED || dto->status == DAT_DTO_ERR_FLUSHED,
		    "a completion of status %d after the end of its connection", dto->status);
	link->outstanding -= (value >> 16 & 0xff) != KIND_WRITE;
	if (dto->status != DAT_DTO_SUCCESS) {
		failed(link, dto);
		return;
	}
	switch ((enum kind)(value >> 16 & 0xff)) {
	case KIND_READ:
		compare(link, link->memory + BACK(link), link->len, chaos_self, link->own.stream,
			link->sequence, "read back from");
		link->reading = 0;
		atomic_fetch_add(&chaos_slot()->blocks, 1);
		break;
	case KIND_NOTE:
		link->noting = 0;
		break;
	case KIND_ANSWER:
		link->answering = 0;
		answer(link);
		break;
	case KIND_RECEIVE:
		received(link, value >> 24 & 0xff, dto->transfered_length);
		break;
	default:
		CHAOS_CHECK(false, "a completion that was suppressed");
	}
}

/* ---- the end ---- */

bool
link_is_over(const struct link *link)
{
	return link->state == LINK_ENDED && link->outstanding == 0;
}

static void
established(struct link *link, const DAT_CONNECTION_EVENT_DATA *data)
{
	if (link->client) {
		CHAOS_CHECK(data->private_data_size == sizeof(link->peer), "private data of %d bytes",
			    data->private_data_size);
		memcpy(&link->peer, data->private_data, sizeof(link->peer));
		CHAOS_CHECK(link->peer.slot == link->lives.slot, "slot %u has answered instead of slot %u",
			    link->peer.slot, link->lives.slot);
	}
	link->state = LINK_OPEN;
	atomic_fetch_add(&chaos_slot()->connected, 1);
}

/* May the peer disconnect at any time, or be too busy to accept? */
static bool
is_free_to_end(const struct link *link)
{
	return link->leaving || link->lives.slot >= CHAOS_CONTROLS;
}

static void
ended(struct link *link, DAT_EVENT_NUMBER number)
{
	bool excused = chaos_excused(&link->lives) || link->leaving;

	switch (number) {
	case DAT_CONNECTION_EVENT_DISCONNECTED:
	case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
	case DAT_CONNECTION_EVENT_PEER_REJECTED:
		excused |= is_free_to_end(link);
		break;
	case DAT_CONNECTION_EVENT_TIMED_OUT:
	case DAT_CONNECTION_EVENT_UNREACHABLE:
		excused |= link->paused != atomic_load(&chaos_board->slot[link->lives.slot].paused);
		break;
	case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
	case DAT_CONNECTION_EVENT_BROKEN:
		break;
	default:
		CHAOS_CHECK(false, "connection event %#x", number);
	}
	CHAOS_CHECK(excused,
		    "the connection with slot %u ended with event %#x, and nothing has happened to it",
		    link->lives.slot, number);
	atomic_fetch_add(&chaos_slot()->excused, !link->leaving);
	link->state = LINK_ENDED;
}

void
link_event(struct link *link, const DAT_EVENT *event)
{
	CHAOS_CHECK(link->state != LINK_ENDED, "event %#x after the end of the connection",
		    event->event_number);
	if (event->event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
		established(link, &event->event_data.connect_event_data);
	else
		ended(link, event->event_number);
}

void
link_leave(struct link *link)
{
	DAT_RETURN ret;

	if (link->state == LINK_FREE || link->state == LINK_ENDED || link->leaving)
		return;
	link->leaving = true;
	chaos_enter(CHAOS_END);
	ret = dat_ep_disconnect(link->ep, DAT_CLOSE_ABRUPT_FLAG);
	/* The connection may have ended already, with its event still to come. */
	CHAOS_CHECK(ret == DAT_SUCCESS || DAT_GET_TYPE(ret) == DAT_INVALID_STATE || !chaos_plane_lives(),
		    "dat_ep_disconnect: %#x", ret);
}

void
link_step(struct link *link)
{
	bool excused = link->state != LINK_FREE && chaos_excused(&link->lives);

	if (link_is_over(link) && chaos_plane_lives()) {
		link_free(link);
		return;
	}
	if (link->state == LINK_FREE || link->leaving || !chaos_plane_lives())
		return;
	/* A peer that vanished silently is detected late: some links wait for that, some disconnect
	 * before. */
	if (chaos_control ? excused : chaos_number(excused ? 50 : 400) == 0) {
		link_leave(link);
		return;
	}
	if (link->state == LINK_OPEN && !link->flushed && !link->reading && !link->noting &&
	    !link->unanswered)
		begin_round(link);
}

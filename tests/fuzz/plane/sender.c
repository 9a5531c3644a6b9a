/* SPDX-License-Identifier: BSD-3-Clause */
#include "sender.h"

#include <string.h>

#include "dataplane/esp/change.h"
#include "dataplane/esp/table.h"
#include "dataplane/port/port.h"
#include "dataplane/wire/bytes.h"
#include "plane.h"

#define SPI 0x1001u /* SPI of the first SA; the others follow */
#define SPI_OUT 0x2001u
#define NUMBER_MAX INT64_MAX /* limit of a file of sequence numbers */
#define CEILING (1ull << 40)
#define PADDINGS 8u

struct sender sender[SENDERS];

static struct esp_sa sas[SENDERS + 1]; /* the last is outbound */
static struct esp_table table;
static const uint8_t key[SENDERS + 1][32] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
static const uint32_t key_len[SENDERS + 1] = {16, 32, 16, 32};
static const bool over_ipv4[SENDERS + 1] = {true, true, false, true};

/* ---- set up ---- */

static struct wire_addr
addr_of(bool v4, uint8_t last)
{
	return v4 ? plane_addr(last) : (struct wire_addr){.gid = {0x20, 0x01, 0x0d, 0xb8, [15] = last}};
}

static void
sessions_once(void)
{
	char why[256] = "";

	if (sas[0].session != NULL)
		return;
	if (esp_crypto_open(engine.num_cores, why, sizeof(why)) != 0)
		fuzz_fail(why);
	for (uint32_t i = 0; i <= SENDERS; i++) {
		bool outbound = i == SENDERS;

		sas[i].session = esp_crypto_session(outbound, key[i], key_len[i]);
		if (!outbound)
			sender[i].session = esp_crypto_session(true, key[i], key_len[i]);
		if (sas[i].session == NULL || (!outbound && sender[i].session == NULL))
			fuzz_fail("no session");
	}
}

static void
sa_begin(uint32_t index, uint64_t number)
{
	const struct esp_saved saved = {.number = number, .iv = 1};
	const struct esp_saved ahead = {.number = CEILING, .packets = CEILING, .bytes = CEILING};
	struct esp_sa *sa = &sas[index];
	void *session = sa->session;

	memset(sa, 0, sizeof(*sa));
	sa->session = session;
	sa->outbound = index == SENDERS;
	sa->spi = sa->outbound ? SPI_OUT : SPI + index;
	sa->local = addr_of(over_ipv4[index], 1);
	sa->peer = addr_of(over_ipv4[index], 2);
	sa->salt[0] = (uint8_t)index;
	esp_sa_begin(sa, &saved, 1);
	esp_sa_allow(sa, &ahead);
	esp_table_add_sa(&table, sa, "peer");
	if (sa->outbound)
		return;
	sender[index].sa = sa;
	sender[index].v4 = over_ipv4[index];
	sender[index].ip_len = over_ipv4[index] ? 20 : 40;
	sender[index].num_taken = 0;
}

static void
peer_add(bool v4, bool encrypt, struct esp_sa *out)
{
	const struct wire_addr addr = addr_of(v4, 2);
	struct esp_peer *peer = esp_table_add_peer(&table, &addr);

	peer->encrypt = encrypt;
	peer->out = out;
}

void
senders_begin(struct bytes *record)
{
	uint8_t flags = (uint8_t)record_number(record, 1);

	sessions_once();
	memset(&table, 0, sizeof(table));
	for (uint32_t i = 0; i < SENDERS; i++)
		sa_begin(i, (flags >> i & 1) != 0 ? record_number(record, 8) & NUMBER_MAX : 0);
	sa_begin(SENDERS, 0);
	if ((flags & 8) != 0) {
		atomic_store(&sas[0].hard_packets, record_number(record, 1));
		atomic_store(&sas[1].soft_bytes, record_number(record, 2));
	}
	peer_add(true, (flags & 16) == 0, (flags & 32) != 0 ? NULL : &sas[SENDERS]);
	peer_add(false, (flags & 16) == 0, NULL);
	atomic_store(&esp_table, &table);
	port_set_flag(&ports[0], PORT_FLAG_ESP, true);
}

void
senders_end(void)
{
	port_set_flag(&ports[0], PORT_FLAG_ESP, false);
	atomic_store(&esp_table, NULL);
}

bool
senders_encrypt(void)
{
	return table.peer[0].encrypt;
}

/* ---- frames of the peer ---- */

/* Returns a number near the head of the window, its tail, the end of the lower half, or a number accepted
 * before; a little off, and perhaps far. */
static uint64_t
number_near(const struct sender *from, struct bytes *record)
{
	uint8_t how = (uint8_t)record_number(record, 1);
	uint64_t highest = from->sa->window.highest;
	const uint64_t base[] = {highest, highest - ESP_WINDOW, highest | UINT32_MAX,
				 from->num_taken > 0 ? from->taken[how / 8 % from->num_taken] : 0};
	uint64_t number = base[how % 4] + (uint64_t)(int64_t)(int8_t)record_number(record, 1);

	if ((how & 4) != 0)
		number += 1ull << record_number(record, 1) % 64;
	return number & NUMBER_MAX;
}

static void
seal(const struct sent *sent, uint8_t *esp)
{
	const struct esp_sa *sa = sent->from->sa;
	static struct esp_batch batch;

	batch.num = 0;
	memcpy(batch.nonce[0], sa->salt, ESP_SALT_LEN);
	memcpy(batch.nonce[0] + ESP_SALT_LEN, esp + 8, ESP_IV_LEN);
	store_be32(batch.header[0], sa->spi);
	store_be64(batch.header[0] + 4, sent->number);
	esp_batch_add(&batch, esp + 16, sent->text_len, esp + 16 + sent->text_len);
	esp_crypto_run(engine.num_cores, sent->from->session, &batch);
	if (batch.status[0] != 0)
		fuzz_fail("it cannot be encrypted");
}

static void
fill_headers(const struct sender *from, uint32_t len, uint8_t *frame)
{
	const struct wire_addr src = from->sa->peer, dst = from->sa->local;
	uint8_t *ip = frame + SENDER_ETH;
	uint32_t sum = 0;

	memset(frame, 0, SENDER_ETH + from->ip_len);
	memset(frame, 2, 12);
	store_be16(frame + 12, from->v4 ? 0x0800 : 0x86dd);
	if (from->v4) {
		ip[0] = 0x45;
		store_be16(ip + 2, (uint16_t)(20 + len));
		ip[8] = 64;
		ip[9] = 50;
		memcpy(ip + 12, src.gid + 12, 4);
		memcpy(ip + 16, dst.gid + 12, 4);
		for (uint32_t i = 0; i < 20; i += 2)
			sum += load_be16(ip + i);
		sum = (sum & 0xffff) + (sum >> 16);
		store_be16(ip + 10, (uint16_t) ~((sum & 0xffff) + (sum >> 16)));
	} else {
		ip[0] = 0x60;
		store_be16(ip + 4, (uint16_t)len);
		ip[6] = 50;
		ip[7] = 64;
		memcpy(ip + 8, src.gid, 16);
		memcpy(ip + 24, dst.gid, 16);
	}
}

/* Adds padding: as the RFC requires, longer, or with a false length. */
static uint32_t
pad(struct sent *sent, uint8_t *text, uint8_t how)
{
	uint32_t len = (-(sent->plain_len + 2) & 3u) + how % PADDINGS * 4;
	uint8_t *end = text + sent->plain_len;

	for (uint32_t i = 1; i <= len; i++)
		*end++ = (uint8_t)i;
	*end++ = (how & 0x80) != 0 ? how : (uint8_t)len;
	*end = sent->proto;
	sent->text_len = sent->plain_len + len + 2;
	sent->inside = end[-1] + 2u <= sent->text_len ? sent->text_len - end[-1] - 2 : UINT32_MAX;
	return sent->text_len;
}

/* Changes one byte, or cuts the end off; the bytes behind the IP header are authenticated. */
static void
spoil(struct sent *sent, struct bytes *record)
{
	uint32_t at = (uint32_t)record_number(record, 2) % sent->len;
	uint8_t by = (uint8_t)record_number(record, 1);

	if (by == 0)
		sent->len = at;
	else
		sent->frame[at] ^= by;
	sent->authentic = by != 0 && at < SENDER_ETH + sent->from->ip_len;
	sent->headers_whole = false;
}

static void
build(struct bytes *record, struct sent *sent)
{
	uint8_t how = (uint8_t)record_number(record, 1), padding = (uint8_t)record_number(record, 1);
	const struct sender *from = sent->from;
	uint8_t *esp = sent->frame + SENDER_ETH + from->ip_len;
	uint32_t len;

	sent->number = number_near(from, record);
	if ((how & 1) != 0)
		sent->proto = (uint8_t)record_number(record, 1);
	sent->authentic = sent->headers_whole = true;
	memcpy(esp + 16, sent->plain, sent->plain_len);
	len = 16 + pad(sent, esp + 16, padding) + 16;
	fill_headers(from, len, sent->frame);
	store_be32(esp, from->sa->spi);
	store_be32(esp + 4, (uint32_t)sent->number);
	store_be64(esp + 8, sent->number * 77);
	seal(sent, esp);
	sent->len = SENDER_ETH + from->ip_len + len;
	if ((how & 2) != 0)
		spoil(sent, record);
}

static struct sender *
sender_of(struct bytes *record)
{
	return &sender[record_number(record, 1) % SENDERS];
}

void
sender_send(struct bytes *record, uint32_t len, struct sent *sent)
{
	sent->from = sender_of(record);
	sent->proto = 17;
	sent->plain_len = record->left < len ? (uint32_t)record->left : len;
	memcpy(sent->plain, record->at, sent->plain_len);
	record->at += sent->plain_len;
	record->left -= sent->plain_len;
	build(record, sent);
}

void
sender_wrap(struct bytes *record, const uint8_t *plain, uint32_t len, struct sent *sent)
{
	sent->from = &sender[record_number(record, 1) % 2]; /* a sender by IPv4, as the frame is */
	sent->proto = plain[SENDER_ETH + 9];
	sent->plain_len = len - SENDER_ETH - 20;
	memcpy(sent->plain, plain + SENDER_ETH + 20, sent->plain_len);
	build(record, sent);
}

/* ---- the model ---- */

static bool
is_among(const struct sender *from, uint64_t number)
{
	for (uint32_t i = 0; i < from->num_taken; i++)
		if (from->taken[i] == number)
			return true;
	return false;
}

bool
sender_may(const struct sent *sent)
{
	const struct sender *from = sent->from;

	return sent->authentic && sent->inside != UINT32_MAX && sent->number > from->sa->begun &&
	       !is_among(from, sent->number);
}

/* True for a number in the present window, or ahead of the former one by less than the lower half resolves,
 * as long as the key is not used up. */
bool
sender_must(const struct sent *sent, uint64_t highest_before, uint32_t burst)
{
	const struct esp_sa *sa = sent->from->sa;
	uint64_t hard = atomic_load(&sa->hard_packets);

	return sender_may(sent) && sent->headers_whole &&
	       !is_among(sent->from, sent->number | SENDER_BURNT) &&
	       sent->number < highest_before + (1ull << 31) &&
	       sent->number + ESP_WINDOW > sa->window.highest &&
	       (hard == 0 || atomic_load(&sa->packets) + burst <= hard);
}

/* The number of an authentic frame with invalid padding may be used up. */
void
sender_note(const struct sent *sent, bool taken)
{
	struct sender *from = sent->from;

	if (!taken && (!sent->authentic || sent->inside != UINT32_MAX))
		return;
	if (from->num_taken == SENDER_NUMBERS)
		fuzz_fail("more was sent than the model has room for");
	from->taken[from->num_taken++] = taken ? sent->number : sent->number | SENDER_BURNT;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ICRC by shifts of general registers, for CPUs without carry-less multiplication.
 *
 * A message is a polynomial over GF(2); the CRC is its remainder by P. P divides x^300 + x^155 + x^117 + x^89
 * + 1, so a bit may be replaced by the bits 145, 183, 211 and 300 places after it. None of those is in the
 * same or the next word, so 64 bits are processed at a time, and the sums for the following five words stay
 * in registers. Leading zeros change nothing: words end where the message ends, and the first one is filled
 * up with zeros in front. A table reduces the last five words.
 *
 * The CRC's initial value is added to the first four bytes. Those are all ones (in place of the LRH), so the
 * sum is four zeros, which are left out.
 */
#include <stdatomic.h>
#include <string.h>

#include "bytes.h"
#include "icrc_impl.h"

#define INLINE static inline __attribute__((always_inline))
#define PREFIX 4u /* rest of the eight all-ones bytes in front of the IP header */
#define WORD 8u
#define REACH 5u /* following words that the bits of one word are added to */

/* table[k][byte]: state of the CRC after that byte and k zero bytes. */
static uint32_t table[WORD][256];
/* Masks of the prefix and of the headers with IPv4 and IPv6; zeros for the other words that load_masked()
 * reads. */
static uint8_t mask[2][(8 + REACH + 1) * WORD];

/* Words still to be copied. */
struct shift_move {
	uint8_t *to;
	const uint8_t *from;
	uint32_t words;
};

/* next[i]: sum to be added to the i-th following word. */
struct sums {
	uint64_t next[REACH];
};

void
icrc_mask(uint8_t *m, uint32_t ip_len)
{
	memset(m, 0, ip_len + ICRC_MASKED);
	if (ip_len == 20) {
		m[1] = m[8] = m[10] = m[11] = 0xff; /* type of service, time to live, checksum */
	} else {
		m[0] = 0x0f; /* traffic class and flow label; below: the rest, and the hop limit */
		m[1] = m[2] = m[3] = m[7] = 0xff;
	}
	m[ip_len + 6] = m[ip_len + 7] = 0xff; /* UDP checksum */
	m[ip_len + 8 + 4] = 0xff;             /* FECN, BECN and reserved bits of the BTH */
}

void
icrc_shift_init(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t r = byte;

		for (uint32_t bit = 0; bit < 8; bit++)
			r = (r >> 1) ^ (r & 1 ? ICRC_POLYNOMIAL : 0);
		table[0][byte] = r;
	}
	for (uint32_t k = 1; k < WORD; k++)
		for (uint32_t byte = 0; byte < 256; byte++)
			table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 0xff];
	for (uint32_t i = 0; i < 2; i++) {
		memset(mask[i], 0xff, PREFIX);
		icrc_mask(mask[i] + PREFIX, i == 0 ? 20 : 40);
	}
}

/* Higher bits of a word come later in the message. */
INLINE struct sums
fold_word(struct sums x, uint64_t word)
{
	uint64_t w = word ^ x.next[0];

	return (struct sums){{
		x.next[1],
		x.next[2] ^ w << 17 ^ w << 55, /* 145 = 2 words and 17 bits; 183 = 2 words and 55 bits */
		x.next[3] ^ w >> 47 ^ w >> 9 ^ w << 19, /* 211 = 3 words and 19 bits */
		x.next[4] ^ w >> 45 ^ w << 44,          /* 300 = 4 words and 44 bits */
		w >> 20,
	}};
}

INLINE uint64_t
load_masked(const uint8_t *p, const uint8_t *m)
{
	return load_le64(p) | load_le64(m);
}

/* Load the word at *from exactly once; store the loaded value at *to, unless `to` is NULL. */
INLINE uint64_t
load_and_store(const uint8_t **from, uint8_t **to)
{
	uint64_t word = load_le64(*from);

	*from += WORD;
	if (to != NULL) {
		__asm__("" : "+r"(word));
		store_le64(*to, word);
		*to += WORD;
	}
	return word;
}

INLINE void
move_words(struct shift_move *move, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++)
		load_and_store(&move->from, &move->to);
	move->words -= words;
	/* Pairs with the acquire of an application that polls its memory: words appear in address order. */
	atomic_thread_fence(memory_order_release);
}

/* Also copies `beside`, unless NULL: computing the sums is the bottleneck, so the copy is nearly free. */
INLINE struct sums
fold_words(struct sums x, uint32_t words, const uint8_t **from, uint8_t **to, struct shift_move *beside)
{
	for (; words >= REACH; words -= REACH) {
		for (uint32_t i = 0; i < REACH; i++)
			x = fold_word(x, load_and_store(from, to));
		if (beside != NULL && beside->words >= REACH)
			move_words(beside, REACH);
	}
	for (; words > 0; words--)
		x = fold_word(x, load_and_store(from, to));
	return x;
}

/* Remainder of the last words; `x` has the sums of all words before. */
INLINE uint32_t
reduce_words(const struct sums *x, const uint8_t *p, const uint8_t *m)
{
	uint32_t r = 0;

	for (uint32_t i = 0; i < REACH; i++) {
		uint64_t w = load_masked(p + i * WORD, m + i * WORD) ^ x->next[i] ^ r;

		r = 0;
		for (uint32_t k = 0; k < WORD; k++)
			r ^= table[WORD - 1 - k][w >> 8 * k & 0xff];
	}
	return ~r;
}

/* Words after the first, which may be partial: `head`, words that may have masked bits (fewer if the message
 * is short), `body`, all others up to the last REACH. RoCE headers have at least REACH words. */
struct shift_layout {
	uint32_t first, head, body; /* bytes; words; words */
};

INLINE struct shift_layout
lay_out_words(uint32_t ip_len, uint32_t len)
{
	struct shift_layout l = {.first = (len + PREFIX - 1) % WORD + 1};
	uint32_t words = (len + PREFIX - l.first) / WORD - REACH;

	l.head = (PREFIX + ip_len + ICRC_MASKED - 1 + WORD - 1) / WORD;
	if (l.head > words)
		l.head = words;
	l.body = words - l.head;
	return l;
}

INLINE struct sums
fold_head(const struct shift_layout *l, const uint8_t *p, const uint8_t *m)
{
	struct sums x = fold_word((struct sums){{0}}, load_masked(p, m) << 8 * (WORD - l->first));

	p += l->first;
	m += l->first;
	for (uint32_t i = 0; i < l->head; i++)
		x = fold_word(x, load_masked(p + i * WORD, m + i * WORD));
	return x;
}

INLINE uint32_t
pass_over(const uint8_t *ip, uint32_t ip_len, uint32_t len, struct shift_move *move)
{
	struct shift_layout l = lay_out_words(ip_len, len);
	const uint8_t *m = mask[ip_len != 20], *p = ip - PREFIX + l.first + l.head * WORD;
	struct sums x = fold_head(&l, ip - PREFIX, m);

	x = fold_words(x, l.body, &p, NULL, move);
	return reduce_words(&x, p, m + l.first + l.head * WORD);
}

static uint32_t
compute_crc(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	return pass_over(ip, ip_len, len, NULL);
}

static uint32_t
compute_and_move(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from,
		 uint32_t move_len)
{
	struct shift_move move = {.to = to, .from = from, .words = move_len / WORD};
	uint32_t crc = pass_over(ip, ip_len, len, &move);

	while (move.words > 0)
		move_words(&move, move.words < REACH ? move.words : REACH);
	return crc;
}

/* Masked bits are in words of the headers only: there are at least the headers up to the BTH. */
static uint32_t
compute_and_copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	struct shift_layout l = lay_out_words(ip_len, len);
	uint32_t rest = from_len % WORD, body = from_len / WORD - REACH;
	const uint8_t *m = mask[ip_len != 20], *p = ip - PREFIX + l.first + l.head * WORD;
	uint8_t *to = ip + len - from_len;
	struct sums x;

	if (from_len < REACH * WORD) {
		memcpy(to, from, from_len);
		return compute_crc(ip, ip_len, len);
	}
	memcpy(to, from, rest);
	from += rest;
	to += rest;
	x = fold_head(&l, ip - PREFIX, m);
	x = fold_words(x, l.body - body, &p, NULL, NULL);
	x = fold_words(x, body, &from, &to, NULL);
	memcpy(to, from, REACH * WORD);
	return reduce_words(&x, to, m + l.first + l.head * WORD);
}

static bool
always_available(void)
{
	return true;
}

const struct icrc_impl icrc_shift = {.name = "shift",
				     .available = always_available,
				     .compute = compute_crc,
				     .copy = compute_and_copy,
				     .beside = compute_and_move};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ICRC by shifts of general registers: for CPUs without carry-less multiplication.
 *
 * A message is a polynomial over GF(2), its remainder by P the CRC.  P divides x^300 + x^155 + x^117 + x^89 +
 * 1, so a bit may be replaced by those 145, 183, 211 and 300 places behind it.  None of these is in the same
 * word or in the next, so 64 bits go at a time, and what they add to the five words behind stays in
 * registers. Leading zeros change nothing: words end where the message does, and the first one begins with
 * zeros.  The last five are left to a table.
 *
 * The CRC's initial value is added to the first four bytes; those are the all-ones that stand for the LRH, so
 * four zeros remain, and are left out.
 */
#include <stdatomic.h>
#include <string.h>

#include "bytes.h"
#include "icrc_impl.h"

#define INLINE static inline __attribute__((always_inline))
#define PREFIX 4u /* what is left of the eight all-ones bytes in front of the IP header */
#define WORD 8u
#define REACH 5u /* words that the bits of one go to */

/* [k][byte]: the CRC's state after that byte and k zeros. */
static uint32_t table[WORD][256];
/* Of the prefix, a header of IPv4 or IPv6 and what follows; zeros for the words that are taken with it. */
static uint8_t mask[2][(8 + REACH + 1) * WORD];

/* Words on their way to another place. */
struct shift_move {
	uint8_t *to;
	const uint8_t *from;
	uint32_t words;
};

/* What is still to be added to words: to the next one, and so on. */
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
		m[0] = 0x0f; /* traffic class and flow label, hop limit */
		m[1] = m[2] = m[3] = m[7] = 0xff;
	}
	m[ip_len + 6] = m[ip_len + 7] = 0xff; /* UDP's checksum */
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

/* Bits to the left in a word come later in the message. */
INLINE struct sums
fold(struct sums x, uint64_t word)
{
	uint64_t w = word ^ x.next[0];

	return (struct sums){{
		x.next[1],
		x.next[2] ^ w << 17 ^ w << 55,          /* 145 is 2 words and 17 bits, 183 2 and 55 */
		x.next[3] ^ w >> 47 ^ w >> 9 ^ w << 19, /* 211 is 3 and 19 */
		x.next[4] ^ w >> 45 ^ w << 44,          /* 300 is 4 and 44 */
		w >> 20,
	}};
}

INLINE uint64_t
masked(const uint8_t *p, const uint8_t *m)
{
	return load_le64(p) | load_le64(m);
}

/* The word at *from, which is stored at *to too, unless that is NULL: what was loaded, once. */
INLINE uint64_t
take(const uint8_t **from, uint8_t **to)
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

/* By words, as all here. */
INLINE void
move_words(struct shift_move *move, uint32_t words)
{
	for (uint32_t i = 0; i < words; i++)
		take(&move->from, &move->to);
	move->words -= words;
	/* Pairs with the application's acquire when it polls: words come in address order. */
	atomic_thread_fence(memory_order_release);
}

/* Meanwhile what is to be moved `beside` is, unless that is NULL: the sums take all the time there is here.
 */
INLINE struct sums
fold_words(struct sums x, uint32_t words, const uint8_t **from, uint8_t **to, struct shift_move *beside)
{
	for (; words >= REACH; words -= REACH) {
		for (uint32_t i = 0; i < REACH; i++)
			x = fold(x, take(from, to));
		if (beside != NULL && beside->words >= REACH)
			move_words(beside, REACH);
	}
	for (; words > 0; words--)
		x = fold(x, take(from, to));
	return x;
}

/* The remainder of the last words, when all others are in `x`. */
INLINE uint32_t
reduce(const struct sums *x, const uint8_t *p, const uint8_t *m)
{
	uint32_t r = 0;

	for (uint32_t i = 0; i < REACH; i++) {
		uint64_t w = masked(p + i * WORD, m + i * WORD) ^ x->next[i] ^ r;

		r = 0;
		for (uint32_t k = 0; k < WORD; k++)
			r ^= table[WORD - 1 - k][w >> 8 * k & 0xff];
	}
	return ~r;
}

/*
 * The words of a message behind the first, which may have fewer bytes: those that may have masked bits, or as
 * many of them as are not among the last, and others.  A frame of RoCE has so many.
 */
struct shift_layout {
	uint32_t first, head, body; /* bytes; words; words */
};

INLINE struct shift_layout
lay_out(uint32_t ip_len, uint32_t len)
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
	struct sums x = fold((struct sums){{0}}, masked(p, m) << 8 * (WORD - l->first));

	p += l->first;
	m += l->first;
	for (uint32_t i = 0; i < l->head; i++)
		x = fold(x, masked(p + i * WORD, m + i * WORD));
	return x;
}

INLINE uint32_t
pass(const uint8_t *ip, uint32_t ip_len, uint32_t len, struct shift_move *move)
{
	struct shift_layout l = lay_out(ip_len, len);
	const uint8_t *m = mask[ip_len != 20], *p = ip - PREFIX + l.first + l.head * WORD;
	struct sums x = fold_head(&l, ip - PREFIX, m);

	x = fold_words(x, l.body, &p, NULL, move);
	return reduce(&x, p, m + l.first + l.head * WORD);
}

static uint32_t
compute(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	return pass(ip, ip_len, len, NULL);
}

static uint32_t
beside(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from, uint32_t move_len)
{
	struct shift_move move = {.to = to, .from = from, .words = move_len / WORD};
	uint32_t crc = pass(ip, ip_len, len, &move);

	while (move.words > 0)
		move_words(&move, move.words < REACH ? move.words : REACH);
	return crc;
}

/* The headers are at least those up to the BTH, so no word that may have masked bits is of the payload. */
static uint32_t
copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	struct shift_layout l = lay_out(ip_len, len);
	uint32_t rest = from_len % WORD, body = from_len / WORD - REACH;
	const uint8_t *m = mask[ip_len != 20], *p = ip - PREFIX + l.first + l.head * WORD;
	uint8_t *to = ip + len - from_len;
	struct sums x;

	if (from_len < REACH * WORD) {
		memcpy(to, from, from_len);
		return compute(ip, ip_len, len);
	}
	memcpy(to, from, rest);
	from += rest;
	to += rest;
	x = fold_head(&l, ip - PREFIX, m);
	x = fold_words(x, l.body - body, &p, NULL, NULL);
	x = fold_words(x, body, &from, &to, NULL);
	memcpy(to, from, REACH * WORD);
	return reduce(&x, to, m + l.first + l.head * WORD);
}

static bool
available(void)
{
	return true;
}

const struct icrc_impl icrc_shift = {
	.name = "shift", .available = available, .compute = compute, .copy = copy, .beside = beside};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes over a message, shared by implementations. Before including this file, define:
 *
 * - TARGET: the instruction sets needed
 * - STRIDE: bytes of which the body is a multiple
 * - fold_body(): folds the body onto its last word. If `to` is not NULL, it also stores the body there. If
 *   `moving` is not NULL, it also copies those bytes.
 */

static inline TARGET __attribute__((always_inline)) uint32_t
pass_over(const uint8_t *ip, uint32_t ip_len, uint32_t len, struct moving *moving)
{
	struct fold_layout l = lay_out_fold(ip_len, len, STRIDE);
	v128 head = fold_head(ip, ip_len, &l);

	if (l.body == 0)
		return reduce_word(head);
	return finish_fold(head, fold_body(ip + len - l.body, NULL, l.body, moving), l.body);
}

static TARGET uint32_t
compute_crc(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	return pass_over(ip, ip_len, len, NULL);
}

/* Computing is bound by multiplications, copying by loads and stores: interleaved, the copy is nearly
 * free. */
static TARGET uint32_t
compute_and_move(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from,
		 uint32_t move_len)
{
	struct moving moving = {.to = to, .from = from, .left = move_len};
	uint32_t crc = pass_over(ip, ip_len, len, &moving);

	move_bytes(&moving, moving.left);
	return crc;
}

/* The head is loaded last: its bytes were just stored piecewise, and a wide load would wait for those
 * stores. */
static TARGET uint32_t
compute_and_copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	struct fold_layout l = lay_out_fold(ip_len, len, STRIDE);
	v128 body;

	if (__builtin_expect(l.body == 0 || l.body > from_len, 0)) {
		memcpy(ip + len - from_len, from, from_len);
		return compute_crc(ip, ip_len, len);
	}
	body = fold_body(from + from_len - l.body, ip + len - l.body, l.body, NULL);
	if (from_len != l.body)
		memcpy(ip + len - from_len, from, from_len - l.body);
	return finish_fold(fold_head(ip, ip_len, &l), body, l.body);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The passes over a message of an implementation that defines before it includes this: TARGET, the
 * instructions that it needs; STRIDE, a multiple of which its body is; and fold_body(), the words of the body
 * on the last one, while that is stored at `to` too, and while what is to be moved `beside` is, where those
 * are not NULL.
 */

static inline TARGET __attribute__((always_inline)) uint32_t
pass(const uint8_t *ip, uint32_t ip_len, uint32_t len, struct moving *moving)
{
	struct fold_layout l = lay_out(ip_len, len, STRIDE);
	v128 head = fold_head(ip, ip_len, &l);

	if (l.body == 0)
		return reduce(head);
	return finish(head, fold_body(ip + len - l.body, NULL, l.body, moving), l.body);
}

static TARGET uint32_t
compute(const uint8_t *ip, uint32_t ip_len, uint32_t len)
{
	return pass(ip, ip_len, len, NULL);
}

/* The multiplications take all the time there is here, loads and stores hardly any; a copy is the other way
 * round. */
static TARGET uint32_t
beside(const uint8_t *ip, uint32_t ip_len, uint32_t len, uint8_t *to, const uint8_t *from, uint32_t move_len)
{
	struct moving moving = {.to = to, .from = from, .left = move_len};
	uint32_t crc = pass(ip, ip_len, len, &moving);

	move_bytes(&moving, moving.left);
	return crc;
}

/* The headers have just been stored, in parts: a wide load of them waits, so it comes last. */
static TARGET uint32_t
copy(uint8_t *ip, uint32_t ip_len, uint32_t len, const uint8_t *from, uint32_t from_len)
{
	struct fold_layout l = lay_out(ip_len, len, STRIDE);
	v128 body;

	if (__builtin_expect(l.body == 0 || l.body > from_len, 0)) {
		memcpy(ip + len - from_len, from, from_len);
		return compute(ip, ip_len, len);
	}
	body = fold_body(from + from_len - l.body, ip + len - l.body, l.body, NULL);
	if (from_len != l.body)
		memcpy(ip + len - from_len, from, from_len - l.body);
	return finish(fold_head(ip, ip_len, &l), body, l.body);
}

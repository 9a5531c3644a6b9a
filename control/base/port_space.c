/* SPDX-License-Identifier: BSD-3-Clause */
#include "port_space.h"

static uint64_t
bit(uint32_t i)
{
	return 1ull << (i % 64);
}

bool
port_space_take(struct port_space *space, uint16_t port)
{
	uint32_t word = port / 64u;

	if ((space->used[word] & bit(port)) != 0)
		return false;
	space->used[word] |= bit(port);
	if (space->used[word] == UINT64_MAX)
		space->full[word / 64] |= bit(word);
	return true;
}

void
port_space_give(struct port_space *space, uint16_t port)
{
	uint32_t word = port / 64u;

	space->used[word] &= ~bit(port);
	space->full[word / 64] &= ~bit(word);
}

/* The index of the first zero at or after `from` of `num_words` * 64 bits; all of them: there is none. */
static uint32_t
first_zero(const uint64_t *words, uint32_t num_words, uint32_t from)
{
	uint64_t at_least = UINT64_MAX << (from % 64);

	for (uint32_t word = from / 64; word < num_words; word++, at_least = UINT64_MAX)
		if ((~words[word] & at_least) != 0)
			return word * 64 + (uint32_t)__builtin_ctzll(~words[word] & at_least);
	return num_words * 64;
}

/* The first free one at or after `from`; PORT_SPACE: there is none. */
static uint32_t
first_free(const struct port_space *space, uint32_t from)
{
	uint32_t word = from / 64;
	uint32_t port = first_zero(&space->used[word], 1, from % 64);

	if (port < 64)
		return word * 64 + port;
	word = first_zero(space->full, PORT_SPACE_WORDS / 64, word + 1);
	return word == PORT_SPACE_WORDS ? PORT_SPACE : word * 64 + first_zero(&space->used[word], 1, 0);
}

uint16_t
port_space_take_any(struct port_space *space)
{
	uint32_t port = first_free(space, space->next < PORT_SPACE_ANY ? PORT_SPACE_ANY : space->next);

	if (port == PORT_SPACE)
		port = first_free(space, PORT_SPACE_ANY);
	if (port == PORT_SPACE)
		return 0;
	port_space_take(space, (uint16_t)port);
	space->next = (port + 1) % PORT_SPACE;
	return (uint16_t)port;
}

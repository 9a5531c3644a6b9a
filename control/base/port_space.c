/* SPDX-License-Identifier: BSD-3-Clause */
#include "port_space.h"

static uint64_t
port_bit(uint16_t port)
{
	return 1ull << (port % 64);
}

bool
port_space_take(struct port_space *space, uint16_t port)
{
	if ((space->used[port / 64u] & port_bit(port)) != 0)
		return false;
	space->used[port / 64u] |= port_bit(port);
	return true;
}

void
port_space_give(struct port_space *space, uint16_t port)
{
	space->used[port / 64u] &= ~port_bit(port);
}

/* First free port in [from, end), or PORT_SPACE. */
static uint32_t
first_free(const struct port_space *space, uint32_t from, uint32_t end)
{
	uint64_t at_least = UINT64_MAX << (from % 64);

	for (uint32_t word = from / 64; word * 64 < end; word++, at_least = UINT64_MAX) {
		uint64_t unused = ~space->used[word] & at_least;
		uint32_t port = unused != 0 ? word * 64 + (uint32_t)__builtin_ctzll(unused) : PORT_SPACE;

		if (port != PORT_SPACE)
			return port < end ? port : PORT_SPACE;
	}
	return PORT_SPACE;
}

uint16_t
port_space_take_any(struct port_space *space)
{
	uint32_t first = PORT_SPACE_EPHEMERAL, end = first + PORT_SPACE_EPHEMERALS;
	uint32_t port = first_free(space, first + space->next, end);

	if (port == PORT_SPACE)
		port = first_free(space, first, end);
	if (port != PORT_SPACE)
		space->next = (port + 1 - first) % PORT_SPACE_EPHEMERALS;
	else
		port = first_free(space, PORT_SPACE_ANY, PORT_SPACE);
	if (port == PORT_SPACE)
		return 0;
	port_space_take(space, (uint16_t)port);
	return (uint16_t)port;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <stdlib.h>
#include <string.h>

const struct wire_packet *
packet_copy(const struct wire_packet *packet)
{
	struct wire_packet *copy = malloc(sizeof(*copy));
	uint8_t *payload = malloc(packet->payload_len + 1);

	*copy = *packet;
	memcpy(payload, packet->payload, packet->payload_len);
	copy->payload = payload;
	return copy;
}

void
packet_free(const struct wire_packet *copy)
{
	union {
		const struct wire_packet *held;
		struct wire_packet *mine;
	} whole = {copy};
	union {
		const uint8_t *held;
		uint8_t *mine;
	} payload = {copy->payload};

	free(payload.mine);
	free(whole.mine);
}

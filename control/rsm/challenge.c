/* SPDX-License-Identifier: BSD-3-Clause */
/* Open challenges. Anyone who can send with a peer's address can cause any number of challenges. So each node
 * has a table of fixed size, and the nonce determines a challenge's place: a new challenge replaces each old
 * one with equal probability. Under a flood of N, a genuine answer still finds its challenge with probability
 * (1 - 1/PLACES)^N, and each retry has another chance. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/loop.h"
#include "proof.h"

#define PLACES 1024u

struct challenge {
	bool open;
	uint8_t nonce[RSM_NONCE_LEN];
	uint8_t claims[RSM_REQ_LEN];
};

static struct challenge *table[CONFIG_PEERS_MAX]; /* indexed by node; allocated for the first challenge */

static struct challenge *
challenge_place(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN])
{
	return &table[node][(nonce[0] | (uint32_t)nonce[1] << 8) % PLACES];
}

int
rsm_challenge(uint32_t node, const uint8_t claims[RSM_REQ_LEN], uint8_t nonce[RSM_NONCE_LEN])
{
	struct challenge *challenge;

	if (table[node] == NULL)
		table[node] = calloc(PLACES, sizeof(*table[node]));
	if (table[node] == NULL)
		return -ENOMEM;
	rsm_nonce(nonce);
	challenge = challenge_place(node, nonce);
	challenge->open = true;
	memcpy(challenge->nonce, nonce, RSM_NONCE_LEN);
	memcpy(challenge->claims, claims, RSM_REQ_LEN);
	return 0;
}

const uint8_t *
rsm_challenge_find(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN])
{
	const struct challenge *challenge = table[node] == NULL ? NULL : challenge_place(node, nonce);

	if (challenge == NULL || !challenge->open || memcmp(challenge->nonce, nonce, RSM_NONCE_LEN) != 0)
		return NULL;
	return challenge->claims;
}

void
rsm_challenge_used(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN])
{
	if (rsm_challenge_find(node, nonce) != NULL)
		challenge_place(node, nonce)->open = false;
}

void
rsm_nonce(uint8_t nonce[RSM_NONCE_LEN])
{
	const uint64_t numbers[] = {control_random(), control_random()};

	_Static_assert(sizeof(numbers) == RSM_NONCE_LEN, "");
	memcpy(nonce, numbers, RSM_NONCE_LEN);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Challenges that have not been met yet.  Anybody who can send with a peer's address can have as many made as
 * he likes, so there is a table of one size for each node, and the place of a challenge is in its nonce: a
 * new one takes the place of any old one with the same chance, so that under a flood of N a genuine answer
 * still finds its challenge with a probability of (1 - 1/PLACES)^N, and another attempt is another chance.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/loop/loop.h"
#include "proof.h"

#define PLACES 1024u

struct challenge {
	bool open;
	uint8_t nonce[RSM_NONCE_LEN];
	uint8_t claims[RSM_REQ_LEN];
};

static struct challenge *table[CONFIG_PEERS_MAX]; /* by node; made for the first */

static struct challenge *
place(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN])
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
	challenge = place(node, nonce);
	challenge->open = true;
	memcpy(challenge->nonce, nonce, RSM_NONCE_LEN);
	memcpy(challenge->claims, claims, RSM_REQ_LEN);
	return 0;
}

const uint8_t *
rsm_challenge_find(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN])
{
	const struct challenge *challenge = table[node] == NULL ? NULL : place(node, nonce);

	if (challenge == NULL || !challenge->open || memcmp(challenge->nonce, nonce, RSM_NONCE_LEN) != 0)
		return NULL;
	return challenge->claims;
}

void
rsm_challenge_used(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN])
{
	if (rsm_challenge_find(node, nonce) != NULL)
		place(node, nonce)->open = false;
}

void
rsm_nonce(uint8_t nonce[RSM_NONCE_LEN])
{
	const uint64_t numbers[] = {control_random(), control_random()};

	_Static_assert(sizeof(numbers) == RSM_NONCE_LEN, "");
	memcpy(nonce, numbers, RSM_NONCE_LEN);
}

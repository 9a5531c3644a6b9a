/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proofs of identity between data planes that share a secret, before access to a segment is granted:
 *
 *   importer                                      exporter
 *     REQ  claims, "secret"                ->       stores the claims
 *                                          <-     REJ  challenge: a nonce, valid once
 *     REQ  both nonces, codes              ->       finds the claims by the nonce, checks the codes,
 *                                                   then the access list
 *                                          <-     REP  the grant, a code
 *     checks the code
 *
 * A code is HMAC-SHA-256, truncated to 128 bits as in RFC 4868, over struct rsm_statement: claims, nonces,
 * and the addresses, queue pair numbers and PSNs of both ends that are known so far. A request has a code for
 * each secret of its sender, so that connections work while the secret of one end is being replaced.
 */
#ifndef CONTROL_RSM_PROOF_H
#define CONTROL_RSM_PROOF_H

#include "config/secret.h"
#include "dataplane/wire/wire.h"
#include "rsm_wire.h"

struct rsm_end {
	struct wire_addr addr;
	uint32_t qpn, psn;
};

struct rsm_statement {
	uint8_t claims[RSM_REQ_LEN];
	uint8_t exporter_nonce[RSM_NONCE_LEN], importer_nonce[RSM_NONCE_LEN];
	struct rsm_end importer, exporter;
	uint8_t grant[RSM_REP_LEN];
};

/* The message that a code proves. For a REQ, the exporter's QPN and PSN and the grant are zero. */
enum rsm_saying { RSM_SAYS_REQ, RSM_SAYS_REP };

/* ---- proof.c ---- */
/* Computes a code. False: no memory. */
bool rsm_code(const struct config_secret *secret, enum rsm_saying saying,
	      const struct rsm_statement *statement, uint8_t code[RSM_CODE_LEN]);
/* Returns the peer's secret that `code` was made with; NULL: none. */
const struct config_secret *rsm_code_secret(const struct config_peer *peer, enum rsm_saying saying,
					    const struct rsm_statement *statement,
					    const uint8_t code[RSM_CODE_LEN]);

/* ---- challenge.c: open challenges, by the importer's node ---- */
/* Stores the claims and draws the nonce. Returns 0, or -ENOMEM. */
int rsm_challenge(uint32_t node, const uint8_t claims[RSM_REQ_LEN], uint8_t nonce[RSM_NONCE_LEN]);
/* Returns the claims of the open challenge with this nonce; NULL: none. */
const uint8_t *rsm_challenge_find(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN]);
void rsm_nonce(uint8_t nonce[RSM_NONCE_LEN]);
/* Closes the challenge. */
void rsm_challenge_used(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN]);

#endif

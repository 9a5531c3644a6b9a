/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How data planes that share a secret prove to each other who they are, before a segment is given:
 *
 *   importer                                      exporter
 *     REQ  claims, "secret"                ->       keeps the claims
 *                                          <-     REJ  challenge: a nonce, each counts once
 *     REQ  both nonces, codes              ->       finds claims by the nonce, judges code, then access list
 *                                          <-     REP  what it grants, a code
 *     judges the code
 *
 * A code is HMAC-SHA-256, truncated to 128 bits as in RFC 4868, over the statement below: claims, nonces, and
 * addresses, queue pair numbers and PSNs of both ends, as far as they are known.  A request has a code for
 * each secret that its sender has, so that two ends agree while either is given another one.
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

/* What it is about; of a request the exporter's numbers and the grant are zero. */
enum rsm_saying { RSM_SAYS_REQ, RSM_SAYS_REP };

/* ---- proof.c ---- */
/* False: no memory. */
bool rsm_code(const struct config_secret *secret, enum rsm_saying saying,
	      const struct rsm_statement *statement, uint8_t code[RSM_CODE_LEN]);
/* The one of the peer's secrets that `code` was made with; NULL: none. */
const struct config_secret *rsm_code_secret(const struct config_peer *peer, enum rsm_saying saying,
					    const struct rsm_statement *statement,
					    const uint8_t code[RSM_CODE_LEN]);

/* ---- challenge.c: what the importers of a node have been asked ---- */
/* Keeps the claims and draws the nonce; -ENOMEM. */
int rsm_challenge(uint32_t node, const uint8_t claims[RSM_REQ_LEN], uint8_t nonce[RSM_NONCE_LEN]);
/* The claims that this nonce was drawn for; NULL: none, any more. */
const uint8_t *rsm_challenge_find(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN]);
void rsm_nonce(uint8_t nonce[RSM_NONCE_LEN]);
/* From here on it is not found. */
void rsm_challenge_used(uint32_t node, const uint8_t nonce[RSM_NONCE_LEN]);

#endif

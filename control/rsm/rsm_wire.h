/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private data of RSM connections between data planes. Numbers are big-endian.
 *
 *   REQ   0 "RSM1"  4 version  5 byte order  6 groups (n)  7 node
 *         8 segment  12 permission (16)  14 partial  15 secret  16 uid  20 gid  24 incarnation (64)
 *         32 group that the importer is not in  36 n groups
 *   REQ   0 "RSMP"  4 version  5 codes (1 or 2)
 *         8 exporter's nonce  24 importer's nonce  40 a code for each secret
 *   REP   0 "RSM1"  4 version  5 byte order  6 mode (16)
 *         8 size (64)  16 address (64)  24 key  32 incarnation (64)  40 code, if a secret is shared
 *   REJ   0 "RSM1"  4 RSMERR code  8 why  16 exporter's nonce, in a challenge
 *
 * `partial` is 1 if the importer may be in more groups than listed. `secret` is 1 if the importer's data
 * plane shares a secret with the exporter's. `incarnation` is a random number of the sending process. See
 * proof.h for the proofs.
 */
#ifndef CONTROL_RSM_WIRE_H
#define CONTROL_RSM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "control/base/acl.h"

#define RSM_WIRE_VERSION 2u
#define RSM_REQ_LEN 92u
#define RSM_REP_LEN 40u
#define RSM_REJ_LEN 32u
#define RSM_NONCE_LEN 16u
#define RSM_CODE_LEN 16u
#define RSM_CODES CONFIG_PEER_SECRETS
#define RSM_PROOF_LEN (40u + RSM_CODES * RSM_CODE_LEN)
#define RSM_REP_PROVEN_LEN (RSM_REP_LEN + RSM_CODE_LEN)

enum rsm_order { RSM_LITTLE = 1, RSM_BIG = 2 };

struct rsm_req {
	struct acl_who who;
	uint32_t segment, permission;
	uint8_t order; /* enum rsm_order */
	bool secret;
	uint64_t incarnation;
};

/* The answer to a challenge: proves the claims of the preceding request. */
struct rsm_proof {
	uint32_t num_codes;
	uint8_t exporter_nonce[RSM_NONCE_LEN], importer_nonce[RSM_NONCE_LEN];
	uint8_t code[RSM_CODES][RSM_CODE_LEN];
};

enum rsm_why {
	RSM_WHY_CODE,      /* no reason beyond the code */
	RSM_WHY_CHALLENGE, /* a proof is required: `nonce` is the challenge */
	RSM_WHY_MISSING,   /* the exporter has a secret, but the request offers no proof */
	RSM_WHY_NO_SECRET, /* the exporter has no secret to check a proof with */
	RSM_WHY_WRONG,     /* the proof does not match the exporter's secrets */
	RSM_WHY_STALE,     /* the exporter has no such challenge, or lost it */
	RSM_WHY_LAST = RSM_WHY_STALE
};

struct rsm_rej {
	uint32_t code; /* enum rsm_error */
	enum rsm_why why;
	uint8_t nonce[RSM_NONCE_LEN];
};

struct rsm_rep {
	uint64_t size, addr, incarnation;
	uint32_t key, mode;
	uint8_t order;
};

uint8_t rsm_own_order(void);
void rsm_req_build(const struct rsm_req *req, uint8_t out[RSM_REQ_LEN]);
bool rsm_req_parse(const uint8_t *data, uint32_t len, struct rsm_req *req);
void rsm_rep_build(const struct rsm_rep *rep, uint8_t out[RSM_REP_LEN]);
bool rsm_rep_parse(const uint8_t *data, uint32_t len, struct rsm_rep *rep);
void rsm_proof_build(const struct rsm_proof *proof, uint8_t out[RSM_PROOF_LEN]);
bool rsm_proof_parse(const uint8_t *data, uint32_t len, struct rsm_proof *proof);
void rsm_rej_build(const struct rsm_rej *rej, uint8_t out[RSM_REJ_LEN]);
bool rsm_rej_parse(const uint8_t *data, uint32_t len, struct rsm_rej *rej);

#endif

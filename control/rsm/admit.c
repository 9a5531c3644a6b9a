/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "admit.h"

static void
refuse_because(struct conn *conn, enum rsm_error code, enum rsm_why why, const uint8_t *nonce)
{
	struct rsm_rej rej = {.code = code, .why = why};
	uint8_t data[RSM_REJ_LEN];

	if (nonce != NULL)
		memcpy(rej.nonce, nonce, RSM_NONCE_LEN);
	rsm_rej_build(&rej, data);
	conn_reject(conn, CM_REJ_CONSUMER, data, sizeof(data));
}

void
rsm_refuse(struct conn *conn, enum rsm_error code)
{
	refuse_because(conn, code, RSM_WHY_CODE, NULL);
}

const struct rsm_unproven rsm_unproven[] = {
	[RSM_WHY_MISSING] = {"missing", "it sent no proof, but this host has a secret for it",
			     "give it the same secret_file there, or none here"},
	[RSM_WHY_NO_SECRET] = {"no_secret", "it offers a proof, but this host has no secret for it",
			       "give it the same secret_file here, or none there"},
	[RSM_WHY_WRONG] = {"wrong", "its proof uses another secret, or proves another request",
			   "use the same secret_file on both hosts"},
	[RSM_WHY_STALE] = {"stale", "its proof answers no open challenge",
			   "none if the next attempt succeeds; else the proof is a replay"},
};

void
rsm_log_unproven(const char *side, uint32_t segment, const struct conn *conn,
		 const struct rsm_unproven *unproven)
{
	log_of_others(warning,
		      "event=peer_unproven side=%s reason=%s segment=%#x peer=%s text=\"%s\" remedy=\"%s\"\n",
		      side, unproven->reason, segment, addr_text(&conn->path.dst), unproven->text,
		      unproven->remedy);
}

/* Refuses an importer without a valid proof: for the importer, the segment is not published to its node. */
static bool
refuse_unproven(const struct segment *segment, struct conn *conn, enum rsm_why why)
{
	rsm_log_unproven("exporter", segment->id, conn, &rsm_unproven[why]);
	refuse_because(conn, RSM_SEG_NOT_PUBLISHED_TO_NODE, why, NULL);
	return false;
}

static bool
refuse_malformed(struct conn *conn)
{
	rsm_refuse(conn, RSM_BAD_DRIVER_VERSION);
	return false;
}

static bool
refuse_node(const struct segment *segment, struct conn *conn, uint32_t node)
{
	log_of_others(
		warning,
		"event=node_wrong segment=%#x peer=%s node=%u text=\"no peer is configured with this node and address\" remedy=\"[peer %u] address = %s\"\n",
		segment->id, addr_text(&conn->path.dst), node, node, addr_text(&conn->path.dst));
	rsm_refuse(conn, RSM_SEG_NOT_PUBLISHED_TO_NODE);
	return false;
}

static bool
send_challenge(struct conn *conn, uint32_t node)
{
	uint8_t nonce[RSM_NONCE_LEN];

	if (rsm_challenge(node, conn->setup->remote.private_data, nonce) != 0)
		rsm_refuse(conn, RSM_INSUFFICIENT_MEM);
	else
		refuse_because(conn, RSM_SEG_NOT_PUBLISHED_TO_NODE, RSM_WHY_CHALLENGE, nonce);
	return false;
}

/* Admits a first request. A request from one of our own addresses comes from this data plane, never from a
 * port, so it needs no secret. */
static bool
admit_claims(const struct segment *segment, struct conn *conn, const struct config_peer *peer,
	     struct rsm_admitted *admitted)
{
	struct rsm_req *req = &admitted->req;
	bool own = path_own(&conn->path.dst) != NULL,
	     secret = !own && peer != NULL && peer->secret[0] != NULL;

	if (!rsm_req_parse(conn->setup->remote.private_data, conn->setup->remote.private_len, req) ||
	    req->segment != segment->id)
		return refuse_malformed(conn);
	if (own ? req->who.node != control.config->node : peer == NULL || req->who.node != peer->node)
		return refuse_node(segment, conn, req->who.node);
	if (secret && !req->secret)
		return refuse_unproven(segment, conn, RSM_WHY_MISSING);
	if (!secret && req->secret)
		return refuse_unproven(segment, conn, RSM_WHY_NO_SECRET);
	return secret ? send_challenge(conn, peer->node) : true;
}

static void
statement_fill(struct rsm_statement *statement, const struct conn *conn, const struct rsm_proof *proof,
	       const uint8_t claims[RSM_REQ_LEN])
{
	memcpy(statement->claims, claims, RSM_REQ_LEN);
	memcpy(statement->exporter_nonce, proof->exporter_nonce, RSM_NONCE_LEN);
	memcpy(statement->importer_nonce, proof->importer_nonce, RSM_NONCE_LEN);
	statement->importer = (struct rsm_end){
		.addr = conn->path.dst, .qpn = conn->setup->remote.qpn, .psn = conn->setup->remote.psn};
	statement->exporter = (struct rsm_end){.addr = conn->path.src};
}

/* Admits a second request. The claims are those of the first request, whoever sent that: the proof covers
 * them. */
static bool
admit_proof(const struct segment *segment, struct conn *conn, const struct config_peer *peer,
	    const struct rsm_proof *proof, struct rsm_admitted *admitted)
{
	const uint8_t *claims;

	if (peer == NULL || peer->secret[0] == NULL)
		return refuse_unproven(segment, conn, RSM_WHY_NO_SECRET);
	claims = rsm_challenge_find(peer->node, proof->exporter_nonce);
	if (claims == NULL)
		return refuse_unproven(segment, conn, RSM_WHY_STALE);
	if (!rsm_req_parse(claims, RSM_REQ_LEN, &admitted->req) || admitted->req.segment != segment->id)
		return refuse_malformed(conn);
	statement_fill(&admitted->statement, conn, proof, claims);
	for (uint32_t i = 0; i < proof->num_codes && admitted->secret == NULL; i++)
		admitted->secret = rsm_code_secret(peer, RSM_SAYS_REQ, &admitted->statement, proof->code[i]);
	if (admitted->secret == NULL)
		return refuse_unproven(segment, conn, RSM_WHY_WRONG);
	rsm_challenge_used(peer->node, proof->exporter_nonce);
	return true;
}

bool
rsm_admit(struct segment *segment, struct conn *conn, struct rsm_admitted *admitted)
{
	const struct cm_remote *remote = &conn->setup->remote;
	const struct config_peer *peer = rsm_peer_at(&conn->path.dst);
	struct rsm_proof proof;

	memset(admitted, 0, sizeof(*admitted));
	if (rsm_proof_parse(remote->private_data, remote->private_len, &proof))
		return admit_proof(segment, conn, peer, &proof, admitted);
	return admit_claims(segment, conn, peer, admitted);
}

bool
rsm_admitted_seal(struct rsm_admitted *admitted, struct conn *conn, uint32_t qpn)
{
	struct rsm_statement *statement = &admitted->statement;

	conn->setup->private_len = RSM_REP_LEN;
	if (admitted->secret == NULL)
		return true;
	memcpy(statement->grant, conn->setup->private_data, RSM_REP_LEN);
	statement->exporter.qpn = qpn;
	statement->exporter.psn = conn->local.psn;
	conn->setup->private_len = RSM_REP_PROVEN_LEN;
	return rsm_code(admitted->secret, RSM_SAYS_REP, statement, &conn->setup->private_data[RSM_REP_LEN]);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "admit.h"

/* Fills the statement with the addresses, QPNs and PSNs that are known before the REP. */
static void
statement_fill(struct rsm_statement *statement, const struct conn *conn, const struct rsm_proof *proof)
{
	memset(statement, 0, sizeof(*statement));
	memcpy(statement->claims, conn->setup->claims, RSM_REQ_LEN);
	memcpy(statement->exporter_nonce, proof->exporter_nonce, RSM_NONCE_LEN);
	memcpy(statement->importer_nonce, proof->importer_nonce, RSM_NONCE_LEN);
	statement->importer =
		(struct rsm_end){.addr = conn->path.src, .qpn = conn->local.qpn, .psn = conn->local.psn};
	statement->exporter = (struct rsm_end){.addr = conn->path.dst};
}

/* Sends a code for each secret, because the importer does not know which of them the exporter has. */
static bool
meet_challenge(struct conn *conn, const struct config_peer *peer, const uint8_t nonce[RSM_NONCE_LEN])
{
	struct rsm_statement statement;
	struct rsm_proof proof = {0};

	memcpy(proof.exporter_nonce, nonce, RSM_NONCE_LEN);
	rsm_nonce(proof.importer_nonce);
	statement_fill(&statement, conn, &proof);
	for (uint32_t i = 0; i < CONFIG_PEER_SECRETS; i++)
		if (peer->secret[i] != NULL &&
		    !rsm_code(peer->secret[i], RSM_SAYS_REQ, &statement, proof.code[proof.num_codes++]))
			return false;
	rsm_proof_build(&proof, conn->setup->private_data);
	conn->setup->private_len = RSM_PROOF_LEN;
	return true;
}

bool
import_prove(struct conn *conn, const uint8_t *data)
{
	const struct config_peer *peer = rsm_peer_at(&conn->path.dst);
	struct rsm_rej rej;

	if (peer == NULL || peer->secret[0] == NULL || !rsm_rej_parse(data, CM_PRIVATE_REJ, &rej))
		return false;
	if (rej.why == RSM_WHY_CHALLENGE)
		return meet_challenge(conn, peer, rej.nonce);
	if (rej.why != RSM_WHY_STALE)
		return false;
	/* A flood replaced the challenge: repeat the first request. */
	memcpy(conn->setup->private_data, conn->setup->claims, RSM_REQ_LEN);
	conn->setup->private_len = RSM_REQ_LEN;
	return true;
}

/* Indexed by the exporter's reason. RSM_WHY_CODE: no reason, a grant without proof. */
static const struct rsm_unproven unproven[] = {
	[RSM_WHY_CODE] = {"missing", "it grants without a proof, but this host has a secret for it",
			  "give it the same secret_file there, or none here"},
	[RSM_WHY_CHALLENGE] = {"challenged", "it requires a proof again, or this host has no secret for it",
			       "give it the same secret_file here, or none there"},
	[RSM_WHY_MISSING] = {"no_secret", "it requires a proof, but this host has no secret for it",
			     "give it the same secret_file here, or none there"},
	[RSM_WHY_NO_SECRET] = {"missing", "it cannot check a proof, but this host has a secret for it",
			       "give it the same secret_file there, or none here"},
	[RSM_WHY_WRONG] = {"wrong", "it has another secret", "use the same secret_file on both hosts"},
	[RSM_WHY_STALE] = {"stale", "it loses its challenges before they are answered",
			   "find who floods it with connection requests from this host's address"},
};

enum rsm_error
import_check_proof(const struct conn *conn)
{
	const struct config_peer *peer = rsm_peer_at(&conn->path.dst);
	const struct conn_setup *setup = conn->setup;
	struct rsm_statement statement;
	struct rsm_proof proof;

	if (peer == NULL || peer->secret[0] == NULL)
		return RSM_OK;
	if (!rsm_proof_parse(setup->private_data, setup->private_len, &proof) ||
	    setup->remote.private_len < RSM_REP_PROVEN_LEN) {
		rsm_log_unproven("importer", (uint32_t)conn->service, conn, &unproven[RSM_WHY_CODE]);
		return RSM_REMOTE_NODE_UNREACHABLE;
	}
	statement_fill(&statement, conn, &proof);
	statement.exporter.qpn = setup->remote.qpn;
	statement.exporter.psn = setup->remote.psn;
	memcpy(statement.grant, setup->remote.private_data, RSM_REP_LEN);
	if (rsm_code_secret(peer, RSM_SAYS_REP, &statement, &setup->remote.private_data[RSM_REP_LEN]) != NULL)
		return RSM_OK;
	rsm_log_unproven("importer", (uint32_t)conn->service, conn, &rsm_unproven[RSM_WHY_WRONG]);
	return RSM_REMOTE_NODE_UNREACHABLE;
}

void
import_unproven(const struct conn *conn, enum rsm_why why)
{
	if (why != RSM_WHY_CODE)
		rsm_log_unproven("importer", (uint32_t)conn->service, conn, &unproven[why]);
}

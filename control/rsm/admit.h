/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that the peer of an import is the node that it claims to be: by its address, and by a proof
 * (proof.h). */
#ifndef CONTROL_RSM_ADMIT_H
#define CONTROL_RSM_ADMIT_H

#include "control/rsm/rsm.h"
#include "proof.h"

/* ---- admit.c: the exporter's side ---- */

struct rsm_admitted {
	struct rsm_req req;
	const struct config_secret *secret; /* the secret that proves the statement; NULL: none */
	struct rsm_statement statement;
};

/* True: the importer's data plane may claim `admitted->req`. False: the request was refused, or
 * challenged. */
bool rsm_admit(struct segment *segment, struct conn *conn, struct rsm_admitted *admitted);
/* Adds a proof of the grant, from queue pair `qpn`, to the private data if the request was proven. False: no
 * memory. */
bool rsm_admitted_seal(struct rsm_admitted *admitted, struct conn *conn, uint32_t qpn);
void rsm_refuse(struct conn *conn, enum rsm_error code);

/* Reason for rejecting a peer's identity, for the log. */
struct rsm_unproven {
	const char *reason, *text, *remedy;
};
extern const struct rsm_unproven rsm_unproven[]; /* the exporter's reasons, indexed by enum rsm_why */
void rsm_log_unproven(const char *side, uint32_t segment, const struct conn *conn,
		      const struct rsm_unproven *unproven);

/* ---- prove.c: the importer's side ---- */

/* Processes the REJ of an import. True: send another REQ, whose private data is set. */
bool import_prove(struct conn *conn, const uint8_t *data);
/* Checks the REP of an import. RSM_OK: the exporter is the node that was asked. */
enum rsm_error import_check_proof(const struct conn *conn);
/* Logs the reason that an exporter gave for a refusal. */
void import_unproven(const struct conn *conn, enum rsm_why why);

#endif

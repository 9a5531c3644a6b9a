/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the other end of an import is the node that it says: by its address, and by a proof (proof.h). */
#ifndef CONTROL_RSM_ADMIT_H
#define CONTROL_RSM_ADMIT_H

#include "control/rsm/rsm.h"
#include "proof.h"

/* ---- admit.c: the exporter's side ---- */

struct rsm_admitted {
	struct rsm_req req;
	const struct config_secret *secret; /* which the statement is proven by; NULL: by none */
	struct rsm_statement statement;
};

/* What the importer's data plane claims, if it is to be believed.  Else it has been refused, or challenged.
 */
bool rsm_admit(struct segment *segment, struct conn *conn, struct rsm_admitted *admitted);
/* Proves the grant in the private data, from the queue pair `qpn`, where the request was proven; false: no
 * memory. */
bool rsm_admitted_seal(struct rsm_admitted *admitted, struct conn *conn, uint32_t qpn);
void rsm_refuse(struct conn *conn, enum rsm_error code);

/* Why the other end is not believed. */
struct rsm_unproven {
	const char *reason, *text, *remedy;
};
extern const struct rsm_unproven rsm_unproven[]; /* by the exporter, by enum rsm_why */
void rsm_log_unproven(const char *side, uint32_t segment, const struct conn *conn,
		      const struct rsm_unproven *unproven);

/* ---- prove.c: the importer's side ---- */

/* REJ of an import: true when it asks for what the next REQ, now in the private data, says. */
bool import_prove(struct conn *conn, const uint8_t *data);
/* REP of an import: RSM_OK when it is from whom it should be. */
enum rsm_error import_check_proof(const struct conn *conn);
/* What a refusal means that says why; logged. */
void import_unproven(const struct conn *conn, enum rsm_why why);

#endif

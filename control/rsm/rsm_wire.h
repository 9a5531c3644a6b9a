/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The private data of an RSM connection, between data planes.  Numbers are big-endian.
 *
 *   REQ   0 "RSM1"  4 version  5 byte order  6 groups (n)  7 node
 *         8 segment  12 permission (16)  14 partial  16 uid  20 gid  24 incarnation (64)
 *         32 group that the importer is not in  36 n groups
 *   REP   0 "RSM1"  4 version  5 byte order  6 mode (16)
 *         8 size (64)  16 address (64)  24 key  32 incarnation (64)
 *   REJ   0 "RSM1"  4 RSMERR code
 *
 * `partial` is 1 when the importer may be in more groups than those.  `incarnation` is a random number of the
 * sending data plane's process.
 */
#ifndef CONTROL_RSM_WIRE_H
#define CONTROL_RSM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/acl.h"

#define RSM_WIRE_VERSION 2u
#define RSM_REQ_LEN 92u
#define RSM_REP_LEN 40u
#define RSM_REJ_LEN 8u

enum rsm_order { RSM_LITTLE = 1, RSM_BIG = 2 };

struct rsm_req {
	struct acl_who who;
	uint32_t segment, permission;
	uint8_t order; /* enum rsm_order */
	uint64_t incarnation;
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
void rsm_rej_build(enum rsm_error code, uint8_t out[RSM_REJ_LEN]);
/* The code, or 0 when this is not such a refusal. */
uint32_t rsm_rej_parse(const uint8_t *data, uint32_t len);

#endif

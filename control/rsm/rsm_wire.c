/* SPDX-License-Identifier: BSD-3-Clause */
#include "rsm_wire.h"

#include <string.h>

#include "dataplane/wire/bytes.h"

static const uint8_t magic[4] = {'R', 'S', 'M', '1'};
static const uint8_t proof_magic[4] = {'R', 'S', 'M', 'P'};

uint8_t
rsm_own_order(void)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? RSM_LITTLE : RSM_BIG;
}

void
rsm_req_build(const struct rsm_req *req, uint8_t out[RSM_REQ_LEN])
{
	uint32_t groups = req->who.num_groups < ACL_GROUPS ? req->who.num_groups : ACL_GROUPS;

	memset(out, 0, RSM_REQ_LEN);
	memcpy(out, magic, sizeof(magic));
	out[4] = RSM_WIRE_VERSION;
	out[5] = req->order;
	out[6] = (uint8_t)groups;
	out[7] = (uint8_t)req->who.node;
	store_be32(&out[8], req->segment);
	store_be16(&out[12], (uint16_t)req->permission);
	out[14] = req->who.partial;
	out[15] = req->secret;
	store_be32(&out[16], req->who.uid);
	store_be32(&out[20], req->who.gid);
	store_be64(&out[24], req->incarnation);
	store_be32(&out[32], req->who.not_group);
	for (uint32_t i = 0; i < groups; i++)
		store_be32(&out[36 + 4 * i], req->who.group[i]);
}

bool
rsm_req_parse(const uint8_t *data, uint32_t len, struct rsm_req *req)
{
	memset(req, 0, sizeof(*req));
	if (len < RSM_REQ_LEN || memcmp(data, magic, sizeof(magic)) != 0 || data[4] != RSM_WIRE_VERSION ||
	    (data[5] != RSM_LITTLE && data[5] != RSM_BIG) || data[6] > ACL_GROUPS || data[14] > 1 ||
	    data[15] > 1)
		return false;
	req->order = data[5];
	req->who.num_groups = data[6];
	req->who.node = data[7];
	req->segment = load_be32(&data[8]);
	req->permission = load_be16(&data[12]);
	req->who.partial = data[14] != 0;
	req->secret = data[15] != 0;
	req->who.uid = load_be32(&data[16]);
	req->who.gid = load_be32(&data[20]);
	req->incarnation = load_be64(&data[24]);
	req->who.not_group = load_be32(&data[32]);
	for (uint32_t i = 0; i < req->who.num_groups; i++)
		req->who.group[i] = load_be32(&data[36 + 4 * i]);
	return true;
}

void
rsm_rep_build(const struct rsm_rep *rep, uint8_t out[RSM_REP_LEN])
{
	memset(out, 0, RSM_REP_LEN);
	memcpy(out, magic, sizeof(magic));
	out[4] = RSM_WIRE_VERSION;
	out[5] = rep->order;
	store_be16(&out[6], (uint16_t)rep->mode);
	store_be64(&out[8], rep->size);
	store_be64(&out[16], rep->addr);
	store_be32(&out[24], rep->key);
	store_be64(&out[32], rep->incarnation);
}

bool
rsm_rep_parse(const uint8_t *data, uint32_t len, struct rsm_rep *rep)
{
	memset(rep, 0, sizeof(*rep));
	if (len < RSM_REP_LEN || memcmp(data, magic, sizeof(magic)) != 0 || data[4] != RSM_WIRE_VERSION ||
	    (data[5] != RSM_LITTLE && data[5] != RSM_BIG))
		return false;
	rep->order = data[5];
	rep->mode = load_be16(&data[6]);
	rep->size = load_be64(&data[8]);
	rep->addr = load_be64(&data[16]);
	rep->key = load_be32(&data[24]);
	rep->incarnation = load_be64(&data[32]);
	return true;
}

void
rsm_proof_build(const struct rsm_proof *proof, uint8_t out[RSM_PROOF_LEN])
{
	memset(out, 0, RSM_PROOF_LEN);
	memcpy(out, proof_magic, sizeof(proof_magic));
	out[4] = RSM_WIRE_VERSION;
	out[5] = (uint8_t)proof->num_codes;
	memcpy(&out[8], proof->exporter_nonce, RSM_NONCE_LEN);
	memcpy(&out[24], proof->importer_nonce, RSM_NONCE_LEN);
	memcpy(&out[40], proof->code, (size_t)proof->num_codes * RSM_CODE_LEN);
}

bool
rsm_proof_parse(const uint8_t *data, uint32_t len, struct rsm_proof *proof)
{
	memset(proof, 0, sizeof(*proof));
	if (len < RSM_PROOF_LEN || memcmp(data, proof_magic, sizeof(proof_magic)) != 0 ||
	    data[4] != RSM_WIRE_VERSION || data[5] == 0 || data[5] > RSM_CODES)
		return false;
	proof->num_codes = data[5];
	memcpy(proof->exporter_nonce, &data[8], RSM_NONCE_LEN);
	memcpy(proof->importer_nonce, &data[24], RSM_NONCE_LEN);
	memcpy(proof->code, &data[40], (size_t)proof->num_codes * RSM_CODE_LEN);
	return true;
}

void
rsm_rej_build(const struct rsm_rej *rej, uint8_t out[RSM_REJ_LEN])
{
	memset(out, 0, RSM_REJ_LEN);
	memcpy(out, magic, sizeof(magic));
	store_be32(&out[4], rej->code);
	out[8] = (uint8_t)rej->why;
	memcpy(&out[16], rej->nonce, RSM_NONCE_LEN);
}

bool
rsm_rej_parse(const uint8_t *data, uint32_t len, struct rsm_rej *rej)
{
	memset(rej, 0, sizeof(*rej));
	/* The code becomes an 8-bit status other than success. */
	if (len < RSM_REJ_LEN || memcmp(data, magic, sizeof(magic)) != 0 || load_be32(&data[4]) > UINT8_MAX ||
	    load_be32(&data[4]) == 0 || data[8] > RSM_WHY_LAST)
		return false;
	rej->code = load_be32(&data[4]);
	rej->why = (enum rsm_why)data[8];
	memcpy(rej->nonce, &data[16], RSM_NONCE_LEN);
	return true;
}

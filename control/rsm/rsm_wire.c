/* SPDX-License-Identifier: BSD-3-Clause */
#include "rsm_wire.h"

#include <string.h>

static const uint8_t magic[4] = {'R', 'S', 'M', '1'};
static const uint8_t proof_magic[4] = {'R', 'S', 'M', 'P'};

static void
put(uint8_t *at, uint64_t value, unsigned int bytes)
{
	while (bytes-- > 0) {
		at[bytes] = (uint8_t)value;
		value >>= 8;
	}
}

static uint64_t
get(const uint8_t *at, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

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
	put(&out[8], req->segment, 4);
	put(&out[12], req->permission, 2);
	out[14] = req->who.partial;
	out[15] = req->secret;
	put(&out[16], req->who.uid, 4);
	put(&out[20], req->who.gid, 4);
	put(&out[24], req->incarnation, 8);
	put(&out[32], req->who.not_group, 4);
	for (uint32_t i = 0; i < groups; i++)
		put(&out[36 + 4 * i], req->who.group[i], 4);
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
	req->segment = (uint32_t)get(&data[8], 4);
	req->permission = (uint32_t)get(&data[12], 2);
	req->who.partial = data[14] != 0;
	req->secret = data[15] != 0;
	req->who.uid = (uint32_t)get(&data[16], 4);
	req->who.gid = (uint32_t)get(&data[20], 4);
	req->incarnation = get(&data[24], 8);
	req->who.not_group = (uint32_t)get(&data[32], 4);
	for (uint32_t i = 0; i < req->who.num_groups; i++)
		req->who.group[i] = (uint32_t)get(&data[36 + 4 * i], 4);
	return true;
}

void
rsm_rep_build(const struct rsm_rep *rep, uint8_t out[RSM_REP_LEN])
{
	memset(out, 0, RSM_REP_LEN);
	memcpy(out, magic, sizeof(magic));
	out[4] = RSM_WIRE_VERSION;
	out[5] = rep->order;
	put(&out[6], rep->mode, 2);
	put(&out[8], rep->size, 8);
	put(&out[16], rep->addr, 8);
	put(&out[24], rep->key, 4);
	put(&out[32], rep->incarnation, 8);
}

bool
rsm_rep_parse(const uint8_t *data, uint32_t len, struct rsm_rep *rep)
{
	memset(rep, 0, sizeof(*rep));
	if (len < RSM_REP_LEN || memcmp(data, magic, sizeof(magic)) != 0 || data[4] != RSM_WIRE_VERSION ||
	    (data[5] != RSM_LITTLE && data[5] != RSM_BIG))
		return false;
	rep->order = data[5];
	rep->mode = (uint32_t)get(&data[6], 2);
	rep->size = get(&data[8], 8);
	rep->addr = get(&data[16], 8);
	rep->key = (uint32_t)get(&data[24], 4);
	rep->incarnation = get(&data[32], 8);
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
	put(&out[4], rej->code, 4);
	out[8] = (uint8_t)rej->why;
	memcpy(&out[16], rej->nonce, RSM_NONCE_LEN);
}

bool
rsm_rej_parse(const uint8_t *data, uint32_t len, struct rsm_rej *rej)
{
	memset(rej, 0, sizeof(*rej));
	/* The code becomes a status of 8 bits, and is never success. */
	if (len < RSM_REJ_LEN || memcmp(data, magic, sizeof(magic)) != 0 || get(&data[4], 4) > UINT8_MAX ||
	    get(&data[4], 4) == 0 || data[8] > RSM_WHY_LAST)
		return false;
	rej->code = (uint32_t)get(&data[4], 4);
	rej->why = (enum rsm_why)data[8];
	memcpy(rej->nonce, &data[16], RSM_NONCE_LEN);
	return true;
}

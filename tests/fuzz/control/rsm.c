/* SPDX-License-Identifier: BSD-3-Clause */
/* RSM's private data: an accepted request, answer or refusal has the same contents when built and parsed
 * again. */
#include <string.h>

#include "control/rsm/rsm_wire.h"
#include "tests/fuzz/base/records.h"

static void
request(const uint8_t *data, uint32_t len)
{
	struct rsm_req req, again;
	uint8_t out[RSM_REQ_LEN];

	if (!rsm_req_parse(data, len, &req))
		return;
	if (req.who.num_groups > ACL_GROUPS)
		fuzz_fail("more groups than there is room for");
	rsm_req_build(&req, out);
	if (!rsm_req_parse(out, sizeof(out), &again) || memcmp(&req, &again, sizeof(req)) != 0)
		fuzz_fail("a request that changes on its way");
}

static void
answer(const uint8_t *data, uint32_t len)
{
	struct rsm_rep rep, again;
	uint8_t out[RSM_REP_LEN];

	if (!rsm_rep_parse(data, len, &rep))
		return;
	rsm_rep_build(&rep, out);
	if (!rsm_rep_parse(out, sizeof(out), &again) || memcmp(&rep, &again, sizeof(rep)) != 0)
		fuzz_fail("an answer that changes on its way");
}

static void
proof(const uint8_t *data, uint32_t len)
{
	struct rsm_proof proof, again;
	uint8_t out[RSM_PROOF_LEN];

	if (!rsm_proof_parse(data, len, &proof))
		return;
	if (proof.num_codes == 0 || proof.num_codes > RSM_CODES)
		fuzz_fail("more codes than there is room for, or none");
	rsm_proof_build(&proof, out);
	if (!rsm_proof_parse(out, sizeof(out), &again) || memcmp(&proof, &again, sizeof(proof)) != 0)
		fuzz_fail("a proof that changes on its way");
}

static void
refusal(const uint8_t *data, uint32_t len)
{
	struct rsm_rej rej, again;
	uint8_t out[RSM_REJ_LEN];

	if (!rsm_rej_parse(data, len, &rej))
		return;
	if (rej.code == 0 || rej.code > UINT8_MAX)
		fuzz_fail("a refusal that is success");
	rsm_rej_build(&rej, out);
	if (!rsm_rej_parse(out, sizeof(out), &again) || memcmp(&rej, &again, sizeof(rej)) != 0)
		fuzz_fail("a refusal that changes on its way");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	request(data, (uint32_t)size);
	answer(data, (uint32_t)size);
	proof(data, (uint32_t)size);
	refusal(data, (uint32_t)size);
	return 0;
}

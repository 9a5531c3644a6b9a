/* SPDX-License-Identifier: BSD-3-Clause */
/* Notes (refused.h) on refused transitions, with the names of states and attributes. */
#include <stdio.h>

#include "verbs/refused.h"
#include "verbs/qp.h"

#define NAMES_MAX 320

static const char *
state_name(enum ibv_qp_state state)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",     [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return (unsigned int)state < sizeof(names) / sizeof(names[0]) ? names[state] : "none";
}

/* Prints the attributes of a mask: "IBV_QP_AV, IBV_QP_PATH_MTU". */
static const char *
mask_names(int mask, char names[NAMES_MAX])
{
	static const struct {
		int bit;
		const char *name;
	} bits[] = {
#define BIT(name) {name, #name}
		BIT(IBV_QP_STATE),
		BIT(IBV_QP_CUR_STATE),
		BIT(IBV_QP_EN_SQD_ASYNC_NOTIFY),
		BIT(IBV_QP_ACCESS_FLAGS),
		BIT(IBV_QP_PKEY_INDEX),
		BIT(IBV_QP_PORT),
		BIT(IBV_QP_QKEY),
		BIT(IBV_QP_AV),
		BIT(IBV_QP_PATH_MTU),
		BIT(IBV_QP_TIMEOUT),
		BIT(IBV_QP_RETRY_CNT),
		BIT(IBV_QP_RNR_RETRY),
		BIT(IBV_QP_RQ_PSN),
		BIT(IBV_QP_MAX_QP_RD_ATOMIC),
		BIT(IBV_QP_ALT_PATH),
		BIT(IBV_QP_MIN_RNR_TIMER),
		BIT(IBV_QP_SQ_PSN),
		BIT(IBV_QP_MAX_DEST_RD_ATOMIC),
		BIT(IBV_QP_PATH_MIG_STATE),
		BIT(IBV_QP_CAP),
		BIT(IBV_QP_DEST_QPN),
		BIT(IBV_QP_RATE_LIMIT),
#undef BIT
	};
	size_t len = 0;

	names[0] = '\0';
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]) && len < NAMES_MAX; i++) {
		if ((mask & bits[i].bit) != 0)
			len += (size_t)snprintf(names + len, NAMES_MAX - len, "%s%s", len != 0 ? ", " : "",
						bits[i].name);
		mask &= ~bits[i].bit;
	}
	if (mask != 0 && len < NAMES_MAX)
		snprintf(names + len, NAMES_MAX - len, "%s%#x", len != 0 ? ", " : "", (unsigned int)mask);
	return names;
}

int
qp_explain_transition(enum ibv_qp_state from, enum ibv_qp_state to, const struct transition *t, int mask)
{
	int missing = t != NULL ? t->required & ~mask : 0;
	char names[NAMES_MAX];

	if (t == NULL)
		return refused_because(
			EINVAL,
			"attr->qp_state = %s: the queue pair is in %s, and this transition does not exist; go by RESET, INIT, RTR, RTS",
			state_name(to), state_name(from));
	if (missing != 0)
		return refused_because(EINVAL, "attr_mask = %#x: from %s to %s requires %s; set these, too",
				       (unsigned int)mask, state_name(from), state_name(to),
				       mask_names(missing, names));
	return refused_because(EINVAL, "attr_mask = %#x: from %s to %s does not allow %s; leave these out",
			       (unsigned int)mask, state_name(from), state_name(to),
			       mask_names(mask & ~(t->required | t->optional), names));
}

int
qp_explain_state(struct qp *qp, const char *needed)
{
	return refused_because(EINVAL, "qp->state = %s: posting is not allowed; ibv_modify_qp to %s first",
			       state_name(qp_state(qp)), needed);
}

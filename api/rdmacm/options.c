/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of connections, from an id's options and a call's parameters. */
#include <string.h>

#include "rdmacm/id.h"

#define CODE_MAX 31u
#define RETRIES_MAX 7u

static uint8_t
at_most_seven(uint8_t retries)
{
	return retries < RETRIES_MAX ? retries : RETRIES_MAX;
}

void
param_fill(const struct id *id, const struct rdma_conn_param *param, struct one_conn_param *out)
{
	*out = id->options;
	out->given |= ONE_CONN_RNR_RETRY | ONE_CONN_RETRY_COUNT | ONE_CONN_STEPWISE;
	out->rnr_retry = param != NULL ? at_most_seven(param->rnr_retry_count) : RETRIES_MAX;
	out->retry_count = param != NULL ? at_most_seven(param->retry_count) : RETRIES_MAX;
}

bool
param_valid(const struct id *id, const struct rdma_conn_param *param)
{
	uint32_t max = verbs_cm_info(id->base.verbs)->limits.max_rd_atomic;

	if (param == NULL)
		return true;
	return (param->responder_resources == RDMA_MAX_RESP_RES ||
		refused_range("conn_param->responder_resources", param->responder_resources, 0, max) == 0) &&
	       (param->initiator_depth == RDMA_MAX_INIT_DEPTH ||
		refused_range("conn_param->initiator_depth", param->initiator_depth, 0, max) == 0);
}

/* ---- rdma_set_option ---- */

static int
set_byte(struct id *id, int name, const void *value, size_t len)
{
	uint8_t byte;

	if (len != sizeof(byte))
		return EINVAL;
	memcpy(&byte, value, sizeof(byte));
	if (name == RDMA_OPTION_ID_TOS) {
		id->options.traffic_class = byte;
		id->options.given |= ONE_CONN_TRAFFIC_CLASS;
		return 0;
	}
	if (byte > CODE_MAX)
		return EINVAL;
	id->options.ack_timeout = byte;
	id->options.given |= ONE_CONN_ACK_TIMEOUT;
	return 0;
}

static int
set_int(struct id *id, int name, const void *value, size_t len)
{
	int number;

	if (len != sizeof(number))
		return EINVAL;
	memcpy(&number, value, sizeof(number));
	if (name == RDMA_OPTION_ID_REUSEADDR) {
		if (id->bound)
			return EINVAL;
		id->reuseaddr = number != 0;
		return 0;
	}
	if (id->listens)
		return EINVAL;
	id->afonly = number != 0;
	return 0;
}

static int
set_option(struct id *id, int level, int name, const void *value, size_t len)
{
	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		return EOPNOTSUPP;
	if (level != RDMA_OPTION_ID)
		return ENOSYS;
	switch (name) {
	case RDMA_OPTION_ID_TOS:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		return set_byte(id, name, value, len);
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		return set_int(id, name, value, len);
	default:
		return ENOSYS;
	}
}

int
rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
	int error;

	pthread_mutex_lock(&cma_lock);
	error = set_option(TO_ID(id), level, name, value, len);
	pthread_mutex_unlock(&cma_lock);
	if (error != 0)
		refused_because(
			error,
			"optname = %d of level %d, %zu bytes: unknown option, bad value or length, or not allowed in this state of the id; see rdma_set_option(3)",
			name, level, len);
	return cma_end(__func__, error, id);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake engine takes no part in a take-over: nothing is quiet, and no record is valid. */
#include <errno.h>

#include "dataplane/engine/takeover.h"

int
engine_start(void)
{
	return 0;
}

void
engine_stop(void)
{
}

bool
engine_is_quiet(void)
{
	return false;
}

bool
engine_lane_is_quiet(const struct engine_client *lane)
{
	return false;
}

int
engine_qp_freeze(struct engine_qp *qp, struct engine_move **move)
{
	return -EAGAIN;
}

void
engine_qp_unfreeze(struct engine_move *move)
{
}

const char *
engine_port_obstacle(uint32_t number)
{
	return NULL;
}

void
engine_ports_close(void)
{
}

int
engine_ports_reopen(char *why, size_t why_len)
{
	return 0;
}

void
engine_counters_write(struct record_out *out)
{
}

int
engine_core_read(const struct record *record)
{
	return -EINVAL;
}

int
engine_port_read(const struct record *record)
{
	return -EINVAL;
}

void
engine_lane_write(const struct engine_client *lane, struct record_out *out)
{
}

void
engine_cq_write(const struct engine_cq *cq, struct record_out *out)
{
}

void
engine_srq_write(const struct engine_srq *srq, struct record_out *out)
{
}

void
engine_qp_write(const struct engine_qp *qp, const struct engine_move *move, struct record_out *out)
{
}

int
engine_cq_last_report(const struct engine_cq *first)
{
	return -1;
}

uint64_t
engine_lane_channels(const struct engine_client *lane)
{
	return 0;
}

uint64_t
engine_lane_keys(const struct engine_client *lane)
{
	return 0;
}

uint64_t
engine_lane_copies(const struct engine_client *lane)
{
	return 0;
}

uint32_t
engine_lane_handed_over(const struct engine_client *lane)
{
	return 0;
}

uint16_t
engine_room(void)
{
	return 0;
}

bool
engine_cores_respond(void)
{
	return false;
}

bool
engine_lane_continue(struct engine_client *lane, uint64_t copies, uint32_t handed_over)
{
	return false;
}

int
engine_lane_read(struct engine_client *lane, const struct record *record)
{
	return -EINVAL;
}

void
engine_forwards_write(const struct engine_client *home, struct record_out *out)
{
}

int
engine_forward_read(struct engine_client *home, const struct record *record)
{
	return -EINVAL;
}

int
engine_cq_read(struct engine_cq *cq, const struct record *record)
{
	return -EINVAL;
}

void
engine_cq_set_last_report(struct engine_cq *first, struct engine_cq *last)
{
}

int
engine_srq_read(struct engine_srq *srq, const struct record *record)
{
	return -EINVAL;
}

int
engine_qp_read(struct engine_qp *qp, const struct record *record, const struct record *rc, bool added)
{
	return -EINVAL;
}

void
engine_qp_go_on(struct engine_qp *qp)
{
}

void
engine_channel_set(struct engine_client *client, uint32_t id, int fd)
{
}

bool
engine_ipsec_hold(void)
{
	return true;
}

void
engine_ipsec_release(void)
{
}

int
engine_ipsec_directory(void)
{
	return -1;
}

void
engine_ipsec_inherit(int fd)
{
}

void
engine_ipsec_write(struct record_out *out)
{
}

int
engine_ipsec_read(const struct record *record)
{
	return -EINVAL;
}

int
engine_ipsec_begin(char *why, size_t why_len)
{
	return 0;
}

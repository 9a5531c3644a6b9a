/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, one for each port of the data plane, and what they are like. */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include "verbs/base/context.h"
#include "verbs/base/gid.h"

/* ---- devices.c ---- */
int device_watch_forks(void); /* a child finds their list unlocked; -errno */
int device_port(struct one_client *client, uint32_t index, struct one_port *out); /* -errno */
__be64 device_guid(uint64_t hwaddr);

/* ---- query.c ---- */
int device_query_port(struct ibv_context *base, uint8_t port, struct ibv_port_attr *attr, size_t len);
int device_query_ex(struct ibv_context *base, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t size);
int device_query_rt_values(struct ibv_context *base, struct ibv_values_ex *values);
static inline void
device_gid(const struct context *context, union ibv_gid *gid)
{
	gid_of_address(context->info->family, context->info->addr, gid);
}
/* The address a GID stands for on a port of `family`; false: none of that family. */
bool device_address(const union ibv_gid *gid, uint16_t family, uint8_t addr[16]);
enum ibv_mtu device_mtu_code(uint16_t bytes);

#endif

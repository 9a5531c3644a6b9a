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
/* `index` is below context->num_addrs. */
static inline void
device_gid(const struct context *context, uint32_t index, union ibv_gid *gid)
{
	gid_of_address(context->addr[index].family, context->addr[index].addr, gid);
}
/* The place of one of the port's own GIDs; num_addrs: it is not the port's. */
uint32_t device_gid_index(const struct context *context, const union ibv_gid *gid);
/* The address that a GID stands for; its family. */
uint16_t device_address(const union ibv_gid *gid, uint8_t addr[16]);
/* Reads the addresses of the context's port; -errno. */
int device_read_addrs(struct context *context);
enum ibv_mtu device_mtu_code(uint16_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, one per port of the data plane, and their attributes. */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include "verbs/context.h"
#include "verbs/gid.h"

/* ---- devices.c ---- */
int device_port(struct one_client *client, uint32_t index, struct one_port *out); /* returns 0 or -errno */
__be64 device_guid(uint64_t hwaddr);

/* ---- query.c ---- */
int device_query_port(struct ibv_context *base, uint8_t port, struct ibv_port_attr *attr, size_t len);
int device_query_ex(struct ibv_context *base, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t size);
int device_query_rt_values(struct ibv_context *base, struct ibv_values_ex *values);
/* `index` must be less than context->num_addrs. */
static inline void
device_gid(const struct context *context, uint32_t index, union ibv_gid *gid)
{
	gid_of_address(context->addr[index].family, context->addr[index].addr, gid);
}
/* Returns the index of one of the port's GIDs; num_addrs if the port does not have that GID. */
uint32_t device_gid_index(const struct context *context, const union ibv_gid *gid);
/* Converts a GID to its address.  Returns the family. */
uint16_t device_address(const union ibv_gid *gid, uint8_t addr[16]);
/* Reads the addresses of the context's port.  Returns 0 or -errno. */
int device_read_addrs(struct context *context);
enum ibv_mtu device_mtu_code(uint16_t bytes);

#endif

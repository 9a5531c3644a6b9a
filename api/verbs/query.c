/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of a device and its port. */
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include "verbs/refused.h"
#include "verbs/device.h"

#define NO_VENDOR 0xffffffu /* an unassigned OUI, which other devices without a vendor have as well */
#define PAGE_SIZES 0xfffff000ull
#define CORE_CLOCK_KHZ 1000000u

static void
fill_device(struct context *context, struct ibv_device_attr *attr)
{
	const struct one_limits *limits = &context->info->limits;
	int sges = (int)(limits->max_sge < ONE_MAX_SGE ? limits->max_sge : ONE_MAX_SGE);

	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, ONESIDE_VERSION);
	attr->node_guid = device_guid(context->device->hwaddr);
	attr->sys_image_guid = attr->node_guid;
	attr->max_mr_size = limits->max_mr_bytes;
	attr->page_size_cap = PAGE_SIZES;
	attr->vendor_id = NO_VENDOR;
	attr->hw_ver = ONE_ABI_VERSION;
	attr->max_qp = (int)limits->max_qp;
	attr->max_qp_wr = (int)limits->max_qp_wr;
	attr->device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				 IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SRQ_RESIZE;
	attr->max_sge = sges;
	attr->max_sge_rd = sges;
	attr->max_cq = (int)limits->max_cq;
	attr->max_cqe = (int)limits->max_cq_entries;
	attr->max_mr = (int)limits->max_mr;
	attr->max_mw = (int)limits->max_mw;
	attr->max_pd = (int)limits->max_pz;
	attr->max_qp_rd_atom = (int)limits->max_rd_atomic;
	attr->max_qp_init_rd_atom = (int)limits->max_rd_atomic;
	attr->max_res_rd_atom = (int)(limits->max_rd_atomic * limits->max_qp);
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->max_ah = (int)limits->max_ah;
	attr->max_srq = (int)limits->max_srq;
	attr->max_srq_wr = (int)limits->max_srq_wr;
	attr->max_srq_sge = sges;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
}

int
ibv_query_device(struct ibv_context *base, struct ibv_device_attr *attr)
{
	struct context *context = context_of(base);

	if (one_client_dead(context->client))
		return EIO;
	fill_device(context, attr);
	return 0;
}

/* The device's clock is the host's CLOCK_MONOTONIC_RAW, in ns. */
int
device_query_rt_values(struct ibv_context *base, struct ibv_values_ex *values)
{
	struct timespec now;

	if ((values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK) != 0) {
		refused_because(
			EINVAL,
			"values->comp_mask = %#x: only IBV_VALUES_MASK_RAW_CLOCK is supported; give that",
			values->comp_mask);
		return refused_explain("ibv_query_rt_values_ex", EINVAL, "context", base);
	}
	if (values->comp_mask == 0)
		return 0;
	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	/* Like other devices: all ticks in tv_nsec, which may exceed a second. */
	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = now.tv_sec * 1000000000l + now.tv_nsec;
	return 0;
}

/* Fills `size` bytes: the caller's structure may be shorter or longer. */
static int
query_all(struct context *context, struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex full = {0};
	int error = ibv_query_device(&context->verbs.context, &full.orig_attr);

	if (error != 0)
		return error;
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
	full.hca_core_clock = CORE_CLOCK_KHZ;
	memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

int
device_query_ex(struct ibv_context *base, const struct ibv_query_device_ex_input *input,
		struct ibv_device_attr_ex *attr, size_t size)
{
	if (input != NULL && input->comp_mask != 0)
		return EINVAL;
	if (size < sizeof(attr->orig_attr) + sizeof(attr->comp_mask))
		return EINVAL;
	memset(attr, 0, size);
	return query_all(context_of(base), attr, size);
}

/* ---- ports ---- */

enum ibv_mtu
device_mtu_code(uint16_t bytes)
{
	enum ibv_mtu code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && 256u << code <= bytes)
		code++;
	return code;
}

/* Chooses IBTA's fastest width and speed up to `mbps`, at least the slowest. */
static void
fill_speed(uint32_t mbps, struct ibv_port_attr *attr)
{
	static const struct {
		uint32_t mbps;
		uint8_t width, speed;
	} known[] = {
		{400000, 2, 128}, {200000, 2, 64}, {100000, 2, 32}, {50000, 1, 64},
		{40000, 2, 4},    {25000, 1, 32},  {10000, 1, 4},   {2500, 1, 1},
	};
	size_t i = 0;

	while (i + 1 < sizeof(known) / sizeof(known[0]) && mbps < known[i].mbps)
		i++;
	attr->active_width = known[i].width;
	attr->active_speed = known[i].speed;
}

int
device_query_port(struct ibv_context *base, uint8_t number, struct ibv_port_attr *attr, size_t len)
{
	struct context *context = context_of(base);
	struct ibv_port_attr full = {0};
	struct one_port port;
	int error;

	error = refused_range("port_num", number, VERBS_PORT, VERBS_PORT);
	if (error != 0)
		return refused_explain("ibv_query_port", error, "context", base);
	error = device_port(context->client, context->info->port_index, &port);
	if (error != 0)
		return refused_explain("ibv_query_port", error == -ECONNRESET ? EIO : -error, "context",
				       base);
	full.state = port.link_up != 0 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	full.phys_state = port.link_up != 0 ? 5 : 3; /* LinkUp, Disabled */
	full.max_mtu = IBV_MTU_4096;
	full.active_mtu = device_mtu_code(context->info->mtu);
	full.gid_tbl_len = (int)context->num_addrs;
	full.pkey_tbl_len = 1;
	full.max_msg_sz = ONE_MESSAGE_MAX;
	full.max_vl_num = 1;
	full.port_cap_flags = IBV_PORT_CM_SUP;
	full.flags = IBV_QPF_GRH_REQUIRED;
	full.link_layer = IBV_LINK_LAYER_ETHERNET;
	fill_speed(port.mbps, &full);
	memcpy(attr, &full, len < sizeof(full) ? len : sizeof(full));
	if (len > sizeof(full))
		memset((char *)attr + sizeof(full), 0, len - sizeof(full));
	return 0;
}

#undef ibv_query_port
int
ibv_query_port(struct ibv_context *base, uint8_t number, struct _compat_ibv_port_attr *attr)
{
	/* A program that was built with an older header has no room for port_cap_flags2. */
	return device_query_port(base, number, (struct ibv_port_attr *)(void *)attr,
				 offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* ---- addresses ---- */

int
device_read_addrs(struct context *context)
{
	struct one_port port;
	int error = device_port(context->client, context->info->port_index, &port);

	if (error != 0)
		return error;
	if (port.num_addrs == 0 || port.num_addrs > ONE_PORT_ADDRS_MAX)
		return -EPROTO;
	context->num_addrs = port.num_addrs;
	memcpy(context->addr, port.addr, sizeof(context->addr));
	return 0;
}

uint32_t
device_gid_index(const struct context *context, const union ibv_gid *gid)
{
	union ibv_gid own;
	uint32_t i = 0;

	for (; i < context->num_addrs; i++) {
		device_gid(context, i, &own);
		if (memcmp(&own, gid, sizeof(own)) == 0)
			break;
	}
	return i;
}

uint16_t
device_address(const union ibv_gid *gid, uint8_t addr[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool v4 = memcmp(gid->raw, mapped, sizeof(mapped)) == 0;

	memset(addr, 0, 16);
	memcpy(addr, v4 ? gid->raw + 12 : gid->raw, v4 ? 4 : 16);
	return v4 ? AF_INET : AF_INET6;
}

static bool
is_gid(struct ibv_context *base, uint32_t port, uint32_t index)
{
	int error = refused_range("port_num", port, VERBS_PORT, VERBS_PORT);

	if (error == 0)
		error = refused_range("index", index, 0, context_of(base)->num_addrs - 1);
	if (error == 0)
		return true;
	errno = refused_explain("ibv_query_gid", error, "context", base);
	return false;
}

int
ibv_query_gid(struct ibv_context *base, uint8_t port, int index, union ibv_gid *gid)
{
	if (!is_gid(base, port, (uint32_t)index))
		return -1;
	device_gid(context_of(base), (uint32_t)index, gid);
	return 0;
}

/* A private call of ibv_devinfo; type 1 is RoCE v2. */
int ibv_query_gid_type(struct ibv_context *base, uint8_t port, unsigned int index, int *type);

int
ibv_query_gid_type(struct ibv_context *base, uint8_t port, unsigned int index, int *type)
{
	if (!is_gid(base, port, index))
		return -1;
	*type = 1;
	return 0;
}

int
_ibv_query_gid_ex(struct ibv_context *base, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		  uint32_t flags, size_t size)
{
	struct ibv_gid_entry full = {.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};

	if (flags != 0)
		return EOPNOTSUPP;
	if (!is_gid(base, port, index))
		return EINVAL;
	device_gid(context_of(base), index, &full.gid);
	memcpy(entry, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

ssize_t
_ibv_query_gid_table(struct ibv_context *base, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
		     size_t size)
{
	uint32_t n = context_of(base)->num_addrs;
	int error = 0;

	if (max < n)
		return -EINVAL;
	for (uint32_t i = 0; i < n && error == 0; i++)
		error = _ibv_query_gid_ex(base, VERBS_PORT, i,
					  (struct ibv_gid_entry *)(void *)((char *)entries + i * size), flags,
					  size);
	return error != 0 ? -error : (ssize_t)n;
}

int
ibv_query_pkey(struct ibv_context *base, uint8_t port, int index, __be16 *pkey)
{
	if (port != VERBS_PORT || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htons(0xffff);
	return 0;
}

int
ibv_get_pkey_index(struct ibv_context *base, uint8_t port, __be16 pkey)
{
	if (port == VERBS_PORT && pkey == htons(0xffff))
		return 0;
	errno = EINVAL;
	return -1;
}

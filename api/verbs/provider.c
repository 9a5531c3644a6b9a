/* SPDX-License-Identifier: BSD-3-Clause */
/* Symbols for the loader.  Programs are linked with the distribution's provider libraries (libmlx5, libefa)
 * and librdmacm, which import these names.  This library has no providers and calls no kernel driver, so each
 * function fails or does nothing. */
#include <limits.h>
#include <stdio.h>

#include "verbs/context.h"

#define REFUSED(name)              \
	int name(void);            \
	int name(void)             \
	{                          \
		return EOPNOTSUPP; \
	}
#define NOTHING(name)               \
	void *name(void);           \
	void *name(void)            \
	{                           \
		errno = EOPNOTSUPP; \
		return NULL;        \
	}
#define IGNORED(name)    \
	void name(void); \
	void name(void)  \
	{                \
	}

IGNORED(verbs_register_driver_34)
IGNORED(verbs_set_ops)
IGNORED(verbs_uninit_context)
IGNORED(__verbs_log)
NOTHING(_verbs_init_and_alloc_context)
NOTHING(verbs_open_device)
REFUSED(__ioctl_final_num_attrs)
REFUSED(execute_ioctl)
REFUSED(verbs_allow_disassociate_destroy)
REFUSED(verbs_init_cq)
REFUSED(ibv_cmd_advise_mr)
REFUSED(ibv_cmd_alloc_dm)
REFUSED(ibv_cmd_alloc_mw)
REFUSED(ibv_cmd_alloc_pd)
REFUSED(ibv_cmd_attach_mcast)
REFUSED(ibv_cmd_close_xrcd)
REFUSED(ibv_cmd_create_ah)
REFUSED(ibv_cmd_create_counters)
REFUSED(ibv_cmd_create_cq)
REFUSED(ibv_cmd_create_cq_ex)
REFUSED(ibv_cmd_create_flow)
REFUSED(ibv_cmd_create_flow_action_esp)
REFUSED(ibv_cmd_create_qp)
REFUSED(ibv_cmd_create_qp_ex)
REFUSED(ibv_cmd_create_qp_ex2)
REFUSED(ibv_cmd_create_rwq_ind_table)
REFUSED(ibv_cmd_create_srq)
REFUSED(ibv_cmd_create_srq_ex)
REFUSED(ibv_cmd_create_wq)
REFUSED(ibv_cmd_dealloc_mw)
REFUSED(ibv_cmd_dealloc_pd)
REFUSED(ibv_cmd_dereg_mr)
REFUSED(ibv_cmd_destroy_ah)
REFUSED(ibv_cmd_destroy_counters)
REFUSED(ibv_cmd_destroy_cq)
REFUSED(ibv_cmd_destroy_flow)
REFUSED(ibv_cmd_destroy_flow_action)
REFUSED(ibv_cmd_destroy_qp)
REFUSED(ibv_cmd_destroy_rwq_ind_table)
REFUSED(ibv_cmd_destroy_srq)
REFUSED(ibv_cmd_destroy_wq)
REFUSED(ibv_cmd_detach_mcast)
REFUSED(ibv_cmd_free_dm)
REFUSED(ibv_cmd_get_context)
REFUSED(ibv_cmd_modify_cq)
REFUSED(ibv_cmd_modify_flow_action_esp)
REFUSED(ibv_cmd_modify_qp)
REFUSED(ibv_cmd_modify_qp_ex)
REFUSED(ibv_cmd_modify_srq)
REFUSED(ibv_cmd_modify_wq)
REFUSED(ibv_cmd_open_qp)
REFUSED(ibv_cmd_open_xrcd)
REFUSED(ibv_cmd_poll_cq)
REFUSED(ibv_cmd_post_recv)
REFUSED(ibv_cmd_post_send)
REFUSED(ibv_cmd_post_srq_recv)
REFUSED(ibv_cmd_query_context)
REFUSED(ibv_cmd_query_device_any)
REFUSED(ibv_cmd_query_mr)
REFUSED(ibv_cmd_query_port)
REFUSED(ibv_cmd_query_qp)
REFUSED(ibv_cmd_query_srq)
REFUSED(ibv_cmd_read_counters)
REFUSED(ibv_cmd_reg_dm_mr)
REFUSED(ibv_cmd_reg_dmabuf_mr)
REFUSED(ibv_cmd_reg_mr)
REFUSED(ibv_cmd_req_notify_cq)
REFUSED(ibv_cmd_rereg_mr)
REFUSED(ibv_cmd_resize_cq)
IGNORED(ibv_copy_ah_attr_from_kern)
IGNORED(ibv_copy_qp_attr_from_kern)
IGNORED(ibv_copy_path_rec_from_kern)
IGNORED(ibv_copy_path_rec_to_kern)

/* ---- sysfs, where kernel drivers describe their devices ---- */

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct ibv_device *device, const char *format, ...);

const char *
ibv_get_sysfs_path(void)
{
	return "/sys";
}

/* Returns, like rdma-core, the length without the trailing newline, or -1. */
int
ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	size_t n;
	FILE *in;

	if (dir[0] == '\0' || (size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
		return -1;
	in = fopen(path, "re");
	if (in == NULL)
		return -1;
	n = fread(buf, 1, size, in);
	fclose(in);
	if (n == 0)
		return -1;
	if (buf[n - 1] == '\n')
		buf[--n] = '\0';
	else if (n < size)
		buf[n] = '\0';
	else
		return -1;
	return (int)n;
}

int
ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct ibv_device *device, const char *format, ...)
{
	errno = ENOENT;
	return -1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Access list of an RSM segment: who may import the segment, and with which rights. Checked only when an
 * import connects, by the exporter's node. */
#ifndef CONTROL_ACL_H
#define CONTROL_ACL_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/message.h"

/* Error codes of rsmapi.h that the control thread returns. */
enum rsm_error {
	RSM_OK = 0,
	RSM_CTLR_NOT_PRESENT = 4,
	RSM_BAD_SEG_HNDL = 5,
	RSM_SEG_ALREADY_PUBLISHED = 6,
	RSM_SEG_NOT_PUBLISHED = 7,
	RSM_SEG_NOT_PUBLISHED_TO_NODE = 8,
	RSM_BAD_ACL = 21,
	RSM_RESERVED_SEGID = 23,
	RSM_SEGID_IN_USE = 24,
	RSM_BAD_PERMS = 26,
	RSM_PERM_DENIED = 27,
	RSM_INSUFFICIENT_RESOURCES = 31,
	RSM_INSUFFICIENT_MEM = 32,
	RSM_MAP_FAILED = 33,
	RSM_REMOTE_NODE_UNREACHABLE = 39,
	RSM_CONN_ABORTED = 40,
	RSM_INTERRUPTED = 41,
	RSM_INTERNAL_ERROR = 100,
	RSM_BAD_DRIVER_VERSION = 101,
	RSM_BAD_ARGS_ERRORS = 117
};

#define ACL_NODE_MAX 64u /* a list with a higher node id is malformed */
#define ACL_READ 0400u
#define ACL_WRITE 0200u
#define ACL_GROUPS 14u          /* room in a request */
#define ACL_NO_GROUP UINT32_MAX /* not a valid gid */

struct acl {
	uint32_t uid, gid;           /* of the exporter */
	uint32_t default_permission; /* applies if the list is empty */
	uint32_t num;
	struct one_rsm_access entry[ONE_RSM_ACL_MAX];
};

/* Importer. */
struct acl_who {
	uint32_t node;
	uint32_t uid, gid;
	uint32_t num_groups;
	uint32_t group[ACL_GROUPS];
	bool partial;       /* `group` may be incomplete, */
	uint32_t not_group; /* but the importer is certainly not in this group */
};

/* Returns RSM_OK or RSM_BAD_ACL. */
enum rsm_error acl_valid(const struct one_rsm_access *entry, uint32_t num);
/* May `who` have the rights in `permission` (0400 read, 0200 write)? */
enum rsm_error acl_check(const struct acl *acl, const struct acl_who *who, uint32_t permission);
/* May a publisher request this segment id? */
enum rsm_error acl_segment_id(uint32_t segment);

#endif

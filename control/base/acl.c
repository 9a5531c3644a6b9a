/* SPDX-License-Identifier: BSD-3-Clause */
#include "acl.h"

#define SEGMENT_ID_FIRST 0x400000u
#define SEGMENT_ID_LAST 0x7fffffffu

enum rsm_error
acl_valid(const struct one_rsm_access *entry, uint32_t num)
{
	if (num > ONE_RSM_ACL_MAX)
		return RSM_BAD_ACL;
	for (uint32_t i = 0; i < num; i++)
		if (entry[i].node > ACL_NODE_MAX || entry[i].permission > 0666)
			return RSM_BAD_ACL;
	return RSM_OK;
}

static bool
in_group(const struct acl_who *who, uint32_t gid)
{
	if (who->gid == gid)
		return true;
	for (uint32_t i = 0; i < who->num_groups && i < ACL_GROUPS; i++)
		if (who->group[i] == gid)
			return true;
	return false;
}

enum rsm_error
acl_check(const struct acl *acl, const struct acl_who *who, uint32_t permission)
{
	uint32_t mode = acl->default_permission, digit;

	if ((permission & ~(ACL_READ | ACL_WRITE)) != 0)
		return RSM_PERM_DENIED;
	if (acl->num != 0) {
		uint32_t i = 0;

		while (i < acl->num && acl->entry[i].node != who->node)
			i++;
		if (i == acl->num)
			return RSM_SEG_NOT_PUBLISHED_TO_NODE;
		mode = acl->entry[i].permission;
	}
	/* Only one class applies, as for files, even if another would grant more. If the class is unknown,
	 * grant only what both possible classes grant. */
	if (who->uid == acl->uid)
		digit = mode >> 6;
	else if (in_group(who, acl->gid))
		digit = mode >> 3;
	else if (who->partial && who->not_group != acl->gid)
		digit = mode >> 3 & mode;
	else
		digit = mode;
	return (permission >> 6 & ~digit) == 0 ? RSM_OK : RSM_PERM_DENIED;
}

enum rsm_error
acl_segment_id(uint32_t segment)
{
	return segment >= SEGMENT_ID_FIRST && segment <= SEGMENT_ID_LAST ? RSM_OK : RSM_RESERVED_SEGID;
}

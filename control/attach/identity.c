/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender of a request, at the time of sending.  RSM checks the rights of the sender, not those of the
 * user that attached, since programs drop privileges later.
 *
 * User and group come with each message (SCM_CREDENTIALS).  Normally a sender names its effective ids.  The
 * kernel also accepts its real or saved ids, which the sender could make effective at any time, and no
 * others.  Supplementary groups come with no message, but each socket records those of the process that made
 * it.  So a sender whose groups matter sends one end of a new socket pair.  A socket of another process, or
 * one that this process made under other ids, proves nothing.
 */
#include <string.h>

#include "control/attach/client.h"
#include "control/attach/identity.h"

bool
identity_take(struct msghdr *header, struct ucred *sender)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg != NULL; cmsg = CMSG_NXTHDR(header, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(sender, CMSG_DATA(cmsg), sizeof(*sender));
		return true;
	}
	return false;
}

/* True if the sender made this socket, with its present ids.  A process of another pid namespace has no pid
 * here, and proves nothing. */
static bool
is_proof(int fd, const struct ucred *sender)
{
	struct ucred maker;
	socklen_t len = sizeof(int);
	int domain;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_UNIX)
		return false;
	len = sizeof(maker);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &len) == 0 && maker.pid > 0 &&
	       maker.pid == sender->pid && maker.uid == sender->uid && maker.gid == sender->gid;
}

struct groups {
	uint32_t num;
	gid_t gid[NGROUPS_MAX];
};

/* Returns NULL if the groups are unknown.  The result is valid until the next call. */
static const struct groups *
read_groups(int fd)
{
	static struct groups groups;
	socklen_t len = sizeof(groups.gid);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.gid, &len) != 0)
		return NULL;
	groups.num = len / sizeof(gid_t);
	return &groups;
}

static bool
groups_contain(const struct groups *groups, uint32_t gid)
{
	for (uint32_t i = 0; i < groups->num; i++)
		if (groups->gid[i] == gid)
			return true;
	return false;
}

static void
list_groups(struct acl_who *who, const struct groups *groups, const struct acl *acl)
{
	who->partial = false;
	for (uint32_t i = 0; i < groups->num && !who->partial; i++) {
		if (groups->gid[i] == who->gid)
			continue;
		if (who->num_groups < ACL_GROUPS)
			who->group[who->num_groups++] = groups->gid[i];
		else
			who->partial = true;
	}
	if (!who->partial || acl == NULL)
		return;
	if (groups_contain(groups, acl->gid))
		who->group[0] = acl->gid;
	else
		who->not_group = acl->gid;
}

void
identity_fill(struct acl_who *who, const struct ucred *sender, int fd, const struct acl *acl)
{
	const struct groups *groups = fd >= 0 && is_proof(fd, sender) ? read_groups(fd) : NULL;

	who->uid = sender->uid;
	who->gid = sender->gid;
	who->partial = true;
	who->not_group = ACL_NO_GROUP;
	if (groups != NULL)
		list_groups(who, groups, acl);
}

bool
identity_in_group(int fd, gid_t gid)
{
	const struct groups *groups = read_groups(fd);

	return groups != NULL && groups_contain(groups, gid);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender of a request, at the time of sending: RSM judges by that, not by the user that
 * attached, since programs give up rights later.
 *
 * User and group come with each message (SCM_CREDENTIALS).  A sender names its effective ones; the kernel
 * lets it name its real or saved ones too, which it can make its effective ones whenever it likes, and no
 * others.  Supplementary groups come with no message, but with each socket that a process makes.  So a
 * sender to be judged by them sends one end of a new pair.  A socket of another process, or of this one
 * when it was another user, proves nothing, whatever it is.
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

/* Was this socket made by the sender, with the ids that it has now?  Processes of another pid namespace have
 * no pid here, and cannot be distinguished. */
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

/* NULL: not known. */
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
contains(const struct groups *groups, uint32_t gid)
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
	if (contains(groups, acl->gid))
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

	return groups != NULL && contains(groups, gid);
}

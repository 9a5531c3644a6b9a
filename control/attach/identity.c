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
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/attach/client.h"
#include "control/attach/identity.h"

#define FEW_GROUPS 64u

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

/* The groups, in `few` where they fit, else allocated; NULL: not known. */
static gid_t *
read_groups(int fd, gid_t few[FEW_GROUPS], uint32_t *num)
{
	socklen_t len = FEW_GROUPS * sizeof(gid_t);
	gid_t *group = few;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, few, &len) != 0) {
		/* ERANGE: the kernel has said in `len` how many there are, NGROUPS_MAX at most. */
		if (errno != ERANGE || len > NGROUPS_MAX * sizeof(gid_t))
			return NULL;
		group = malloc(len);
		if (group != NULL && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, group, &len) != 0) {
			free(group);
			return NULL;
		}
	}
	*num = len / sizeof(gid_t);
	return group;
}

static bool
contains(const gid_t *group, uint32_t num, uint32_t gid)
{
	for (uint32_t i = 0; i < num; i++)
		if (group[i] == gid)
			return true;
	return false;
}

static void
list_groups(struct acl_who *who, const gid_t *group, uint32_t num, const struct acl *acl)
{
	who->partial = false;
	for (uint32_t i = 0; i < num && !who->partial; i++) {
		if (group[i] == who->gid)
			continue;
		if (who->num_groups < ACL_GROUPS)
			who->group[who->num_groups++] = group[i];
		else
			who->partial = true;
	}
	if (!who->partial || acl == NULL)
		return;
	if (contains(group, num, acl->gid))
		who->group[0] = acl->gid;
	else
		who->not_group = acl->gid;
}

void
identity_fill(struct acl_who *who, const struct ucred *sender, int fd, const struct acl *acl)
{
	gid_t few[FEW_GROUPS], *group = NULL;
	uint32_t num = 0;

	who->uid = sender->uid;
	who->gid = sender->gid;
	who->partial = true;
	who->not_group = ACL_NO_GROUP;
	if (fd >= 0 && is_proof(fd, sender))
		group = read_groups(fd, few, &num);
	if (group == NULL)
		return;
	list_groups(who, group, num, acl);
	if (group != few)
		free(group);
}

bool
identity_in_group(int fd, gid_t gid)
{
	gid_t few[FEW_GROUPS], *group;
	uint32_t num = 0;
	bool found;

	group = read_groups(fd, few, &num);
	found = group != NULL && contains(group, num, gid);
	if (group != few)
		free(group);
	return found;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* GIDs of addresses.  An IPv4 address has the IPv4-mapped IPv6 address as GID (RoCE v2, annex A17). */
#ifndef VERBS_GID_H
#define VERBS_GID_H

#include <infiniband/verbs.h>
#include <string.h>
#include <sys/socket.h>

/* `addr` has 4 bytes for AF_INET, 16 for AF_INET6. */
static inline void
gid_of_address(uint16_t family, const uint8_t *addr, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (family == AF_INET6) {
		memcpy(gid->raw, addr, 16);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, addr, 4);
}

#endif

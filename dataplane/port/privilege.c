/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "privilege.h"

bool
privilege_has(unsigned int capability)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return (data[capability / 32].effective >> (capability % 32)) & 1;
}

const char *
privilege_sudo(void)
{
	return geteuid() == 0 ? "" : "sudo ";
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Default path of the control socket, shared by the data plane and onesidectl. */
#ifndef CONFIG_CTL_PATH_H
#define CONFIG_CTL_PATH_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Path next to the attachments' socket: .../oneside.sock has .../ctl, any other NAME has NAME.ctl. False: too
 * long. */
static inline bool
ctl_path_beside(const char *socket, char *path, size_t room)
{
	static const char name[] = "/oneside.sock";
	size_t len = strlen(socket), tail = sizeof(name) - 1;
	int n;

	if (len >= tail && strcmp(socket + len - tail, name) == 0)
		n = snprintf(path, room, "%.*s/ctl", (int)(len - tail), socket);
	else
		n = snprintf(path, room, "%s.ctl", socket);
	return n > 0 && (size_t)n < room;
}

#endif

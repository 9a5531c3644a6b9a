/* SPDX-License-Identifier: BSD-3-Clause */
/* Privileges of this process, for messages that name a remedy. */
#ifndef DATAPLANE_PRIVILEGE_H
#define DATAPLANE_PRIVILEGE_H

#include <stdbool.h>

bool privilege_has(unsigned int capability);

/* "sudo " unless this process runs as root. */
const char *privilege_sudo(void);

#endif

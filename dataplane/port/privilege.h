/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process may do, for sentences that name a remedy. */
#ifndef DATAPLANE_PRIVILEGE_H
#define DATAPLANE_PRIVILEGE_H

#include <stdbool.h>

bool privilege_has(unsigned int capability);

/* "sudo " where the command needs it. */
const char *privilege_sudo(void);

#endif

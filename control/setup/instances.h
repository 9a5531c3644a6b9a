/* SPDX-License-Identifier: BSD-3-Clause */
/* Other data planes of this machine.  `own` is the oneside.conf that is being made; who has what is asked for
 * is in `by`, as the folder of its files. */
#ifndef CONTROL_SETUP_INSTANCES_H
#define CONTROL_SETUP_INSTANCES_H

#include <stdbool.h>

#include "config/address.h"

#define SETUP_PATH 512

bool setup_instance_has_address(const char *own, const struct config_addr *addr, char by[SETUP_PATH]);
/* That end of a memif with this socket. */
bool setup_instance_has_cable(const char *own, const char *cable, bool client, char by[SETUP_PATH]);

#endif

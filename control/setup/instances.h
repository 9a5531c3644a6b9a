/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other data planes of this machine. `own` is the oneside.conf being written; `by` receives the folder of the
 * data plane that has the address or cable.
 */
#ifndef CONTROL_SETUP_INSTANCES_H
#define CONTROL_SETUP_INSTANCES_H

#include <stdbool.h>

#include "config/address.h"

#define SETUP_PATH 512

bool setup_instance_has_address(const char *own, const struct config_addr *addr, char by[SETUP_PATH]);
/* Has another data plane that end of the memif with this socket? */
bool setup_instance_has_cable(const char *own, const char *cable, bool client, char by[SETUP_PATH]);

#endif

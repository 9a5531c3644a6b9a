/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers and addresses as people write them; without DPDK, for programs that have none. */
#ifndef CONFIG_ADDRESS_H
#define CONFIG_ADDRESS_H

#include "config/config.h"

int config_number(const char *text, uint64_t *value);
/* -EINVAL: no address; -ERANGE: prefix too long. */
int config_addr_parse(const char *text, struct config_addr *addr, bool *has_prefix);
/* An address that a host on a link can have, */
bool config_addr_unicast(const struct config_addr *addr);
/* and not the network or broadcast address (all zeros or ones) of its own prefix. */
bool config_addr_is_host(const struct config_addr *addr);
bool config_addr_equal(const struct config_addr *a, const struct config_addr *b);

#endif

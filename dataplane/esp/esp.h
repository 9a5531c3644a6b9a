/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPsec ESP (RFC 4303, AES-GCM by RFC 4106, extended sequence numbers), transport mode: between the
 * transport, which sees plain frames alone, and the ports, by policy of the peer's address (doc/esp.md).
 */
#ifndef DATAPLANE_ESP_ESP_H
#define DATAPLANE_ESP_ESP_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/wire/wire.h"

struct core;
struct rte_mbuf;

/* What a frame grows by at most: SPI, sequence number, IV, padding, its length, next header, ICV. */
#define ESP_OVERHEAD 37u
/* The same of RoCE's frames, whose lengths are multiples of four. */
#define ESP_OVERHEAD_ROCE 36u

/*
 * Frames that came by a port: those of ESP become what was protected, those that policy does not want, and
 * those for other cores, are consumed.  Returns how many are left, in their order.
 */
uint16_t esp_in(struct core *core, uint16_t port, struct rte_mbuf **frames, uint16_t count);
/* Frames that are to leave by a port, `mtu` its: as above.  What is called again for a frame has no effect.
 */
uint16_t esp_out(struct core *core, uint16_t port, uint32_t mtu, struct rte_mbuf **frames, uint16_t count);

/* What the address is spoken to by ESP alone, at the moment. */
bool esp_encrypts(const struct wire_addr *addr);

#endif

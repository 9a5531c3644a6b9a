/* SPDX-License-Identifier: BSD-3-Clause */
/* IPsec ESP (RFC 4303, AES-GCM by RFC 4106, extended sequence numbers), transport mode, chosen by the peer's
 * address (doc/esp.md). A layer between the ports and the transport, which sees only plain frames. */
#ifndef DATAPLANE_ESP_ESP_H
#define DATAPLANE_ESP_ESP_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/wire/wire.h"

struct core;
struct rte_mbuf;

/* Maximum growth of a frame: SPI, sequence number, IV, padding, its length, next header, ICV. */
#define ESP_OVERHEAD 37u
/* Maximum growth of a RoCE frame, whose length is a multiple of four. */
#define ESP_OVERHEAD_ROCE 36u

/* Process frames received by a port: ESP frames are decrypted; frames that policy rejects, and frames for
 * other cores, are consumed. Returns the number of frames left, in order. */
uint16_t esp_in(struct core *core, uint16_t port, struct rte_mbuf **frames, uint16_t count);
/* Process frames that will leave by a port with `mtu`: frames to encrypted peers are encrypted, or dropped
 * and consumed. Frames already processed are unchanged. Returns the number of frames left, in order. */
uint16_t esp_out(struct core *core, uint16_t port, uint32_t mtu, struct rte_mbuf **frames, uint16_t count);

/* True if policy now requires ESP for the address. */
bool esp_encrypts(const struct wire_addr *addr);

#endif

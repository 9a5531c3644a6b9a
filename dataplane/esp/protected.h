/* SPDX-License-Identifier: BSD-3-Clause */
/* A flag of mbufs: the frame is ESP already, or leaves as it is. */
#ifndef DATAPLANE_ESP_PROTECTED_H
#define DATAPLANE_ESP_PROTECTED_H

#include <stdint.h>

extern uint64_t esp_protected; /* the bit; set before the first table */

#endif

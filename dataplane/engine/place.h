/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts about ports for placement (control/objects/place.c). */
#ifndef DATAPLANE_ENGINE_PLACE_H
#define DATAPLANE_ENGINE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

/** @return  The number of cores, from the first on, at which frames of the port arrive: for a memif the
 *           cores that have rings, which a new connection of the memif may change. */
uint32_t engine_port_cores(uint32_t port);
/** @return  True if the port can lead the frames of a connection that was made before to this core. */
bool engine_port_follows(uint32_t port, uint32_t core);

#endif

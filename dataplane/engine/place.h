/* SPDX-License-Identifier: BSD-3-Clause */
/* What placement asks about ports (control/objects/place.c). */
#ifndef DATAPLANE_ENGINE_PLACE_H
#define DATAPLANE_ENGINE_PLACE_H

#include <stdint.h>

/** @return  So many cores, from the first on, receive frames of the port. */
uint32_t engine_port_cores(uint32_t port);

#endif

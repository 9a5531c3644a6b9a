/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATAPLANE_ENGINE_INTERNAL_H
#define DATAPLANE_ENGINE_INTERNAL_H

#include "dataplane/core/core.h"

void telemetry_register(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles, as a core sees them: made and freed by the control thread, not changed in between.
 */
#ifndef DATAPLANE_QP_UD_H
#define DATAPLANE_QP_UD_H

#include "dataplane/core/core.h"

struct engine_ah {
	uint32_t id, pz;
	uint16_t port;
	bool loop; /* to an address of this data plane */
	struct wire_template template;
	struct reap reap; /* control thread */
};

#endif

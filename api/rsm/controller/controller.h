/* SPDX-License-Identifier: BSD-3-Clause */
/* Controllers. */
#ifndef RSM_CONTROLLER_H
#define RSM_CONTROLLER_H

#include "rsm/base/link.h"

#define RSM_PORTS_MAX 64u /* of a data plane */

struct rsm_controller {
	struct rsm_slot slot;
	uint32_t refs;
	bool loopback;
	char name[ONE_PORT_NAME]; /* as the data plane has it */
	struct rsm_link *link;
	rsmapi_controller_attr_t attr;
};
_Static_assert(sizeof(struct rsm_controller) <= RSM_SLOT_SIZE, "rsm_controller");

/*
 * A reference to the controller's attachment, a new one when the old one was
 * lost.  0, RSMERR_BAD_CTLR_HNDL, RSMERR_CTLR_NOT_PRESENT, ...
 */
int rsm_controller_link(rsmapi_controller_handle_t handle, struct rsm_link **link);
/* What a failed attachment is to RSMAPI. */
int rsm_open_error(int error);
/* The handle is live and of this process. */
bool rsm_controller_valid(rsmapi_controller_handle_t handle);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Controllers: the attachments that segments are made with. */
#ifndef RSM_CONTROLLER_H
#define RSM_CONTROLLER_H

#include "rsm/link.h"

#define RSM_PORTS_MAX 64u /* limit per data plane */

struct rsm_controller {
	struct rsm_slot slot;
	uint32_t refs;
	bool loopback;
	char name[ONE_PORT_NAME]; /* the data plane's spelling */
	struct rsm_link *link;
	rsmapi_controller_attr_t attr;
};
_Static_assert(sizeof(struct rsm_controller) <= RSM_SLOT_SIZE, "rsm_controller");

/*
 * Returns a reference to the controller's attachment, reattaching if the old one was lost. 0,
 * RSMERR_BAD_CTLR_HNDL, RSMERR_CTLR_NOT_PRESENT, or rsm_open_error().
 */
int rsm_controller_link(rsmapi_controller_handle_t handle, struct rsm_link **link);
/* Converts -errno of one_attach() to an RSMERR_*. */
int rsm_open_error(int error);
/* True if the handle is live and of this process. */
bool rsm_controller_valid(rsmapi_controller_handle_t handle);

#endif

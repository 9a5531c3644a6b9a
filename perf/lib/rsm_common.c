/* SPDX-License-Identifier: BSD-3-Clause */
#include "rsm_common.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const char *
rsm_error_name(int error)
{
	switch (error) {
	case RSMERR_BAD_CTLR_HNDL:
		return "bad controller handle";
	case RSMERR_CTLR_NOT_PRESENT:
		return "no such controller, or no data plane";
	case RSMERR_SEG_NOT_PUBLISHED:
		return "segment not published";
	case RSMERR_SEG_NOT_PUBLISHED_TO_NODE:
		return "segment not published to this node";
	case RSMERR_SEGID_IN_USE:
		return "segment id in use";
	case RSMERR_PERM_DENIED:
		return "permission denied";
	case RSMERR_INSUFFICIENT_RESOURCES:
		return "insufficient resources";
	case RSMERR_INSUFFICIENT_MEM:
		return "insufficient memory";
	case RSMERR_REMOTE_NODE_UNREACHABLE:
		return "remote node unreachable";
	case RSMERR_CONN_ABORTED:
		return "connection aborted";
	case RSMERR_BARRIER_FAILURE:
		return "barrier failure";
	default:
		return "see rsm_common.h";
	}
}

bool
rsm_ok(int error, const char *what)
{
	if (error == RSM_SUCCESS)
		return true;
	fprintf(stderr, "%s: %s: RSM error %d (%s)\n", program_invocation_short_name, what, error,
		rsm_error_name(error));
	return false;
}

bool
rsm_connect_wait(rsmapi_controller_handle_t controller, uint32_t node, uint32_t segment,
		 rsm_permission_t permission, uint32_t seconds, rsm_memseg_import_handle_t *import)
{
	for (uint32_t tries = 0;; tries++) {
		int error = rsm_memseg_import_connect(controller, node, segment, permission, import);

		if ((error != RSMERR_SEG_NOT_PUBLISHED && error != RSMERR_REMOTE_NODE_UNREACHABLE) ||
		    tries >= seconds * 20)
			return rsm_ok(error, "rsm_memseg_import_connect");
		usleep(50000);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals of an importer: a small SEND behind what it has put. */
#include "rsm/transfer/transfer.h"

int
rsm_import_signal(struct rsm_import *import, bool once)
{
	rsm_drain(import);
	if (!import->aborted) {
		uint64_t target = rsm_issue_signal(import, once);

		rsm_wait_done(import, target);
		if (import->done >= target)
			return RSM_SUCCESS;
	}
	return rsm_report_abort(import);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memfd into which the old process writes its state. Its pages are made present while the cores still
 * run: they would take a third of the time for which the cores are stopped. Control thread only.
 */
#ifndef CONTROL_TAKEOVER_STATE_FILE_H
#define CONTROL_TAKEOVER_STATE_FILE_H

#include "dataplane/base/record.h"

/* Makes room in advance, for a state of about this size. Without memory the pages come later. */
void takeover_state_prepare(size_t size);
/* Lets the records be written to the file. Afterwards takeover_state_end() must follow. */
void takeover_state_begin(struct record_out *out);
/* Seals the file, and returns a descriptor that is the caller's, or -errno. `out` has no bytes any more. */
int takeover_state_seal(struct record_out *out);
/* Drops what is left. `out` may be NULL. */
void takeover_state_end(struct record_out *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the state that belongs to no attachment: counters, and peers that the configuration lacks. */
#ifndef CONTROL_TAKEOVER_COMMON_H
#define CONTROL_TAKEOVER_COMMON_H

#include "control/attach/passing.h"

void takeover_common_write(struct pass_out *out);
/* Call before attachments are read.  Returns 0; -EINVAL and a sentence. */
int takeover_common_read(struct pass_in *in, struct config *config);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* RoCE frames from the peer to the plane's queue pairs. `frame` has room for the longest; calls return the
 * length, 0: there is no frame. */
#ifndef TESTS_FUZZ_ROCE_H
#define TESTS_FUZZ_ROCE_H

#include "tests/fuzz/base/records.h"

#define ROCE_ROOM 65536u

/* Builds a frame from fields, so that it is the one that the queue pair expects. */
uint32_t roce_built(struct bytes *record, uint8_t *frame);
/* Copies a frame from the record, and corrects its fields for this connection as far as its flags request. */
uint32_t roce_raw(struct bytes *record, uint8_t *frame);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of RoCE from the peer, for the queue pairs of the plane.  `frame` has room for the longest; its
 * length, 0: there is none.
 */
#ifndef TESTS_FUZZ_ROCE_H
#define TESTS_FUZZ_ROCE_H

#include "tests/fuzz/base/records.h"

#define ROCE_ROOM 65536u

/* Of fields, so that it is the one that the queue pair waits for. */
uint32_t roce_built(struct bytes *record, uint8_t *frame);
/* As it stands in the record, with what it says of this connection put right as far as its flags ask for it.
 */
uint32_t roce_raw(struct bytes *record, uint8_t *frame);

#endif

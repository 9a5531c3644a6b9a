/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the form of work requests. */
#ifndef DATAPLANE_QP_WQE_H
#define DATAPLANE_QP_WQE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/ring.h"
#include "dataplane/rc/work.h"

/* Check a slot that was copied from a ring, with its extension slots `ext`, and convert it. */
void wqe_to_work(const struct one_wqe *wqe, const struct one_wqe_ext *ext, struct work *work);
/*
 * Fast path for the usual request: one range of memory to send or write from, with that phase. The slot of
 * such a request has the layout of a struct work, and is copied once, directly to `work`. False: another form
 * of request; the contents of `work` are undefined.
 */
bool wqe_take_plain(const struct one_wqe *slot, uint8_t phase, struct work *work);
void wqe_to_recv(const struct one_wqe *wqe, const struct one_wqe_ext *ext, struct recv_work *recv);

#endif

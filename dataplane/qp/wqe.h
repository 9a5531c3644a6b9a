/* SPDX-License-Identifier: BSD-3-Clause */
/* The form of work requests. */
#ifndef DATAPLANE_QP_WQE_H
#define DATAPLANE_QP_WQE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/ring.h"
#include "dataplane/rc/work.h"

/* Check the form of a slot copied from a ring; `ext` are its extension slots. */
void wqe_to_work(const struct one_wqe *wqe, const struct one_wqe_ext *ext, struct work *work);
/*
 * The same of the usual request, which has the form of a struct work in its slot, with that phase: one range
 * of memory to be sent or written from.  It is copied once, to its place.  False: it is another, and what was
 * copied counts for nothing.
 */
bool wqe_take_plain(const struct one_wqe *slot, uint8_t phase, struct work *work);
void wqe_to_recv(const struct one_wqe *wqe, const struct one_wqe_ext *ext, struct recv_work *recv);

#endif

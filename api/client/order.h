/* SPDX-License-Identifier: BSD-3-Clause */
/* Relaxed accesses to atomics, by what makes them safe.  All others name their partner where they are. */
#ifndef CLIENT_ORDER_H
#define CLIENT_ORDER_H

#include <stdatomic.h>

/* The caller holds the lock under which every store is made: the lock is the partner. */
#define one_load_locked(object) atomic_load_explicit(object, memory_order_relaxed)

/*
 * The value is all that counts: no other memory is read or reused because of it, or it is checked again.
 * Partner of each other only.
 */
#define one_load_alone(object) atomic_load_explicit(object, memory_order_relaxed)
#define one_store_alone(object, value) atomic_store_explicit(object, value, memory_order_relaxed)

#endif

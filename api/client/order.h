/* SPDX-License-Identifier: BSD-3-Clause */
/* Relaxed accesses to atomics, named by the reason why they are safe. Every other access names its partner in
 * a comment. */
#ifndef CLIENT_ORDER_H
#define CLIENT_ORDER_H

#include <stdatomic.h>

/* The caller holds the lock that every store is made under: the lock orders. */
#define one_load_locked(object) atomic_load_explicit(object, memory_order_relaxed)

/*
 * For values that stand alone: no other memory is read or reused because of the value, or the value is
 * checked again. Loads and stores pair only with each other.
 */
#define one_load_alone(object) atomic_load_explicit(object, memory_order_relaxed)
#define one_store_alone(object, value) atomic_store_explicit(object, value, memory_order_relaxed)

#endif

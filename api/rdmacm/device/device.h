/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, open until they are lost, and the thread that reads their rings.  All with the lock held. */
#ifndef RDMACM_DEVICE_H
#define RDMACM_DEVICE_H

#include "rdmacm/base/cma.h"

extern struct device *devices;

/* ---- devices.c ---- */
/* -errno: there is none; those that are open already stay */
int devices_open(void);
/* Why there is none, in the words of ONESIDE_DEBUG, after devices_open(); `error`. */
int devices_refuse(int error);
bool devices_complete(void); /* there is one for each port, as far as is known */
/* Its data plane has gone: it is what its ids have, and no longer one of `devices`. */
void devices_leave(struct device *device);
void devices_fork_child(void); /* without devices, and without the thread that reads their rings */
/* The device that has this address, and which of its addresses it is; or NULL. */
struct device *device_at(const struct sockaddr *addr, uint32_t *index);
/* False: the device has no address of that family; else *index is its first. */
bool device_has_family(const struct device *device, uint16_t family, uint32_t *index);
/* The device that leads to `dst`, and from which of its addresses; or NULL. */
struct device *device_towards(const struct sockaddr *dst, uint32_t *index);
/* The place of an address that the data plane names by its number; of one that is not there, the first. */
uint32_t device_addr_index(const struct device *device, uint32_t number);
void device_addr(const struct device *device, uint32_t index, uint16_t port, struct sockaddr_storage *out);
uint16_t device_family(const struct device *device, uint32_t index);
/* NULL: none, with errno. */
struct ibv_pd *device_pd(struct device *device);

/* ---- reader.c ---- */
/*
 * When there may be something in a ring of the open devices, or another device, the thread calls `take`; and
 * again in a while if that is false.  0, or -errno.
 */
int reader_start(bool (*take)(void));
int reader_watch(const struct device *device); /* one that is opened later; -errno */
void reader_leave(const struct device *device);
void reader_fork_child(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, which stay open until they are lost, and the thread that reads their rings.  Called with the lock
 * held. */
#ifndef RDMACM_DEVICE_H
#define RDMACM_DEVICE_H

#include "rdmacm/cma.h"

extern struct device *devices;

/* ---- devices.c ---- */
/* Opens the devices that are not open yet.  Returns -errno if no device is open. */
int devices_open(void);
/* Notes for ONESIDE_DEBUG why devices_open() found no device.  Returns `error`. */
int devices_refuse(int error);
bool devices_complete(void); /* true if each known port has an open device */
/* Removes a device whose data plane is lost from `devices`; its ids still refer to the device. */
void devices_leave(struct device *device);
void devices_fork_child(void); /* a child has no devices and no reader thread */
/* Returns the device with this address, and the address's index; or NULL. */
struct device *device_at(const struct sockaddr *addr, uint32_t *index);
/* Returns false if the device has no address of that family; else *index is the first one's. */
bool device_has_family(const struct device *device, uint16_t family, uint32_t *index);
/* Returns the device with the best route to `dst`, and the index of the source address; or NULL. */
struct device *device_towards(const struct sockaddr *dst, uint32_t *index);
/* Returns the index of the address with the data plane's `number`, from 1; 0 if none has it. */
uint32_t device_addr_index(const struct device *device, uint32_t number);
void device_addr(const struct device *device, uint32_t index, uint16_t port, struct sockaddr_storage *out);
uint16_t device_family(const struct device *device, uint32_t index);
/* NULL with errno. */
struct ibv_pd *device_pd(struct device *device);

/* ---- reader.c ---- */
/* Starts the thread.  The thread calls `take`, with the lock held, when a ring may have entries or the
 * devices changed, and each second after `take` returned false.  Returns 0 or -errno. */
int reader_start(bool (*take)(void));
int reader_watch(const struct device *device); /* for devices opened after the start; returns 0 or -errno */
void reader_leave(const struct device *device);
void reader_fork_child(void);

#endif

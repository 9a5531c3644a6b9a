/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices as EAL is given them: a name ("net_memif0", "0000:01:00.0") and the arguments of its driver
 * ("role=server,id=0").  EAL goes on without a device that does not open, and its driver says why in terms
 * of its own; the known reasons are looked for here.
 */
#ifndef DATAPLANE_DEVICE_H
#define DATAPLANE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of "key=value"; false when it is not among the arguments (NULL: there are none). */
bool device_argument(const char *args, const char *key, char *value, size_t value_len);

/* "01:00.0" or "0000:01:00.0". */
bool device_is_pci(const char *name);

/* Called for each thing that is wrong with a device, as "what holds; remedy". */
typedef void device_fault(void *context, const char *sentence);

/* What machine and arguments lack: to be seen before EAL's start as well. */
void device_faults(const char *name, const char *args, device_fault *fault, void *context);

/* What was in the way of a device when EAL opened it: owners of its socket, unfit members of a bond. */
void device_conflicts(const char *name, const char *args, device_fault *fault, void *context);

/* Bytes of a slot of af_packet's rings; 0 when framesz, blocksz and framecnt do not fit together. */
uint32_t device_slot(const char *args);

/* Arguments that serve, but slowly for this MTU, or not safely (memif), or not when a link fails (bonds). */
void device_advice(const char *name, const char *args, uint32_t mtu, device_fault *advise, void *context);

/* The same for this number of polling cores. */
void device_core_advice(const char *name, const char *args, uint64_t cores, device_fault *advise,
			void *context);

/* Removes what a killed data plane has left in the way of a device. */
void device_remove_stale(const char *name, const char *args);

/* The number that an argument of a device has; `otherwise` where it is not given. */
unsigned long device_number(const char *args, const char *key, unsigned long otherwise);

/* Of a memif with these arguments. */
bool device_is_memif_server(const char *args);

#endif

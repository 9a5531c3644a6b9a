/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices as given to EAL: a name ("net_memif0", "0000:01:00.0") and the arguments of its driver
 * ("role=server,id=0"). EAL continues without a device that does not open, and its driver reports the reason
 * in its own terms; this file checks for the known reasons. */
#ifndef DATAPLANE_DEVICE_H
#define DATAPLANE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Get the value of "key=value"; false if `args` (NULL: no arguments) does not have the key. */
bool device_argument(const char *args, const char *key, char *value, size_t value_len);

/* True for a name like "01:00.0" or "0000:01:00.0". */
bool device_is_pci(const char *name);

/* Write DPDK's name of a device: PCI addresses may be written without the domain. Returns the name of its
 * bus, "pci" or "vdev". */
const char *device_full_name(const char *name, char *full, size_t full_len);

/* Called for each fault of a device with a sentence: "fault; remedy". */
typedef void device_fault(void *context, const char *sentence);

/* Report what machine and arguments lack; may be called before EAL's start, too. */
void device_faults(const char *name, const char *args, device_fault *fault, void *context);

/* Report what prevented EAL from opening a device: owners of its socket, unfit members of a bond. */
void device_conflicts(const char *name, const char *args, device_fault *fault, void *context);

/* Bytes per slot of af_packet's rings; 0 if framesz, blocksz and framecnt do not fit together. */
uint32_t device_slot(const char *args);

/* Report arguments that work, but slowly for this MTU, or unsafely (memif), or not when a link fails
 * (bonds). */
void device_advice(const char *name, const char *args, uint32_t mtu, device_fault *advise, void *context);

/* Report arguments that work, but slowly for this number of polling cores. */
void device_core_advice(const char *name, const char *args, uint64_t cores, device_fault *advise,
			void *context);

/* Remove what a killed data plane has left that would prevent opening a device. */
void device_remove_stale(const char *name, const char *args);

/* True if another process has the socket of a memif server. */
bool device_is_held(const char *name, const char *args);

/* The value of a numeric argument of a device; `otherwise` if it is not given. */
unsigned long device_number(const char *args, const char *key, unsigned long otherwise);

/* True if these arguments make a memif a server. */
bool device_is_memif_server(const char *args);

/* Find the socket of a memif, which is a file if `named`. Returns the length of its address; 0: the path is
 * too long. */
socklen_t device_cable(const char *args, struct sockaddr_un *addr, bool *named);

/* Privileges of this process, for messages that name a remedy. */

bool privilege_has(unsigned int capability);

/* "sudo " unless this process runs as root. */
const char *privilege_sudo(void);

#endif

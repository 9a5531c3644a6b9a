/* SPDX-License-Identifier: BSD-3-Clause */
/* Made-up machines: /sys, /proc and /etc of a folder of their own. */
#ifndef TESTS_SETUP_MACHINE_H
#define TESTS_SETUP_MACHINE_H

#include "control/setup/write.h"

extern char made_root[64];
extern struct setup_machine made;

int made_begin(void **state); /* an empty one, of 8 processors */
int made_end(void **state);
/* A file with the text, or a link, at a path below the root; folders are made. */
void made_file(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
void made_link(const char *path, const char *target);
/* A NIC with its kernel driver and interface; NULL: without. `group` of the IOMMU: 0: none. */
void made_nic(const char *pci, const char *driver, const char *iface, int group);
/* An interface without a device. */
void made_iface(const char *name, unsigned int mtu);
/* Its IPv4 address, as four bytes from the first on, in a /24. */
void made_address(const char *iface, unsigned int a, unsigned int b, unsigned int c, unsigned int d);
void made_default(const char *iface);
/* Reads what has been made into `made`. */
void made_read(void);

#endif

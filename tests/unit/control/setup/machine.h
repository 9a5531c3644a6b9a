/* SPDX-License-Identifier: BSD-3-Clause */
/* Made-up machines: /sys, /proc and /etc in a temporary folder. */
#ifndef TESTS_SETUP_MACHINE_H
#define TESTS_SETUP_MACHINE_H

#include "control/setup/plan.h"

extern char made_root[64];
extern struct setup_machine made;

int made_begin(void **state); /* makes a machine with 8 processors and nothing else */
int made_end(void **state);
/* Makes a file with this text, or a link, at a path below made_root, and its folders. */
void made_file(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
void made_link(const char *path, const char *target);
/* Makes a NIC; `driver`, `iface`: NULL: none; `group` of the IOMMU: 0: none. */
void made_nic(const char *pci, const char *driver, const char *iface, int group);
/* Makes an interface without a device. */
void made_iface(const char *name, unsigned int mtu);
/* Gives an interface an IPv4 address, four bytes, in a /24. */
void made_address(const char *iface, unsigned int a, unsigned int b, unsigned int c, unsigned int d);
void made_default(const char *iface);
/* Reads the made-up machine into `made`. */
void made_read(void);

#endif

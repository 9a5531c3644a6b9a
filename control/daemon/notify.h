/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ONESIDE_NOTIFY_H
#define ONESIDE_NOTIFY_H

#include <stdbool.h>

/* Assignments as in sd_notify(3), "READY=1"; nothing where no service manager asked for them.  What will be
 * said again need not wait for a manager that does not keep up, and is lost then. */
void notify_service(const char *state, bool waits);

#endif

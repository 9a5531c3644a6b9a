/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ONESIDE_NOTIFY_H
#define ONESIDE_NOTIFY_H

/* Assignments as in sd_notify(3), "READY=1"; nothing where no service manager asked for them. */
void notify_service(const char *state);

/* What will be said again: lost when the manager does not keep up. */
void notify_without_waiting(const char *state);

#endif

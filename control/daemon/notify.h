/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ONESIDE_NOTIFY_H
#define ONESIDE_NOTIFY_H

#include <stdbool.h>

/*
 * Sends assignments as sd_notify(3) does, such as "READY=1"; does nothing without a service manager. With
 * `waits` false, the message is lost if the manager's socket is full; use that for what is repeated.
 */
void notify_service(const char *state, bool waits);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables by which lower rooms call upper ones: requests and classes of objects for attachments, events of
 * ports.
 */
#ifndef CONTROL_DAEMON_CALLS_H
#define CONTROL_DAEMON_CALLS_H

#include "control/attach/client.h"
#include "control/path/path.h"

extern const struct attach_calls calls_of_attach;
extern const struct path_calls calls_of_path;

#endif

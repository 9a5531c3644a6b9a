/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables by which lower rooms call upper ones: requests and object classes of attachments, events of ports.
 */
#ifndef CONTROL_DAEMON_CALLS_H
#define CONTROL_DAEMON_CALLS_H

#include "control/attach/client.h"
#include "control/path/path.h"

extern const struct attach_calls calls_of_attach;
extern const struct path_calls calls_of_path;

#endif

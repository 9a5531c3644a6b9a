/* SPDX-License-Identifier: BSD-3-Clause */
/* What is attached, for people: /oneside/clients and its like. */
#ifndef CONTROL_DAEMON_TELEMETRY_H
#define CONTROL_DAEMON_TELEMETRY_H

int telemetry_init(void);
void telemetry_fini(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK telemetry of attachments: /oneside/clients and others. */
#ifndef CONTROL_DAEMON_TELEMETRY_H
#define CONTROL_DAEMON_TELEMETRY_H

int telemetry_init(void);
void telemetry_fini(void);

#endif

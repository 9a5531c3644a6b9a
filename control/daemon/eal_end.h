/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONTROL_EAL_END_H
#define CONTROL_EAL_END_H

/* Ends EAL in this process; the caller must not call DPDK afterwards. */
void daemon_eal_end(void);

#endif

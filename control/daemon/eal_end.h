/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONTROL_EAL_END_H
#define CONTROL_EAL_END_H

/* The end of EAL in this process, which calls nothing of DPDK afterwards. */
void daemon_eal_end(void);

#endif

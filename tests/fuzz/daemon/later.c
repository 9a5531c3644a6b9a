/* SPDX-License-Identifier: BSD-3-Clause */
#include "later.h"

#include "control/connect/connect.h"
#include "control/path/path.h"

void
later(void)
{
	control.now += 3600 * NS_PER_S;
	conns_poll();
	paths_poll();
}

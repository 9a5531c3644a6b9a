/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a data plane: its limit of descriptors appears to be $DESCRIPTORS. A user's share of the
 * channels follows from the limit, and may be all that the test needs while the machine's hard limit is less.
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int
getrlimit64(__rlimit_resource_t what, struct rlimit64 *limit)
{
	const char *appears = getenv("DESCRIPTORS");
	int error = (int)syscall(SYS_prlimit64, 0, what, NULL, limit);

	if (error == 0 && what == RLIMIT_NOFILE && appears != NULL)
		limit->rlim_cur = limit->rlim_max = strtoul(appears, NULL, 10);
	return error;
}

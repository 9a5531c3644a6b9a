/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-perf: bandwidth and latency between two applications, in perftest's terms. */
#include <stdlib.h>

#include "dat_run.h"
#include "options.h"
#include "rsm_run.h"

int
main(int argc, char **argv)
{
	struct perf_options options;
	int parsed = perf_options_parse(&options, argc, argv);

	if (parsed != 0)
		return parsed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	if (options.api == PERF_API_RSM)
		return options.host == NULL ? rsm_serve(&options) : rsm_measure(&options);
	return options.host == NULL ? dat_serve(&options) : dat_measure(&options);
}

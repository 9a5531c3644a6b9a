/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-micro: microbenchmarks of single parts of the message path. */
#include "micro.h"

int
main(int argc, char **argv)
{
	micro_ring();
	micro_relay();
	micro_gaps();
	micro_wire();
	micro_memory();
	return gbench_main(argc, argv);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-micro: the pieces of the message path, each alone. */
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

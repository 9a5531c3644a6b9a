/* SPDX-License-Identifier: BSD-3-Clause */
/* Microbenchmark: memcpy, as a reference for copies between queue pairs of one core. */
#include <stdlib.h>
#include <string.h>

#include "micro.h"

static void
copy(struct gbench_state *state, void *user)
{
	size_t len = (size_t)gbench_arg(state);
	uint8_t *from = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);
	uint8_t *to = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);

	memset(from, 1, len);
	memset(to, 2, len);
	while (gbench_running(state)) {
		memcpy(to, from, len);
		gbench_use(to);
	}
	gbench_set_bytes(state, gbench_iterations(state) * len);
	free(from);
	free(to);
}

void
micro_memory(void)
{
	static const int64_t sizes[] = {8, 64, 1024, 4096, 65536, 1 << 20};

	gbench_register("memcpy", copy, NULL, sizes, 6);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* RoCE frames from the port, between requests of the application. */
#include "plane.h"
#include "roce.h"

static uint8_t frame[ROCE_ROOM];

static void
receive(uint32_t len)
{
	if (len > 0)
		plane_receive(frame, len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = {data, size}, record;

	plane_begin();
	while (record_next(&input, &record)) {
		uint8_t kind = (uint8_t)record_number(&record, 1);

		if (kind % 8 < 3)
			receive(roce_built(&record, frame));
		else if (kind % 8 == 3)
			receive(roce_raw(&record, frame));
		else
			plane_record(kind % 8 - 4, &record);
	}
	plane_end();
	return 0;
}

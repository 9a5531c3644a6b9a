/* SPDX-License-Identifier: BSD-3-Clause */
/* /proc/self/maps as the client library reads it: names of files can give it any contents. */
#include <string.h>

#include "api/client/adopt/maps.h"
#include "file.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct map_entry entry;
	size_t lines = 0;

	if (maps_open_lent(file_with(data, size)) != 0)
		fuzz_fail("the file cannot be read");
	while (maps_next(&entry)) {
		if (strlen(entry.name) > size)
			fuzz_fail("a name that is not of the file");
		if (++lines > size)
			fuzz_fail("more lines than bytes");
	}
	maps_close();
	return 0;
}

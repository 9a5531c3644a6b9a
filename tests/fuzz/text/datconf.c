/* SPDX-License-Identifier: BSD-3-Clause */
/* dat.conf as libdat reads it: DAT_OVERRIDE can name any file. */
#include <string.h>

#include "api/dat/registry/conf.h"
#include "tests/fuzz/base/records.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_entry *list = NULL;
	FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
	int skipped, first;

	if (file == NULL)
		return 0; /* some C libraries refuse an empty file */
	skipped = conf_parse(file, &list, &first);
	fclose(file);
	if (skipped < 0)
		fuzz_fail("no memory for a few lines");
	for (const struct conf_entry *entry = list; entry != NULL; entry = entry->next) {
		if (entry->info.ia_name[0] == '\0' || strlen(entry->info.ia_name) >= DAT_NAME_MAX_LENGTH ||
		    entry->library[0] == '\0')
			fuzz_fail("an entry without a name or a library");
		conf_is_ours(entry);
	}
	conf_free(list);
	return 0;
}

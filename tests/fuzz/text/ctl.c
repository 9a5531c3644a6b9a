/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of the control socket: accepted, or refused with a message that a terminal can show. */
#include <stdlib.h>
#include <string.h>

#include "control/ctl/request.h"
#include "tests/fuzz/base/records.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size > 0 ? size : 1); /* of exact size, unterminated */
	struct ctl_request request;
	char why[256] = "";
	int error;

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	error = ctl_parse(text, size, &request, why, sizeof(why));
	free(text);
	if (error != 0 && why[0] == '\0')
		fuzz_fail("refused without a word");
	for (const char *c = why; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			fuzz_fail("a byte of the caller's goes to a terminal");
	if (error != 0)
		return 0;
	if (request.command >= CTL_COMMANDS || request.what >= CTL_WHATS)
		fuzz_fail("taken, but nothing of that name is there");
	return 0;
}

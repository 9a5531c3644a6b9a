/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests for metrics, in pieces as they may arrive. */
#include <stdlib.h>
#include <string.h>

#include "control/metrics/http.h"
#include "tests/fuzz/base/records.h"

/* Acts as the listener, which checks the text again whenever more has arrived. */
static bool
whole_in_pieces(const char *text, size_t len, size_t piece)
{
	size_t seen = 0;

	while (seen < len) {
		size_t now = len - seen < piece ? len : seen + piece;

		if (metrics_http_whole(text, now, seen))
			return true;
		seen = now;
	}
	return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char answer[METRICS_ANSWER_HEAD],
		*text = malloc(size > 0 ? size : 1); /* of exact size, unterminated */
	struct metrics_request request;
	unsigned int status;
	bool whole;

	if (text == NULL || size > METRICS_HEAD_MAX) {
		free(text);
		return 0;
	}
	memcpy(text, data, size);
	whole = metrics_http_whole(text, size, 0);
	if (whole != whole_in_pieces(text, size, 1) || whole != whole_in_pieces(text, size, 7))
		fuzz_fail("whole or not, by how it comes");
	status = metrics_http_parse(text, size, &request);
	free(text);
	if ((status == 200 ? metrics_http_head(answer, &request, size)
			   : metrics_http_refuse(answer, status)) >= sizeof(answer))
		fuzz_fail("the answer's head is cut");
	return 0;
}

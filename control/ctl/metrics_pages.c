/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics in pages. The text is rendered for a caller's first page; later pages come from the same text. A
 * caller within a tenth of a second of another shares the other's text. A text is freed with its last reader;
 * a caller holds one until it has read all of it, sends another request, or a minute has passed. */
#include <stdlib.h>
#include <string.h>

#include "control/ctl/internal.h"
#include "control/metrics/metrics.h"
#include "dataplane/base/clock.h"

#define PAGE 30000u /* ASCII bytes; JSON escapes each to at most two */
_Static_assert(2 * PAGE + 64 <= CTL_ANSWER_MAX, "a page fits an answer");
#define KEEP_NS (60 * NS_PER_S)
#define FRESH_NS (100 * NS_PER_MS)

struct ctl_text {
	uint32_t readers;
	uint64_t at; /* time of rendering */
	struct metrics_text text;
};

static struct ctl_text *newest[2]; /* indexed by `openmetrics`; NULL, or has readers */

void
ctl_metrics_forget(struct ctl_caller *caller)
{
	struct ctl_text *text = caller->text;

	caller->text = NULL;
	if (text == NULL || --text->readers > 0)
		return;
	if (newest[text->text.openmetrics] == text)
		newest[text->text.openmetrics] = NULL;
	metrics_text_free(&text->text);
	free(text);
}

static struct ctl_text *
text_render(bool openmetrics)
{
	struct ctl_text *text = calloc(1, sizeof(*text));

	if (text == NULL)
		return NULL;
	text->at = control.now;
	metrics_text_init(&text->text, openmetrics);
	if (metrics_render(&text->text) == 0)
		return text;
	metrics_text_free(&text->text);
	free(text);
	return NULL;
}

static bool
text_begin(struct ctl_caller *caller, bool openmetrics)
{
	struct ctl_text *text = newest[openmetrics];

	if (text == NULL || control.now - text->at >= FRESH_NS)
		text = text_render(openmetrics);
	if (text == NULL)
		return false;
	newest[openmetrics] = text;
	text->readers++;
	caller->text = text;
	return true;
}

static void
answer_page(struct ctl_caller *caller, uint64_t from)
{
	const struct metrics_text *text = &caller->text->text;
	size_t len = text->len - from < PAGE ? text->len - from : PAGE;
	json_t *page = json_pack("{s:s%}", "metrics", text->at + from, len);

	if (from + len < text->len)
		json_object_set_new(page, "next", json_integer((json_int_t)(from + len)));
	else
		ctl_metrics_forget(caller);
	ctl_answer(caller, page);
}

void
ctl_metrics(struct ctl_caller *caller, const struct ctl_request *request)
{
	const char *format = (request->given & CTL_M_FORMAT) != 0 ? request->format : "openmetrics";
	bool openmetrics = strcmp(format, "openmetrics") == 0;

	if (!openmetrics && strcmp(format, "prometheus") != 0) {
		ctl_metrics_forget(caller);
		ctl_refuse(caller, "format %s: no such format; write openmetrics or prometheus", format);
		return;
	}
	if (request->from == 0) {
		ctl_metrics_forget(caller);
		if (!text_begin(caller, openmetrics)) {
			ctl_refuse(caller, "metrics: no memory for the text; try again");
			return;
		}
	}
	if (caller->text == NULL || request->from >= caller->text->text.len ||
	    control.now - caller->text->at > KEEP_NS) {
		ctl_metrics_forget(caller);
		ctl_refuse(caller,
			   "metrics: the text has expired, or from is past its end; ask from its beginning");
		return;
	}
	answer_page(caller, request->from);
}

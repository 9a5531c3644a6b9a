/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics as text: OpenMetrics 1.0, or the older Prometheus format for clients that do not request
 * OpenMetrics. Write one family at a time: metrics_family(), then its samples. */
#ifndef CONTROL_METRICS_TEXT_H
#define CONTROL_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataplane/base/latency.h"

#define METRICS_TEXT_MAX (8u << 20) /* limit of a text, in bytes */

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM, METRICS_INFO };

struct metrics_text {
	char *at; /* NULL: empty */
	size_t len, room;
	bool openmetrics;
	bool failed; /* out of memory or too long: the text is unusable */
	/* latest family */
	char name[96];
	enum metrics_type type;
};

void metrics_text_init(struct metrics_text *text, bool openmetrics);
void metrics_text_free(struct metrics_text *text);

/* `name` excludes the type's suffix and the unit; `unit` ("": none) is appended after an underscore. */
void metrics_family(struct metrics_text *text, const char *name, enum metrics_type type, const char *unit,
		    const char *help);
/* Writes a family's only sample, without labels. */
void metrics_value(struct metrics_text *text, uint64_t value);
/* Writes a sample. `labels` is a format; foreign text must pass metrics_label() first. */
void metrics_sample(struct metrics_text *text, uint64_t value, const char *labels, ...)
	__attribute__((format(printf, 3, 4)));
void metrics_seconds(struct metrics_text *text, uint64_t ns, const char *labels, ...)
	__attribute__((format(printf, 3, 4)));
void metrics_histogram(struct metrics_text *text, const struct latency *latency, const char *labels, ...)
	__attribute__((format(printf, 3, 4)));
void metrics_end(struct metrics_text *text);

/* Room for a label's value made from text of at most `n` bytes. */
#define METRICS_LABEL(n) (2 * (n) + 1)
/* Converts `from` to a label's value: escapes quotes and backslashes, replaces other than printable ASCII by
 * '?'. */
const char *metrics_label(const char *from, char *to, size_t room);

#endif

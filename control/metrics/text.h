/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics in text: OpenMetrics 1.0, or the format that Prometheus had before, which those get that do not ask
 * for it.  A family at a time: metrics_family(), then its samples.
 */
#ifndef CONTROL_METRICS_TEXT_H
#define CONTROL_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataplane/compat/latency.h"

#define METRICS_TEXT_MAX (8u << 20) /* no text is longer */

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM, METRICS_INFO };

struct metrics_text {
	char *at; /* NULL: nothing yet */
	size_t len, room;
	bool openmetrics;
	bool failed; /* no memory, or too long: what is there is not to be used */
	/* of the family begun last */
	char name[96];
	enum metrics_type type;
};

void metrics_text_init(struct metrics_text *text, bool openmetrics);
void metrics_text_free(struct metrics_text *text);

/* `name` without the suffix of its type, and with its unit ("" : none) behind an underscore. */
void metrics_family(struct metrics_text *text, const char *name, enum metrics_type type, const char *unit,
		    const char *help);
/* The only sample. */
void metrics_value(struct metrics_text *text, uint64_t value);
/* A sample; its labels are a format: what comes from others goes through metrics_label(). */
void metrics_sample(struct metrics_text *text, uint64_t value, const char *labels, ...)
	__attribute__((format(printf, 3, 4)));
void metrics_seconds(struct metrics_text *text, uint64_t ns, const char *labels, ...)
	__attribute__((format(printf, 3, 4)));
void metrics_histogram(struct metrics_text *text, const struct latency *latency, const char *labels, ...)
	__attribute__((format(printf, 3, 4)));
void metrics_end(struct metrics_text *text);

/* Room for the value of a label from text of at most `n` bytes. */
#define METRICS_LABEL(n) (2 * (n) + 1)
/* `from` as the value of a label: quotes and backslashes escaped, what is not printable ASCII a '?'. */
const char *metrics_label(const char *from, char *to, size_t room);

#endif

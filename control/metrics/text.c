/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/metrics/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 65536u
#define LABELS_MAX 512u
#define NS_PER_SECOND UINT64_C(1000000000)

void
metrics_text_init(struct metrics_text *text, bool openmetrics)
{
	memset(text, 0, sizeof(*text));
	text->openmetrics = openmetrics;
}

void
metrics_text_free(struct metrics_text *text)
{
	free(text->at);
	metrics_text_init(text, text->openmetrics);
}

/* Makes room for `more` bytes; false: too long, or out of memory. */
static bool
grow_text(struct metrics_text *text, size_t more)
{
	size_t room = text->room == 0 ? FIRST_ROOM : text->room;
	char *at;

	while (room - text->len < more && room < METRICS_TEXT_MAX)
		room *= 2;
	at = room - text->len < more ? NULL : realloc(text->at, room);
	if (at == NULL)
		return false;
	text->at = at;
	text->room = room;
	return true;
}

static void __attribute__((format(printf, 2, 3)))
add_format(struct metrics_text *text, const char *format, ...)
{
	while (!text->failed) {
		size_t room = text->room - text->len;
		va_list args;
		int len;

		va_start(args, format);
		len = vsnprintf(room > 0 ? text->at + text->len : NULL, room, format, args);
		va_end(args);
		if (len >= 0 && (size_t)len < room) {
			text->len += (size_t)len;
			return;
		}
		text->failed = len < 0 || !grow_text(text, (size_t)len + 1);
	}
}

static void
add_sample(struct metrics_text *text, const char *suffix, const char *labels, const char *more,
	   const char *value)
{
	bool any = *labels != '\0' || *more != '\0', both = *labels != '\0' && *more != '\0';

	add_format(text, "%s%s%s%s%s%s%s %s\n", text->name, suffix, any ? "{" : "", labels, both ? "," : "",
		   more, any ? "}" : "", value);
}

static void
add_number(struct metrics_text *text, const char *suffix, const char *labels, const char *more,
	   uint64_t value)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRIu64, value);
	add_sample(text, suffix, labels, more, number);
}

static void
add_seconds(struct metrics_text *text, const char *suffix, const char *labels, uint64_t ns)
{
	char number[40];

	snprintf(number, sizeof(number), "%" PRIu64 ".%09" PRIu64, ns / NS_PER_SECOND, ns % NS_PER_SECOND);
	add_sample(text, suffix, labels, "", number);
}

static const char *
suffix_of(const struct metrics_text *text)
{
	return text->type == METRICS_COUNTER ? "_total" : text->type == METRICS_INFO ? "_info" : "";
}

static void
add_head(struct metrics_text *text, const char *what, const char *value)
{
	/* The older Prometheus format names a family like its samples. */
	add_format(text, "# %s %s%s %s\n", what, text->name, text->openmetrics ? "" : suffix_of(text), value);
}

void
metrics_family(struct metrics_text *text, const char *name, enum metrics_type type, const char *unit,
	       const char *help)
{
	static const char *const types[] = {[METRICS_COUNTER] = "counter",
					    [METRICS_GAUGE] = "gauge",
					    [METRICS_HISTOGRAM] = "histogram",
					    [METRICS_INFO] = "info"};

	snprintf(text->name, sizeof(text->name), "%s%s%s", name, *unit == '\0' ? "" : "_", unit);
	text->type = type;
	add_head(text, "TYPE", type == METRICS_INFO && !text->openmetrics ? "gauge" : types[type]);
	if (*unit != '\0' && text->openmetrics)
		add_head(text, "UNIT", unit);
	add_head(text, "HELP", help);
}

#define FORMAT_LABELS(text, format, out)                                        \
	do {                                                                    \
		va_list args_;                                                  \
		int len_;                                                       \
                                                                                \
		va_start(args_, format);                                        \
		len_ = vsnprintf(out, LABELS_MAX, format, args_);               \
		va_end(args_);                                                  \
		(text)->failed |= len_ < 0 || (unsigned int)len_ >= LABELS_MAX; \
	} while (0)

void
metrics_value(struct metrics_text *text, uint64_t value)
{
	add_number(text, suffix_of(text), "", "", value);
}

void
metrics_sample(struct metrics_text *text, uint64_t value, const char *labels, ...)
{
	char formatted[LABELS_MAX];

	FORMAT_LABELS(text, labels, formatted);
	add_number(text, suffix_of(text), formatted, "", value);
}

void
metrics_seconds(struct metrics_text *text, uint64_t ns, const char *labels, ...)
{
	char formatted[LABELS_MAX];

	FORMAT_LABELS(text, labels, formatted);
	add_seconds(text, suffix_of(text), formatted, ns);
}

void
metrics_histogram(struct metrics_text *text, const struct latency *latency, const char *labels, ...)
{
	char formatted[LABELS_MAX], bound[32];
	uint64_t count = 0;

	FORMAT_LABELS(text, labels, formatted);
	for (uint32_t i = 0; i < LATENCY_BUCKETS; i++) {
		count += latency->bucket[i];
		if (i < LATENCY_BOUNDS)
			snprintf(bound, sizeof(bound), "le=\"%.9g\"",
				 (double)LATENCY_FIRST_NS * (double)(1u << i) / 1e9);
		else
			snprintf(bound, sizeof(bound), "le=\"+Inf\"");
		add_number(text, "_bucket", formatted, bound, count);
	}
	add_seconds(text, "_sum", formatted, latency->sum_ns);
	add_number(text, "_count", formatted, "", count);
}

void
metrics_end(struct metrics_text *text)
{
	if (text->openmetrics)
		add_format(text, "# EOF\n");
}

const char *
metrics_label(const char *from, char *to, size_t room)
{
	size_t len = 0;

	for (; *from != '\0' && len + 2 < room; from++) {
		if (*from == '"' || *from == '\\')
			to[len++] = '\\';
		to[len++] = *from >= ' ' && *from <= '~' ? *from : '?';
	}
	to[len] = '\0';
	return to;
}

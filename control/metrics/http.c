/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/metrics/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct span {
	const char *at;
	size_t len;
};

/* What the head is made up of, as far as it matters. */
struct fields {
	unsigned int hosts;
	bool body, openmetrics;
};

bool
metrics_http_whole(const char *bytes, size_t len, size_t seen)
{
	for (size_t i = seen < 3 ? 0 : seen - 3; i < len; i++) {
		if (bytes[i] != '\n')
			continue;
		if (len - i >= 2 && bytes[i + 1] == '\n')
			return true;
		if (len - i >= 3 && bytes[i + 1] == '\r' && bytes[i + 2] == '\n')
			return true;
	}
	return false;
}

static bool
is_token(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* The next line, without its end; false: there is none. */
static bool
take_line(struct span *rest, struct span *line)
{
	const char *end = rest->len == 0 ? NULL : memchr(rest->at, '\n', rest->len);

	if (end == NULL)
		return false;
	*line = (struct span){rest->at, (size_t)(end - rest->at)};
	rest->at = end + 1;
	rest->len -= line->len + 1;
	if (line->len > 0 && line->at[line->len - 1] == '\r')
		line->len--;
	return true;
}

/* What comes before the next space, and that. */
static struct span
take_word(struct span *line)
{
	const char *end = line->len == 0 ? NULL : memchr(line->at, ' ', line->len);
	struct span word = {line->at, end == NULL ? line->len : (size_t)(end - line->at)};
	size_t taken = end == NULL ? word.len : word.len + 1;

	line->at += taken;
	line->len -= taken;
	return word;
}

static bool
span_is(const struct span *span, const char *text)
{
	return span->len == strlen(text) && strncasecmp(span->at, text, span->len) == 0;
}

static bool
span_has(const struct span *span, const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i + len <= span->len; i++)
		if (strncasecmp(span->at + i, text, len) == 0)
			return true;
	return false;
}

static bool
all_visible(const struct span *span)
{
	for (size_t i = 0; i < span->len; i++)
		if (span->at[i] <= ' ' || span->at[i] > '~')
			return false;
	return span->len > 0;
}

/* "/metrics", with a query or without; also as proxies write it, with scheme and authority before. */
static bool
is_metrics(struct span target)
{
	const char *end;

	if (target.len >= 7 && strncasecmp(target.at, "http://", 7) == 0) {
		end = memchr(target.at + 7, '/', target.len - 7);
		if (end == NULL)
			return false;
		target.len -= (size_t)(end - target.at);
		target.at = end;
	}
	end = memchr(target.at, '?', target.len);
	if (end != NULL)
		target.len = (size_t)(end - target.at);
	return target.len == strlen("/metrics") && memcmp(target.at, "/metrics", target.len) == 0;
}

/* *old: HTTP/1.0, which knows no Host. */
static unsigned int
parse_request_line(struct span line, struct metrics_request *out, bool *old)
{
	struct span method = take_word(&line), target = take_word(&line), version = line;

	for (size_t i = 0; i < method.len; i++)
		if (!is_token(method.at[i]))
			return 400;
	if (method.len == 0 || !all_visible(&target) || version.len != 8 ||
	    memcmp(version.at, "HTTP/", 5) != 0 || version.at[6] != '.' || version.at[5] < '0' ||
	    version.at[5] > '9' || version.at[7] < '0' || version.at[7] > '9')
		return 400;
	if (version.at[5] != '1')
		return 505;
	*old = version.at[7] == '0';
	out->head = method.len == 4 && memcmp(method.at, "HEAD", 4) == 0;
	if (!out->head && (method.len != 3 || memcmp(method.at, "GET", 3) != 0))
		return 405;
	return is_metrics(target) ? 200 : 404;
}

static bool
parse_field(const struct span *line, struct fields *fields)
{
	const char *colon = memchr(line->at, ':', line->len);
	struct span name = {line->at, colon == NULL ? 0 : (size_t)(colon - line->at)}, value;

	if (name.len == 0)
		return false;
	value = (struct span){colon + 1, line->len - name.len - 1};
	for (size_t i = 0; i < name.len; i++)
		if (!is_token(name.at[i]))
			return false;
	for (size_t i = 0; i < value.len; i++)
		if (((unsigned char)value.at[i] < ' ' && value.at[i] != '\t') || value.at[i] == 0x7f)
			return false;
	fields->hosts += span_is(&name, "Host");
	fields->body |= span_is(&name, "Transfer-Encoding");
	if (span_is(&name, "Content-Length"))
		for (size_t i = 0; i < value.len; i++)
			fields->body |= value.at[i] != '0' && value.at[i] != ' ' && value.at[i] != '\t';
	fields->openmetrics |= span_is(&name, "Accept") && span_has(&value, "application/openmetrics-text");
	return true;
}

unsigned int
metrics_http_parse(const char *head, size_t len, struct metrics_request *out)
{
	struct span rest = {head, len}, line;
	struct fields fields = {0, false, false};
	unsigned int status;
	bool old = false;

	memset(out, 0, sizeof(*out));
	if (!take_line(&rest, &line))
		return 400;
	status = parse_request_line(line, out, &old);
	if (status == 400 || status == 505)
		return status;
	while (take_line(&rest, &line) && line.len > 0)
		if (!parse_field(&line, &fields))
			return 400;
	if (fields.hosts > 1 || (fields.hosts == 0 && !old) || fields.body)
		return 400;
	out->openmetrics = fields.openmetrics;
	return status;
}

size_t
metrics_http_head(char out[METRICS_ANSWER_HEAD], const struct metrics_request *request, size_t len)
{
	return (size_t)snprintf(out, METRICS_ANSWER_HEAD,
				"HTTP/1.1 200 OK\r\n"
				"Content-Type: %s; charset=utf-8\r\n"
				"Content-Length: %zu\r\n"
				"Cache-Control: no-store\r\n"
				"Connection: close\r\n\r\n",
				request->openmetrics ? "application/openmetrics-text; version=1.0.0"
						     : "text/plain; version=0.0.4",
				len);
}

size_t
metrics_http_refuse(char out[METRICS_ANSWER_HEAD], unsigned int status)
{
	static const struct {
		unsigned int status;
		const char *reason, *field, *body;
	} refusals[] = {
		{400, "Bad Request", "", "This is not an HTTP/1.1 request without a body.\n"},
		{404, "Not Found", "", "There is nothing but /metrics.\n"},
		{405, "Method Not Allowed", "Allow: GET, HEAD\r\n", "Ask by GET.\n"},
		{408, "Request Timeout", "", "The request did not come in time.\n"},
		{431, "Request Header Fields Too Large", "", "The head of a request may have 4096 bytes.\n"},
		{505, "HTTP Version Not Supported", "", "Ask by HTTP/1.1.\n"},
		{503, "Service Unavailable", "", "The metrics cannot be had now.\n"},
	};
	size_t i = 0;

	while (i + 1 < sizeof(refusals) / sizeof(refusals[0]) && refusals[i].status != status)
		i++;
	return (size_t)snprintf(out, METRICS_ANSWER_HEAD,
				"HTTP/1.1 %u %s\r\n"
				"Content-Type: text/plain; charset=utf-8\r\n"
				"Content-Length: %zu\r\n%s"
				"Connection: close\r\n\r\n%s",
				refusals[i].status, refusals[i].reason, strlen(refusals[i].body),
				refusals[i].field, refusals[i].body);
}

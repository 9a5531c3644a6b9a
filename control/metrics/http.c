/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/metrics/http.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TOKEN "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&'*+-.^_`|~"

/* Header fields that matter for the answer. */
struct fields {
	unsigned int hosts;
	bool body, openmetrics;
};

bool
metrics_http_whole(const char *bytes, size_t len, size_t seen)
{
	size_t from = seen < 3 ? 0 : seen - 3;

	return memmem(bytes + from, len - from, "\n\n", 2) != NULL ||
	       memmem(bytes + from, len - from, "\n\r\n", 3) != NULL;
}

static bool
is_token(const char *text)
{
	return *text != '\0' && text[strspn(text, TOKEN)] == '\0';
}

/* Next line without its end, or NULL. */
static char *
take_line(char **rest)
{
	char *line = *rest, *end = strchr(line, '\n');

	if (end == NULL)
		return NULL;
	*rest = end + 1;
	if (end > line && end[-1] == '\r')
		end--;
	*end = '\0';
	return line;
}

/* Accepts "/metrics" with or without a query, and the absolute form that proxies send (scheme and
 * authority). */
static bool
is_metrics(const char *target)
{
	if (strncasecmp(target, "http://", 7) == 0)
		target = strchrnul(target + 7, '/');
	return strcspn(target, "?") == strlen("/metrics") &&
	       strncmp(target, "/metrics", strlen("/metrics")) == 0;
}

/* *old: HTTP/1.0, which has no Host field. */
static unsigned int
parse_request_line(char *version, struct metrics_request *out, bool *old)
{
	const char *method = strsep(&version, " "), *target = strsep(&version, " ");

	if (version == NULL || !is_token(method) || *target == '\0' || strlen(version) != 8 ||
	    strncmp(version, "HTTP/", 5) != 0 || !isdigit((unsigned char)version[5]) || version[6] != '.' ||
	    !isdigit((unsigned char)version[7]))
		return 400;
	for (const char *c = target; *c != '\0'; c++)
		if (!isgraph((unsigned char)*c))
			return 400;
	if (version[5] != '1')
		return 505;
	*old = version[7] == '0';
	out->head = strcmp(method, "HEAD") == 0;
	if (!out->head && strcmp(method, "GET") != 0)
		return 405;
	return is_metrics(target) ? 200 : 404;
}

static bool
parse_field(char *value, struct fields *fields)
{
	const char *name = strsep(&value, ":");

	if (value == NULL || !is_token(name))
		return false;
	for (const char *c = value; *c != '\0'; c++)
		if (iscntrl((unsigned char)*c) && *c != '\t')
			return false;
	fields->hosts += strcasecmp(name, "Host") == 0;
	fields->body |= strcasecmp(name, "Transfer-Encoding") == 0;
	fields->body |= strcasecmp(name, "Content-Length") == 0 && value[strspn(value, "0 \t")] != '\0';
	fields->openmetrics |=
		strcasecmp(name, "Accept") == 0 && strcasestr(value, "application/openmetrics-text") != NULL;
	return true;
}

unsigned int
metrics_http_parse(const char *head, size_t len, struct metrics_request *out)
{
	char copy[METRICS_HEAD_MAX + 1], *rest = copy, *line;
	struct fields fields = {0, false, false};
	unsigned int status;
	bool old = false;

	memset(out, 0, sizeof(*out));
	/* Byte 0 counts as an invalid control character. */
	for (size_t i = 0; i < len; i++)
		copy[i] = head[i] != '\0' ? head[i] : '\x01';
	copy[len] = '\0';
	line = take_line(&rest);
	status = line != NULL ? parse_request_line(line, out, &old) : 400;
	if (status == 400 || status == 505)
		return status;
	while ((line = take_line(&rest)) != NULL && *line != '\0')
		if (!parse_field(line, &fields))
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
		{400, "Bad Request", "", "Not an HTTP/1.1 request without a body.\n"},
		{404, "Not Found", "", "Only /metrics exists here.\n"},
		{405, "Method Not Allowed", "Allow: GET, HEAD\r\n", "Use GET.\n"},
		{408, "Request Timeout", "", "The request was not complete in time.\n"},
		{431, "Request Header Fields Too Large", "",
		 "A request's head may have at most 4096 bytes.\n"},
		{505, "HTTP Version Not Supported", "", "Use HTTP/1.1.\n"},
		{503, "Service Unavailable", "", "Metrics are not available now; try again later.\n"},
	};
	size_t i = 0;

	while (i + 1 < sizeof(refusals) / sizeof(refusals[0]) && refusals[i].status != status)
		i++;
	return (size_t)snprintf(out, METRICS_ANSWER_HEAD,
				"HTTP/1.1 %u %s\r\n"
				"Content-Type: text/plain; charset=utf-8\r\n"
				"Content-Length: %zu\r\n%sConnection: close\r\n\r\n%s",
				refusals[i].status, refusals[i].reason, strlen(refusals[i].body),
				refusals[i].field, refusals[i].body);
}

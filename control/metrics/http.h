/* SPDX-License-Identifier: BSD-3-Clause */
/* Subset of HTTP/1.1 (RFC 9112) for one resource: GET and HEAD of /metrics, one request per connection. Sans
 * I/O. */
#ifndef CONTROL_METRICS_HTTP_H
#define CONTROL_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#define METRICS_HEAD_MAX 4096u   /* bytes of a request's head */
#define METRICS_ANSWER_HEAD 512u /* bytes of an answer's head, or of a whole refusal */

struct metrics_request {
	bool head;        /* HEAD: send no body */
	bool openmetrics; /* accepts OpenMetrics */
};

/* Is the head complete? `seen` of the `len` bytes were checked before. */
bool metrics_http_whole(const char *bytes, size_t len, size_t seen);
/* Parses a complete head of at most METRICS_HEAD_MAX bytes. Returns the answer's status; 200: `out` is filled
 * in. */
unsigned int metrics_http_parse(const char *head, size_t len, struct metrics_request *out);
/* Writes the answer's head for a body of `len` bytes; returns the head's length. */
size_t metrics_http_head(char out[METRICS_ANSWER_HEAD], const struct metrics_request *request, size_t len);
/* Writes a complete answer with a status other than 200; returns its length. */
size_t metrics_http_refuse(char out[METRICS_ANSWER_HEAD], unsigned int status);

#endif

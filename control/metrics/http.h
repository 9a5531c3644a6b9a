/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * As much of HTTP/1.1 (RFC 9112) as one resource needs: GET and HEAD of /metrics, one request a connection.
 * Sans I/O.
 */
#ifndef CONTROL_METRICS_HTTP_H
#define CONTROL_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#define METRICS_HEAD_MAX 4096u   /* bytes of a request's head */
#define METRICS_ANSWER_HEAD 512u /* bytes of an answer's, and of a refusal as a whole */

struct metrics_request {
	bool head;        /* HEAD: without the body */
	bool openmetrics; /* it takes OpenMetrics */
};

/* Whether the head is there as a whole, by its last bytes; `seen` of the `len` have been looked at before. */
bool metrics_http_whole(const char *bytes, size_t len, size_t seen);
/* A whole head of at most METRICS_HEAD_MAX bytes: the status of the answer; 200: `out` is filled in. */
unsigned int metrics_http_parse(const char *head, size_t len, struct metrics_request *out);
/* The head of the answer for a body of `len` bytes; returns its length. */
size_t metrics_http_head(char out[METRICS_ANSWER_HEAD], const struct metrics_request *request, size_t len);
/* The whole answer of another status than 200; returns its length. */
size_t metrics_http_refuse(char out[METRICS_ANSWER_HEAD], unsigned int status);

#endif

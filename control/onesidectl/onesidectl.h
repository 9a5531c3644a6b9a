/* SPDX-License-Identifier: BSD-3-Clause */
/* onesidectl: asks a data plane by its control socket, and prints. */
#ifndef CONTROL_ONESIDECTL_ONESIDECTL_H
#define CONTROL_ONESIDECTL_ONESIDECTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#define USAGE_STATUS 2 /* the command line is wrong; 1: refused, or failed */

struct options {
	const char *socket;
	bool json;
};
extern struct options onesidectl_options;

/* Ends the program with a sentence. */
_Noreturn void onesidectl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void onesidectl_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What has been printed is out, or the program ends with a sentence. */
void onesidectl_flush(void);

/* ---- ask.c: each takes its request away; refusals and failures end the program ---- */
int ask_connect(void);
json_t *ask_answer(int fd); /* NULL: the data plane has ended the connection */
void ask_send(int fd, json_t *request);
json_t *ask_one(json_t *request);
/* Where the page behind this one begins, which began at `from`; NULL: it was the last. */
json_t *ask_next(const json_t *page, const json_t *from);
/* {"WHAT": [...]}, all pages in one. */
json_t *ask_list(const char *what, const json_t *filters);
void ask_change(json_t *request); /* and prints what has been done */

/* ---- words of the command line ---- */
/* "name=value" into `request`; false: it is none of `allowed`, words separated by spaces. */
bool word_filter(json_t *request, const char *word, const char *allowed);
void word_text(json_t *request, const char *name, const char *text);
json_int_t word_number(const char *name, const char *text, json_int_t max);

/* ---- columns.c ---- */
void columns_print(const char *what, const json_t *answer);
void columns_summary(const json_t *answer);                      /* of show without a name */
const char *columns_text(const json_t *object, const char *key); /* "?": a data plane of another version */
const char *columns_bytes(double bytes, char text[32]);

/* ---- screen.c ---- */
void top_screen_open(void);                 /* does nothing where there is no terminal */
size_t top_screen_rows(void);               /* SIZE_MAX: as many as one likes */
bool top_screen_wait(unsigned int seconds); /* false: somebody wants to end it */

/* ---- commands: `words` are what follows the command's name ---- */
int top_run(int count, char **words);
int trace_run(int count, char **words);
int capture_run(int count, char **words);
int check_config_run(int count, char **words);
int onesidectl_metrics_run(int count, char **words);
int onesidectl_setup_run(int count, char **words);

#endif

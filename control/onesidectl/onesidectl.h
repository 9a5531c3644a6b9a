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

/* With --json: prints it, by JSON_INDENT(2) or JSON_COMPACT. */
bool onesidectl_json(const json_t *value, size_t form);

/* ---- ask.c: each takes its request away; refusals and failures end the program ---- */
int ask_connect(void);
json_t *ask_answer(int fd);
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
json_int_t word_number(const char *name, const char *text, json_int_t max);

/* ---- columns.c ---- */
#define COLUMNS_MAX 20
struct column {
	char key[24], title[24];
	char form; /* 'n' number, 'b' bytes, 'x' address, else 't' */
};
size_t columns_parse(const char *text, struct column column[COLUMNS_MAX]);
bool columns_known(const char *what); /* there is something of that name to show */
void columns_print(const char *what, const json_t *answer);
void columns_summary(const json_t *answer);                       /* of show without a name */
const char *columns_text(const json_t *object, const char *key);  /* "?": a data plane of another version */
json_int_t columns_number(const json_t *object, const char *key); /* 0: so, too */
const char *columns_bytes(double bytes, char text[32]);

/* ---- screen.c ---- */
void top_screen_open(void);                 /* does nothing where there is no terminal */
size_t top_screen_rows(void);               /* SIZE_MAX: as many as one likes */
bool top_screen_wait(unsigned int seconds); /* false: somebody wants to end it */

/* ---- other programs that this one becomes ---- */
#define ONESIDECTL_WORDS 128
struct onesidectl_command {
	char *word[ONESIDECTL_WORDS + 1];
	int words;
};
void onesidectl_command_add(struct onesidectl_command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
_Noreturn void onesidectl_command_start(struct onesidectl_command *command, const char *remedy);

/* ---- check.c ---- */
#define ONESIDECTL_SERVICE 128
/* The service that reads the file: "oneside", "oneside@NAME" for the one of that folder; false: none does. */
bool onesidectl_service(const char *conf, char service[ONESIDECTL_SERVICE]);

/* ---- commands: `words` are what follows the command's name ---- */
int top_run(int count, char **words);
int trace_run(int count, char **words);
int capture_run(int count, char **words);
int check_config_run(int count, char **words);
int onesidectl_metrics_run(int count, char **words);
int onesidectl_setup_run(int count, char **words);

#endif

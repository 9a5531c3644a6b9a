/* SPDX-License-Identifier: BSD-3-Clause */
/* onesidectl: queries a data plane over its control socket, and prints the answers. */
#ifndef CONTROL_ONESIDECTL_ONESIDECTL_H
#define CONTROL_ONESIDECTL_ONESIDECTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#define USAGE_STATUS 2 /* wrong command line; 1: refused or failed */

struct options {
	const char *socket;
	bool json;
};
extern struct options onesidectl_options;

/* Prints a sentence and ends the program. */
_Noreturn void onesidectl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void onesidectl_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Flushes standard output; ends the program with a sentence if that fails. */
void onesidectl_flush(void);

/* With --json: prints `value` in form JSON_INDENT(2) or JSON_COMPACT, and returns true. */
bool onesidectl_json(const json_t *value, size_t form);

/* ---- ask.c: functions take ownership of requests; refusals and failures end the program ---- */
int ask_connect(void);
json_t *ask_answer(int fd);
json_t *ask_answer_or_end(int fd); /* NULL: the data plane closed the connection */
void ask_disconnect(void);         /* ends the connection of ask_one() */
void ask_wait(void);               /* waits until a data plane listens */
void ask_send(int fd, json_t *request);
json_t *ask_one(json_t *request);
/* Start of the page after the one that began at `from`; NULL: that was the last. */
json_t *ask_next(const json_t *page, const json_t *from);
/* Returns {"WHAT": [...]} with the entries of all pages. */
json_t *ask_list(const char *what, const json_t *filters);
void ask_change(json_t *request); /* prints the result */

/* ---- words of the command line ---- */
/* Parses "name=value" into `request`. False if `allowed`, words separated by blanks, lacks the name. */
bool word_filter(json_t *request, const char *word, const char *allowed);
/* Sets a text of the request. */
void word_text(json_t *request, const char *name, const char *text);
json_int_t word_number(const char *name, const char *text, json_int_t max);

/* ---- columns.c ---- */
#define COLUMNS_MAX 20
struct column {
	char key[24], title[24];
	char form; /* 'n' number, 'b' bytes, 'x' address, 't' text */
};
size_t columns_parse(const char *text, struct column column[COLUMNS_MAX]);
bool columns_known(const char *what); /* is there a list of that name? */
void columns_print(const char *what, const json_t *answer);
void columns_summary(const json_t *answer);                       /* of show without a name */
const char *columns_text(const json_t *object, const char *key);  /* "?" if missing: another version */
json_int_t columns_number(const json_t *object, const char *key); /* 0 if missing: another version */
const char *columns_bytes(double bytes, char text[32]);

/* ---- screen.c ---- */
void top_screen_open(void);                 /* no effect without a terminal */
size_t top_screen_rows(void);               /* SIZE_MAX: unlimited */
bool top_screen_wait(unsigned int seconds); /* false: the user quits */

/* ---- programs that replace this one ---- */
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
/* Service that reads the file: "oneside", or "oneside@NAME" for an instance's folder; false: none. */
bool onesidectl_service(const char *conf, char service[ONESIDECTL_SERVICE]);

/* ---- commands: `words` follow the command's name ---- */
int top_run(int count, char **words);
int trace_run(int count, char **words);
int capture_run(int count, char **words);
int check_config_run(int count, char **words);
int onesidectl_metrics_run(int count, char **words);
int onesidectl_setup_run(int count, char **words);
int onesidectl_upgrade_run(int count, char **words);
/* `reload upgrade` */
int onesidectl_upgrade_or_reload(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ONESIDE_DEBUG=1: each refused call prints one line on standard error:
 *
 *   oneside: FUNCTION: ARGUMENT = VALUE: REASON; REMEDY (CODE)
 *
 * The function that refuses knows the reason, and notes it for its thread with ONE_BECAUSE. The API's entry
 * point knows function, arguments and code, and prints. A note applies only to its code, so that a note about
 * an overcome error is not taken for the reason of a later one. Requests that the data plane refused are
 * noted here, with the data plane's subject and value; they are printed if no function noted a more specific
 * reason.
 *
 * Without the variable nothing is noted, and the entry points examine no arguments.
 */
#ifndef CLIENT_EXPLAIN_H
#define CLIENT_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "abi/message.h"
#include "client/parameters.h"

/* Read from the environment when the library is loaded; constant from then on. */
extern bool one_explaining;

/* ONE_BECAUSE returns `code`, so that it can follow `return`. */
#define ONE_BECAUSE(code, ...) (ONE_NOTE(code, __VA_ARGS__), (code))
#define ONE_NOTE(code, ...) \
	(__builtin_expect(one_explaining, 0) ? one_note((uint32_t)(code), __VA_ARGS__) : (void)0)

/* Notes "ARGUMENT = VALUE: REASON; REMEDY", truncated to the room there is. */
void one_note(uint32_t code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* Returns this thread's note for `code` since its last one_explain, or NULL. */
const char *one_noted(uint32_t code);
/* Returns the reason of the last request of this thread that the data plane refused since its last
 * one_explain, or NULL. */
const char *one_noted_cause(void);
/* `limit`: one_reply.limit, with ONE_SUBJECT_QUOTA. */
void one_note_cause(int error, uint32_t subject, uint64_t value, const struct one_limit *limit);
/* one_note_cause with a formatted text, where the code does not matter. */
void one_note_reason(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* Prints a line at once, with or without ONESIDE_DEBUG: about a setting of the user that has no effect. */
#define one_warn(...) one_warn_in(STDERR_FILENO, __VA_ARGS__)
void one_warn_in(int file, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* Prints that the attachment with this socket has ended, with or without ONESIDE_DEBUG: the completions and
 * events that follow give no reason. Prints nothing if standard error is another file than at first: a daemon
 * may use its number for a file of its own. Any thread; one line a second. */
void one_warn_gone(int sock) __attribute__((cold));
/* Explain a result of one_attach: why there is no attachment, and what to do. */
const char *one_attach_reason(int error) __attribute__((cold));
const char *one_attach_remedy(int error) __attribute__((cold));
/* Writes reason and remedy as one sentence about the data plane whose socket is `path`, for programs to
 * print. */
#define ONE_ATTACH_TEXT 512u
void one_attach_text(int error, const char *path, char text[ONE_ATTACH_TEXT]) __attribute__((cold));

/* Prints, and forgets all notes. Leaves errno unchanged. */
void one_explain(const char *function, const char *text, const char *code) __attribute__((cold));
void one_explain_nothing(void);

/* ---- the arguments of a call ---- */

struct one_argument {
	const char *name;
	enum { ONE_ARGUMENT_BITS, ONE_ARGUMENT_SIGNED, ONE_ARGUMENT_UNSIGNED, ONE_ARGUMENT_TEXT } kind;
	size_t size;
	const void *at;
};

#define ONE_ARGUMENT(x)                                                                     \
	{                                                                                   \
#x,                                                                                       \
			_Generic((x), int                                                                 \
				 : ONE_ARGUMENT_SIGNED, long                                              \
				 : ONE_ARGUMENT_SIGNED, long long                                         \
				 : ONE_ARGUMENT_SIGNED, unsigned long                                     \
				 : ONE_ARGUMENT_UNSIGNED, unsigned long long                              \
				 : ONE_ARGUMENT_UNSIGNED, char *                                          \
				 : ONE_ARGUMENT_TEXT, const char *                                        \
				 : ONE_ARGUMENT_TEXT, default                                             \
				 : ONE_ARGUMENT_BITS),                                                    \
			sizeof(x), &(x) \
	}
/* The initializer of an array of struct one_argument. */
#define ONE_ARGUMENTS(...) ONE_EACH(ONE_ARGUMENT, __VA_ARGS__)

/* Returns the first bytes of the argument's value. */
uint64_t one_argument_bits(const struct one_argument *argument);
/* Writes "name = value". */
void one_argument_text(const struct one_argument *argument, char *text, size_t size);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ONESIDE_DEBUG=1: each refused call says so on standard error, in one line:
 *
 *   oneside: FUNCTION: ARGUMENT = VALUE: REASON; REMEDY (CODE)
 *
 * Whoever refuses knows the reason, and notes it for his thread with ONE_BECAUSE; the face of the API, where
 * the call comes in, knows function, arguments and code, and prints.  A note is of use for its code only, so
 * one about something that was overcome is not mistaken for the reason of what came after.  Requests that
 * the data plane refused are noted here, with its words; they count where nobody noted anything nearer.
 *
 * Without the variable nothing is noted, and the faces look at nothing.
 */
#ifndef CLIENT_TELL_H
#define CLIENT_TELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/message.h"
#include "client/parameters.h"

/* Read from the environment when the library is loaded; constant from then on. */
extern bool one_telling;

/* `code` is the value; ONE_BECAUSE is that too, so it stands behind `return`. */
#define ONE_BECAUSE(code, ...) (ONE_NOTE(code, __VA_ARGS__), (code))
#define ONE_NOTE(code, ...) \
	(__builtin_expect(one_telling, 0) ? one_note((uint32_t)(code), __VA_ARGS__) : (void)0)

/* "ARGUMENT = VALUE: REASON; REMEDY", as far as it fits. */
void one_note(uint32_t code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* What was noted for this code by this thread since its last one_tell, or NULL. */
const char *one_noted(uint32_t code);
/* What the data plane said to the last request that it refused, likewise, or NULL. */
const char *one_noted_cause(void);
/* `limit`: one_reply.limit, with ONE_SUBJECT_QUOTA. */
void one_note_cause(int error, uint32_t subject, uint64_t value, const struct one_limit *limit);
/* The same in other words, where the code does not matter. */
void one_note_reason(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* Prints a line at once, whether or not refused calls say so: what the user has set and is of no use. */
void one_warn(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* Why there is no attachment, and what to do about it: of what one_attach returns. */
const char *one_attach_reason(int error) __attribute__((cold));
const char *one_attach_remedy(int error) __attribute__((cold));
/* Both in one sentence about the data plane whose socket is `path`: for programs to print. */
#define ONE_ATTACH_TEXT 512u
void one_attach_text(int error, const char *path, char text[ONE_ATTACH_TEXT]) __attribute__((cold));

/* Prints, and forgets all that was noted.  errno stays. */
void one_tell(const char *function, const char *text, const char *code) __attribute__((cold));
void one_tell_nothing(void);

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

/* The first bytes of its value. */
uint64_t one_argument_bits(const struct one_argument *argument);
/* "name = value". */
void one_argument_text(const struct one_argument *argument, char *text, size_t size);

#endif

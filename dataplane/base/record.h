/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records: structures written down without pointers, to be read by another core or another process.
 *
 * A form describes a structure once, for both directions. The fields of a record follow one another without
 * gaps, in the byte order of the machine. A stream is a sequence of records, each behind a record_head, and
 * each padded to eight bytes. What is read may be hostile: lengths, limits and references are checked.
 */
#ifndef DATAPLANE_BASE_RECORD_H
#define DATAPLANE_BASE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_NEVER UINT64_MAX

enum record_kind {
	RECORD_VALUE, /* copied; `limit`, unless 0, exceeds the number */
	RECORD_TIME,  /* ns; in the record relative to record_context.now, or RECORD_NEVER */
	RECORD_NAME   /* a pointer; in the record eight bytes, by `naming` */
};

struct record_context {
	uint64_t now; /* by the clock of the structure's times */
	void *owner;  /* for namings */
};

/* The name of what a pointer leads to; 0 stands for NULL without a call. */
struct record_naming {
	uint64_t (*name)(const void *pointer, const struct record_context *context);
	void *(*find)(uint64_t name, const struct record_context *context); /* NULL: there is none */
};

struct record_field {
	uint16_t offset, size;
	enum record_kind kind;
	uint64_t limit;
	const struct record_naming *naming;
};

struct record_form {
	uint16_t type, version;
	uint16_t num;
	const struct record_field *field;
};

#define RECORD_SIZE(of, member) sizeof(((struct of *)NULL)->member)
#define RECORD_FIELD(of, member, ...)                                             \
	{                                                                         \
		offsetof(struct of, member), RECORD_SIZE(of, member), __VA_ARGS__ \
	}
/* Also lists the form, for record_is_known(); type 0: it is not of a stream. */
#define RECORD_FORM(name, type, version, fields)                                                       \
	const struct record_form name = {type, version, sizeof(fields) / sizeof((fields)[0]), fields}; \
	static const struct record_form *const name##_listed                                           \
		__attribute__((used, section("record_forms"))) = &name

/* Bytes of a record of this form. */
uint32_t record_size(const struct record_form *form);
void record_write(const struct record_form *form, const void *from, void *to,
		  const struct record_context *context);
/* Returns 0; -EINVAL: a field exceeds its limit, or names nothing. `to` is then partly filled. */
int record_read(const struct record_form *form, void *to, const void *from,
		const struct record_context *context);

/* ---- streams ---- */

struct record_head {
	uint16_t type, version;
	uint32_t length; /* bytes of the record, without this head and padding */
	uint64_t id;
};

struct record_out {
	uint8_t *bytes;
	size_t length, room;
	bool failed; /* no memory: the stream is not complete */
	/* Sets `bytes` and `room` to more room with the same contents; false: no memory. NULL: the heap. */
	bool (*grow)(struct record_out *out, size_t room);
};

/* Appends a record of `length` bytes, and returns the place to fill in; NULL: no memory. */
void *record_append(struct record_out *out, uint16_t type, uint16_t version, uint64_t id, uint32_t length);
void record_put(struct record_out *out, const struct record_form *form, uint64_t id, const void *from,
		const struct record_context *context);
void record_out_free(struct record_out *out);

struct record_in {
	const uint8_t *bytes;
	size_t length, at; /* `at`: of the next record */
};

struct record {
	struct record_head head;
	const uint8_t *bytes;
};

/* Takes the next record. Returns 1; 0: the stream is at its end; -EINVAL: a record exceeds the stream. */
int record_take(struct record_in *in, struct record *record);
/* False: this program has forms of the record's type, of which none has its version and length. */
bool record_is_known(const struct record *record);
/* Checks the form, then reads as record_read() does. */
int record_get(const struct record *record, const struct record_form *form, void *to,
	       const struct record_context *context);

#endif

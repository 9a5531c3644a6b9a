/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/base/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PADDED(length) (((size_t)(length) + 7) & ~(size_t)7)
#define ROOM_FIRST 65536u

static uint32_t
size_in_record(const struct record_field *field)
{
	return field->kind == RECORD_NAME ? sizeof(uint64_t) : field->size;
}

uint32_t
record_size(const struct record_form *form)
{
	uint32_t size = 0;

	for (uint32_t i = 0; i < form->num; i++)
		size += size_in_record(&form->field[i]);
	return size;
}

/* ---- writing ---- */

static void
write_name(void *to, const void *from, const struct record_naming *naming,
	   const struct record_context *context)
{
	const void *pointer;
	uint64_t name;

	memcpy(&pointer, from, sizeof(pointer));
	name = pointer == NULL ? 0 : naming->name(pointer, context);
	memcpy(to, &name, sizeof(name));
}

static void
write_time(void *to, const void *from, uint64_t now)
{
	uint64_t time;

	memcpy(&time, from, sizeof(time));
	time = time == RECORD_NEVER ? RECORD_NEVER : time - now;
	memcpy(to, &time, sizeof(time));
}

void
record_write(const struct record_form *form, const void *from, void *to, const struct record_context *context)
{
	uint8_t *at = to;

	for (uint32_t i = 0; i < form->num; i++) {
		const struct record_field *field = &form->field[i];
		const uint8_t *source = (const uint8_t *)from + field->offset;

		if (field->kind == RECORD_NAME)
			write_name(at, source, field->naming, context);
		else if (field->kind == RECORD_TIME)
			write_time(at, source, context->now);
		else
			memcpy(at, source, field->size);
		at += size_in_record(field);
	}
}

/* ---- reading ---- */

static int
read_name(void *to, const void *from, const struct record_naming *naming,
	  const struct record_context *context)
{
	void *pointer = NULL;
	uint64_t name;

	memcpy(&name, from, sizeof(name));
	if (name != 0)
		pointer = naming->find(name, context);
	memcpy(to, &pointer, sizeof(pointer));
	return name != 0 && pointer == NULL ? -EINVAL : 0;
}

/* The origins of two clocks differ: a time before the origin becomes 0. */
static int
read_time(void *to, const void *from, uint64_t now)
{
	uint64_t relative, time;
	int64_t passed;

	memcpy(&relative, from, sizeof(relative));
	passed = (int64_t)(0 - relative);
	time = passed > 0 && (uint64_t)passed > now ? 0 : now + relative;
	if (relative == RECORD_NEVER)
		time = RECORD_NEVER;
	memcpy(to, &time, sizeof(time));
	return 0;
}

static int
read_value(void *to, const void *from, const struct record_field *field)
{
	uint64_t number = 0;

	if (field->limit != 0) {
		/* Little-endian: the number's low bytes come first. */
		memcpy(&number, from, field->size);
		if (number >= field->limit)
			return -EINVAL;
	}
	memcpy(to, from, field->size);
	return 0;
}

int
record_read(const struct record_form *form, void *to, const void *from, const struct record_context *context)
{
	const uint8_t *at = from;
	int error = 0;

	for (uint32_t i = 0; i < form->num && error == 0; i++) {
		const struct record_field *field = &form->field[i];
		uint8_t *target = (uint8_t *)to + field->offset;

		if (field->kind == RECORD_NAME)
			error = read_name(target, at, field->naming, context);
		else if (field->kind == RECORD_TIME)
			error = read_time(target, at, context->now);
		else
			error = read_value(target, at, field);
		at += size_in_record(field);
	}
	return error;
}

/* ---- streams ---- */

static bool
make_room(struct record_out *out, size_t more)
{
	size_t room = out->room == 0 ? ROOM_FIRST : out->room;
	uint8_t *grown;

	while (room < out->length + more)
		room *= 2;
	if (room == out->room)
		return true;
	if (out->grow != NULL)
		return out->grow(out, room);
	grown = realloc(out->bytes, room);
	if (grown == NULL)
		return false;
	out->bytes = grown;
	out->room = room;
	return true;
}

void *
record_append(struct record_out *out, uint16_t type, uint16_t version, uint64_t id, uint32_t length)
{
	const struct record_head head = {.type = type, .version = version, .length = length, .id = id};
	size_t size = sizeof(head) + PADDED(length);
	uint8_t *at;

	if (!make_room(out, size))
		out->failed = true;
	if (out->failed)
		return NULL;
	at = out->bytes + out->length;
	memset(at, 0, size);
	memcpy(at, &head, sizeof(head));
	out->length += size;
	return at + sizeof(head);
}

void
record_put(struct record_out *out, const struct record_form *form, uint64_t id, const void *from,
	   const struct record_context *context)
{
	void *at = record_append(out, form->type, form->version, id, record_size(form));

	if (at != NULL)
		record_write(form, from, at, context);
}

void
record_out_free(struct record_out *out)
{
	free(out->bytes);
	*out = (struct record_out){.bytes = NULL};
}

int
record_take(struct record_in *in, struct record *record)
{
	size_t left = in->length - in->at;

	if (left == 0)
		return 0;
	if (left < sizeof(record->head))
		return -EINVAL;
	memcpy(&record->head, in->bytes + in->at, sizeof(record->head));
	left -= sizeof(record->head);
	if (PADDED(record->head.length) > left)
		return -EINVAL;
	record->bytes = in->bytes + in->at + sizeof(record->head);
	in->at += sizeof(record->head) + PADDED(record->head.length);
	return 1;
}

/* True if the record's type, version and length are those of the form. */
static bool
form_matches(const struct record *record, const struct record_form *form)
{
	return record->head.type == form->type && record->head.version == form->version &&
	       record->head.length == record_size(form);
}

/* Made by the linker: what RECORD_FORM lists. Weak: a program may have no form. */
extern const struct record_form *const __start_record_forms[] __attribute__((weak));
extern const struct record_form *const __stop_record_forms[] __attribute__((weak));

bool
record_is_known(const struct record *record)
{
	bool has_form = false;

	for (const struct record_form *const *form = __start_record_forms; form < __stop_record_forms;
	     form++) {
		if (form_matches(record, *form))
			return true;
		has_form = has_form || ((*form)->type == record->head.type && record->head.type != 0);
	}
	return !has_form;
}

int
record_get(const struct record *record, const struct record_form *form, void *to,
	   const struct record_context *context)
{
	return form_matches(record, form) ? record_read(form, to, record->bytes, context) : -EINVAL;
}

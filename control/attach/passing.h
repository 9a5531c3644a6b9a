/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A data plane passes this to its successor: a stream of records, and descriptors that the records name by
 * their numbers.  The old process fills a pass_out.  The new one reads a pass_in, one record ahead, and ends
 * if a record is not as expected: so nothing here is undone.
 */
#ifndef CONTROL_ATTACH_PASSING_H
#define CONTROL_ATTACH_PASSING_H

#include "control/attach/client.h"
#include "dataplane/engine/takeover.h"

/* ---- the old process ---- */

struct pass_out {
	struct record_out records;
	struct record_context context; /* `owner`: the client */
	int *fd;
	bool *opened; /* close the descriptor afterwards */
	uint32_t num_fds, room;
	struct pass_map *map; /* mappings of this process, sorted */
	uint32_t num_maps;
	char why[256]; /* the first failure; "": none */
};

/* A part of a mapping that one file backs. */
struct pass_piece {
	uint64_t at;     /* offset in the mapping */
	uint64_t offset; /* in the file */
	uint64_t length;
	uint64_t fd;
};

/* Reads the mappings of this process.  Returns 0 or -errno. */
int pass_out_begin(struct pass_out *out);
void pass_out_end(struct pass_out *out);
void pass_fail(struct pass_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True if this process may open again what it has mapped; else a sentence. */
bool pass_may_open(char *why, size_t why_len);
/* Returns the descriptor's number, from 1. */
uint64_t pass_fd(struct pass_out *out, int fd);
/* Appends a record for each file of [base, base + len). */
void pass_pieces(struct pass_out *out, const uint8_t *base, uint64_t len);
/* Appends the record of a file that is mapped whole, and stays open.  Unlike pass_pieces(), needs no rights
 * to the file. */
void pass_file(struct pass_out *out, int fd, uint64_t len);

/* ---- the new process ---- */

struct pass_in {
	struct record_in records;
	struct record record; /* the next one, if `more` */
	bool more;
	struct record_context context; /* `owner`: the client */
	int *fd;                       /* -1: taken */
	uint32_t num_fds;
	char why[256];
};

void pass_in_begin(struct pass_in *in);
/* True if the next record has that type. */
bool pass_is(const struct pass_in *in, enum record_type type);
/* Takes the next record.  Returns 0; -EINVAL and a sentence: it is another one, or not valid. */
int pass_take(struct pass_in *in, enum record_type type, struct record *record);
/* Reads all records of the type that come next, with those that belong to each.  Returns 0 or the first
 * error. */
int pass_each(struct client *client, struct pass_in *in, enum record_type type,
	      int (*read)(struct client *client, struct pass_in *in));
int pass_get(struct pass_in *in, const struct record_form *form, void *to, uint64_t *id);
/* Returns -EINVAL, and stores the sentence unless there is one. */
int pass_refuse(struct pass_in *in, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the descriptor of that number, which the caller then owns; -1: there is none. */
int pass_take_fd(struct pass_in *in, uint64_t number);
/* Maps the pieces that follow, at an address that equals `phase` modulo the largest page that `len` has room
 * for, so that large pages stay aligned.  Returns the mapping, or NULL. */
uint8_t *pass_map_pieces(struct pass_in *in, uint64_t len, uint64_t phase, uint32_t *count);

/* ---- naming of objects ---- */

extern const struct record_naming pass_object[OBJECT_KINDS];
extern const struct record_naming pass_lane; /* of the client */

#endif

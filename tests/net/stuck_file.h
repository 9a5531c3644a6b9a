/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file whose contents come when the test wants: a FUSE server of our own, in a
 * mount namespace of our own.  Who reads a mapping of it, from wherever, waits.
 */
#ifndef TESTS_NET_STUCK_FILE_H
#define TESTS_NET_STUCK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct stuck_file {
	pid_t server;
	int control; /* to the server */
	int fd;      /* of the file */
};

/* A file of `size` zeros.  False: this user cannot mount. */
bool stuck_file_open(struct stuck_file *file, size_t size);
/* Likewise, but it is the end of close() that nobody ever sees. */
bool stuck_file_open_for_good(struct stuck_file *file);
/* What is waited for comes, and all that is read later. */
void stuck_file_answer(const struct stuck_file *file);
/* The server ends; who still waits gets an error. */
void stuck_file_close(const struct stuck_file *file);

#endif

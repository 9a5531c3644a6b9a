/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file whose contents come when the test wants, from the test's own FUSE server in its own mount
 * namespace. An access to a mapping of the file, from whatever process, waits.
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

/* Opens a file of `size` zeros. Returns false if this user cannot mount. */
bool stuck_file_open(struct stuck_file *file, size_t size);
/* Opens a file whose close() never returns. Returns false if this user cannot mount. */
bool stuck_file_open_for_good(struct stuck_file *file);
/* Answers the reads that wait and all later ones. */
void stuck_file_answer(const struct stuck_file *file);
/* Ends the server: reads that wait fail. */
void stuck_file_close(const struct stuck_file *file);

#endif

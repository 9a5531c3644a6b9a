/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening Unix socket with a name in the file system. */
#ifndef CONTROL_BASE_LISTENING_H
#define CONTROL_BASE_LISTENING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct listening {
	int fd;          /* -1: none */
	int type;        /* SOCK_SEQPACKET, or SOCK_STREAM, whose key takes unix:PATH */
	const char *key; /* configuration key of the path */
	struct sockaddr_un address;
	mode_t mode;
	ino_t inode;
};

/* Creates the directory if missing, and removes a dead data plane's socket. Returns 0, or -errno and a
 * sentence. */
int listening_open_type(struct listening *listening, int type, const char *key, const char *path, mode_t mode,
			char *why, size_t why_len);
void listening_close(struct listening *listening); /* also unlinks the socket */

/* ---- take-over ---- */

#define LISTENING_MAX 8u
/* Keeps a listening socket of another process for who opens one at its address.  False: there are too many.
 * Until listening_commit() listening_close() unlinks nothing. */
bool listening_inherit(int fd);
/* Returns the socket that is kept for this type and address, of which unused bytes are 0; -1: there is
 * none. */
int listening_inherited(int type, const void *address, socklen_t len);
/* Notes a socket that listens, until listening_close(). */
void listening_opened(const struct listening *listening);
void listening_commit(void);
/* Returns the descriptor of open socket `i`, or -1 behind the last one. */
int listening_fd(uint32_t i);

static inline int
listening_open(struct listening *listening, const char *key, const char *path, mode_t mode, char *why,
	       size_t why_len)
{
	return listening_open_type(listening, SOCK_SEQPACKET, key, path, mode, why, why_len);
}

#endif

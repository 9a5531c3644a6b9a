/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include "aside.h"
#include "raw.h"

/* struct uffdio_move of <linux/userfaultfd.h> since Linux 6.8, for older headers. */
struct move_v1 {
	uint64_t dst, src, len, mode;
	int64_t move; /* out: bytes moved, or -errno */
};
_Static_assert(sizeof(struct move_v1) == 40, "struct uffdio_move");
#define MOVE _IOWR(UFFDIO, 0x05, struct move_v1)
#define MOVE_ALLOW_HOLES 1u

/* Moves bytes from *done on, and adds their number to *done. Returns 0 also if some remain to be moved. */
static long
move_some(int uffd, uint64_t to, uint64_t from, uint64_t len, uint64_t *done)
{
	struct move_v1 part = {
		.dst = to + *done, .src = from + *done, .len = len - *done, .mode = MOVE_ALLOW_HOLES};
	long error = raw_syscall(SYS_ioctl, uffd, (long)MOVE, (long)&part, 0, 0);

	if (error == 0)
		*done = len;
	else if (part.move > 0)
		*done += (uint64_t)part.move;
	/* The kernel returns EAGAIN also after moving a part: the next call returns the reason. */
	return error == -EAGAIN || error == -EINTR ? 0 : error;
}

long
aside_move(int uffd, struct aside *aside)
{
	long error = 0;

	while (error == 0 && aside->moved < aside->length)
		error = move_some(uffd, aside->to, aside->from, aside->length, &aside->moved);
	return error;
}

void
aside_undo(int uffd, struct aside *aside)
{
	uint64_t done = 0;

	/* Pages at `to` cannot be pinned: only a lack of memory for page tables, which passes, can refuse. */
	while (done < aside->moved)
		move_some(uffd, aside->from, aside->to, aside->moved, &done);
	aside->moved = 0;
}

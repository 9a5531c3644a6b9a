/* SPDX-License-Identifier: BSD-3-Clause */
/* Wake threads that sleep on a channel of an arena. */
#ifndef DATAPLANE_CHANNEL_H
#define DATAPLANE_CHANNEL_H

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/arena.h"

/* Wakes at most `most` threads: an application can have any number of threads sleep on one word. */
static inline void
channel_signal(struct one_channel *channel, int most)
{
	/* Pairs with a sleeper, which counts itself before futex(2) compares the word, both seq_cst: either
	 * the sleeper finds the word changed, or the load below finds the sleeper. */
	atomic_fetch_add_explicit(&channel->word, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&channel->sleepers, memory_order_seq_cst) != 0)
		syscall(SYS_futex, &channel->word, FUTEX_WAKE, most, NULL, NULL, 0);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory.  attach.h says what holds for all calls.
 *
 * Thread: safe from all threads, for the same memory too; calls on one struct one_mr are its owner's to
 * order.  Other threads may use the memory meanwhile: they are held back where pages move.
 * Lock: one of the process, so registrations follow each other.
 */
#ifndef CLIENT_MEM_H
#define CLIENT_MEM_H

#include "client/attach.h"

struct one_mr {
	uint32_t id, lkey, rkey;
	uint64_t va, length;
	void *adopted; /* the process-wide ranges held by this registration */
};

/*
 * Registers [va, va+length).  [message]  Private anonymous memory is adopted in place: its pages become a
 * sealed memfd shared with the data plane, under the same addresses (adopt/transplant.c).  Shared mappings
 * are passed on as they are where the process has a descriptor of them (adopt/lend.c).  Memory that is
 * neither is copied by a thread of this library when the data plane asks for it (attach/copier.h), more
 * slowly.  Takes time in proportion to the length, but not for memory that was registered just so before and
 * is kept (adopt/keep.h): then its keys, new ones, are made by the polling core alone.
 * Lifetime: until one_mem_deregister or one_detach; the memory stays mapped until then, else work on it
 * fails.
 * Errno: -EFAULT: not mapped, or not readable (not writable with ONE_ACCESS_LOCAL_WRITE); -EDQUOT, -ENOMEM;
 * -EINVAL: length 0, or it wraps; -EOPNOTSUPP: it would have to be copied, which the data plane does not
 * want; -EPERM: nor may this process (seccomp); -EPROTO: it names no place for that; the attachment lives on.
 */
int one_mem_register(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint32_t access,
		     struct one_mr *mr);

/*
 * one_mem_register, but requests name the byte at `va` by `iova`: equal to it modulo the page size, or 0.
 * Errno: -EINVAL also: `iova` is neither, or wraps.
 */
int one_mem_register_iova(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint64_t iova,
			  uint32_t access, struct one_mr *mr);

/*
 * one_mem_register, but small memory gets a file of its own as well, if it is not registered already:
 * only that can be claimed.
 */
int one_mem_register_alone(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length,
			   uint32_t access, struct one_mr *mr);

/*
 * The file of this registration may be handed to others: no other registration will share it (memory
 * registered twice is copied then).  `writable` false: they can map it for reading only.
 * Errno: -EBUSY: it has other registrations, or holds other memory, or is not one adopted piece, or could
 * not be taken back.
 */
int one_mem_claim(struct one_client *client, struct one_mr *mr, bool writable);

/*
 * The pages leave the file: a process that maps it keeps a copy of the past.  The registration can only
 * be deregistered then.  Works on a lost attachment too.
 * Errno: -EBUSY as above; any other: for want of resources they are still there.
 */
int one_mem_recall(struct one_client *client, struct one_mr *mr);

/*
 * Other memory, [va, va+mr->length), takes the place of a registration's: the file and the data plane's
 * keys stay, the contents become those of the new memory, and the old memory becomes private with what was in
 * it.
 * Errno: -EBUSY as above; -EFAULT: the new memory is not private, mapped and writable.
 */
int one_mem_move(struct one_client *client, struct one_mr *mr, uint64_t va);

/*
 * The keys end.  [message, or the polling core alone]  With its last deregistration memory becomes private
 * anonymous memory again, contents kept: at once, or as soon as the application could see a difference
 * (adopt/keep.h).  On a lost attachment that is done too, and -ECONNRESET returned. Errno: with any other
 * error it is still registered.
 */
int one_mem_deregister(struct one_client *client, struct one_mr *mr);

/* Requests posted before are begun by the core: called before something that they name is freed. */
void one_posted_begin(struct one_client *client);

/* A protection zone ends, with all that is kept of registrations in it.  [message] */
int one_pz_free(struct one_client *client, uint32_t pz);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory. attach.h has the rules for all calls.
 * Thread: safe from all threads, also for the same memory. The owner of a struct one_mr serializes calls on
 * it. Other threads may use the memory meanwhile: they are held back while pages move.
 * Lock: one per process, so registrations are serialized. */
#ifndef CLIENT_MEM_H
#define CLIENT_MEM_H

#include "client/attach.h"

struct one_mr {
	uint32_t id, lkey, rkey;
	uint64_t va, length;
	void *adopted; /* process-wide ranges referenced by this registration */
};

/*
 * Registers [va, va+length). [message] Private anonymous memory is adopted in place: its pages become a
 * sealed memfd shared with the data plane, under the same addresses (adopt/transplant.c). Shared mappings are
 * passed on as they are if the process has a descriptor of them (adopt/lend.c). Any other memory is copied by
 * a thread of this library when the data plane asks for it (copier.h), which is slower. Takes time in
 * proportion to the length, except for cached memory that is registered again in the same way
 * (adopt/range_cache.h): then the polling core alone makes new keys.
 * Lifetime: until one_mem_deregister or one_detach; the memory stays mapped until then, else work on it
 * fails.
 * Errno: -EFAULT: not mapped, or not readable (not writable with ONE_ACCESS_LOCAL_WRITE); -EDQUOT, -ENOMEM;
 * -EINVAL: length 0, or va + length wraps; -EOPNOTSUPP: the memory would have to be copied, which the
 * configuration forbids; -EPERM: or which this process may not do (seccomp); -EPROTO: the reply names no
 * place for copies; the attachment lives on.
 */
int one_mem_register(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint32_t access,
		     struct one_mr *mr);

/* one_mem_register, but requests name the byte at `va` by `iova`: equal to it modulo the page size, or 0.
 * Errno: -EINVAL also: `iova` is neither, or wraps. */
int one_mem_register_iova(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint64_t iova,
			  uint32_t access, struct one_mr *mr);

/* one_mem_register, but even small memory gets its own file, unless it is registered already. Only memory
 * with its own file can be claimed. */
int one_mem_register_alone(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length,
			   uint32_t access, struct one_mr *mr);

/* Reserves the file of this registration, so that it may be handed to others: no other registration will
 * share the file (memory registered twice is copied then). `writable` false: others can map the file only for
 * reading.
 * Errno: -EBUSY: the memory has other registrations, or the file holds other memory, or is not one adopted
 * piece, or could not be taken back. */
int one_mem_claim(struct one_client *client, struct one_mr *mr, bool writable);

/* Has the copy thread (copier.h) copy the memory for a data plane that takes over and cannot map its file:
 * under addresses from the returned one on, which are no others' and stay when the memory moves. 0: it cannot
 * (configuration, seccomp, resources). */
uint64_t one_mem_copy_at(struct one_client *client, struct one_mr *mr);

/* Moves the pages out of the file: a process that maps the file keeps a stale copy. Afterwards the
 * registration can only be deregistered. Works on a lost attachment, too.
 * Errno: -EBUSY: as for one_mem_claim; any other: the pages are still in the file, for want of resources. */
int one_mem_recall(struct one_client *client, struct one_mr *mr);

/* Replaces the memory of a registration by [va, va+mr->length): the file and the data plane's keys stay, the
 * contents become those of the new memory, and the old memory becomes private with its contents. Errno:
 * -EBUSY: as for one_mem_claim; -EFAULT: the new memory is not private, mapped and writable. */
int one_mem_move(struct one_client *client, struct one_mr *mr, uint64_t va);

/* Invalidates the keys. [message, or the polling core alone] With its last deregistration memory becomes
 * private anonymous memory again, contents kept: at once, or as soon as the application could see a
 * difference (adopt/range_cache.h). On a lost attachment, too, with -ECONNRESET.
 * Errno: after any other error the memory is still registered. */
int one_mem_deregister(struct one_client *client, struct one_mr *mr);

/* Makes the core begin all requests posted earlier. Call before freeing something that they name. */
void one_posted_begin(struct one_client *client);

/* Frees a protection zone, with all cached registrations in it. [message] */
int one_pz_free(struct one_client *client, uint32_t pz);

#endif

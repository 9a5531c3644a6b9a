/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of the oneside provider.
 *
 * Objects live in memory that stays theirs until their IA is closed (a freed
 * one waits in the IA's pool for the next of its kind), so a lookup without a
 * lock may find an object that has been freed, but never foreign memory.
 *
 * Order of locks: ia.lock, ep.send_lock, ep.recv_lock, srq.lock, cno.lock, evd.lock.  Over a
 * message to the data plane no lock is held but listen_lock, evd.lock (during a
 * resize) and the posting locks (during a reset).
 */
#ifndef DAT_BASE_OBJECT_H_INTERNAL
#define DAT_BASE_OBJECT_H_INTERNAL

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#include "client/cq.h"
#include "client/tell.h"
#include "dat/base/calls.h"
#include "dat/base/handle.h"
#include "dat/base/idmap.h"
#include "dat/base/lock.h"

#define DAT_ERROR(type, subtype) ((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_UINT32)(type) | (DAT_UINT32)(subtype)))
#define BAD_HANDLE(kind) DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define BAD_ARG(n) DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG##n)
#define BAD_STATE(state) DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_##state)

/* `ret`, after a note of the reason for ONESIDE_DEBUG: "ARGUMENT = VALUE: REASON; REMEDY". */
#define BECAUSE(ret, ...) (ONE_NOTE(DAT_GET_TYPE(ret), __VA_ARGS__), (ret))

#define OBJECT_TYPES 11 /* DAT_HANDLE_TYPE_* */

struct evd;
struct ia;

struct object {
	struct idmap_node node; /* by the id or key the data plane knows it by */
	DAT_HANDLE_TYPE type;
	struct ia *ia;
	DAT_HANDLE handle;
	LIST_ENTRY(object) entry; /* of its kind in the IA, or of the pool */
	uint32_t refs;            /* of others of its IA: it cannot be freed; ia.lock */
};

struct pz {
	struct object o;
	uint32_t id;
};
void pz_destroy(struct object *o);

struct ia {
	struct object o;
	const void *provider; /* the table that the handles of this IA begin with */
	struct one_client *client;
	pthread_mutex_t lock;
	pthread_mutex_t listen_lock; /* held from LISTEN until the listener is known by its id */
	_Atomic bool lost;           /* the data plane has gone */
	_Atomic bool swept;          /* ... and all objects have their events of it */
	_Atomic uint64_t arrivals; /* orders events of different EVDs, as far as the library sees them come */
	LIST_HEAD(, object) list[OBJECT_TYPES], pool[OBJECT_TYPES];
	uint32_t count[OBJECT_TYPES];
	struct idmap map[OBJECT_TYPES]; /* by what the data plane knows them by; PSP: service points */
	struct evd *async_evd;          /* NULL: out of scope */
	bool async_mine;                /* made by open: not the consumer's to free */
	/* of an IA that reports to the EVD of another */
	struct one_cq async_cq;
	struct ia *async_next;
	struct sockaddr_storage addr;
	char name[DAT_NAME_MAX_LENGTH];
	/* The event of a connection request; false when it was refused. */
	bool (*request)(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
};

static inline bool
ia_lost(const struct ia *ia)
{
	/* Pairs with the release store in the callback of the client core. */
	return __builtin_expect(atomic_load_explicit(&ia->lost, memory_order_acquire), 0);
}

/* Pairs with the release store in lost_sweep: the events of the loss are in their queues. */
static inline bool
ia_swept(const struct ia *ia)
{
	return atomic_load_explicit(&ia->swept, memory_order_acquire);
}

/* ---- object.c ---- */

/* The object of a live handle of this type, with its IA's lock held; NULL, without it: there is none. */
void *object_lock(DAT_HANDLE handle, DAT_HANDLE_TYPE type);
/* A zeroed object of this kind, not yet in any list; NULL: no memory. */
void *object_new(struct ia *ia, DAT_HANDLE_TYPE type);
/* Gives it a handle and puts it in the IA's list, and by `id` (0: none) in its map; ia.lock held.  -ENOMEM.
 */
int object_publish(struct object *o, uint32_t id);
/* The same, without the lock. */
int object_publish_alone(struct object *o, uint32_t id);
/* The handle ends; ia.lock held.  Needs object_discard yet. */
void object_retire(struct object *o);
/* Out of its map, and back to the pool; ia.lock held. */
void object_discard(struct object *o);
/* The same, without the lock. */
void object_drop(struct object *o);
/* dat_*_free: retires and destroys it, unless others refer to it. */
DAT_RETURN object_free(DAT_HANDLE handle, DAT_HANDLE_TYPE type, DAT_RETURN bad_handle, DAT_RETURN in_use,
		       void (*destroy)(struct object *o));
/* A reference to the object of a live handle of this IA and type, or NULL; ia.lock held. */
void *object_ref(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type);
/* The same, without the lock. */
void *object_ref_alone(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type);
/* May be NULL; ia.lock held. */
void object_unref(void *object);

static inline struct idmap *
object_map(struct ia *ia, DAT_HANDLE_TYPE type)
{
	return &ia->map[type == DAT_HANDLE_TYPE_RSP ? DAT_HANDLE_TYPE_PSP : type];
}

/* By what the data plane knows it by. */
static inline void *
object_find(const struct ia *ia, DAT_HANDLE_TYPE type, uint32_t id)
{
	return idmap_find(&ia->map[type], id);
}
/* The DAT code of what the data plane said: -EDQUOT and -ENOSPC become INSUFFICIENT_RESOURCES with `subtype`.
 */
DAT_RETURN dat_errno(int error, DAT_RETURN_SUBTYPE subtype);

/* Of a message, or of shared memory, whose port is not in network order; `to` is zeroed. */
void base_address(struct sockaddr_storage *to, uint16_t family, const uint8_t *addr, uint16_t port);

/* ---- complain.c ---- */

/* With DAT_DBG_TYPE or ONESIDE_DEBUG in the environment: why `what` = `about` is refused, and the remedy. */
void base_complain(const char *what, const char *about, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif

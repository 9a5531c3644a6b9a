/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of the oneside provider.
 *
 * The memory of an object is not freed before its IA is closed: a freed object waits in the IA's pool for
 * reuse by the same kind.  So a lookup without a lock may find a freed object, but never foreign memory.
 *
 * Order of locks: ia.lock, ep.send_lock, ep.recv_lock, srq.lock, cno.lock, evd.lock.  During a message to the
 * data plane no lock is held except listen_lock, evd.lock (in a resize) and the posting locks (in a reset).
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
#include "client/explain.h"
#include "client/lock.h"
#include "dat/calls.h"
#include "dat/handle.h"
#include "dat/idmap.h"

#define DAT_ERROR(type, subtype) ((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_UINT32)(type) | (DAT_UINT32)(subtype)))
#define BAD_HANDLE(kind) DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_##kind)
#define BAD_ARG(n) DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG##n)
#define BAD_STATE(state) DAT_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_##state)

/* Yields `ret` after noting the reason for ONESIDE_DEBUG, in the form "ARGUMENT = VALUE: REASON; REMEDY". */
#define BECAUSE(ret, ...) (ONE_NOTE(DAT_GET_TYPE(ret), __VA_ARGS__), (ret))

#define OBJECT_TYPES 11 /* DAT_HANDLE_TYPE_* */

struct evd;
struct ia;

struct object {
	struct idmap_node node; /* keyed by the data plane's id or key of the object */
	DAT_HANDLE_TYPE type;
	struct ia *ia;
	DAT_HANDLE handle;
	LIST_ENTRY(object) entry; /* in the IA's list or pool of its kind */
	uint32_t refs; /* references by other objects of the IA; not freed above 0; guarded by ia.lock */
};

struct pz {
	struct object o;
	uint32_t id;
};
void pz_destroy(struct object *o);

struct ia {
	struct object o;
	const void *provider; /* table that the handle slots of this IA point to */
	struct one_client *client;
	pthread_mutex_t lock;
	pthread_mutex_t listen_lock; /* held from the LISTEN message until the listener's id is in the map */
	_Atomic bool lost;           /* the connection to the data plane is lost */
	_Atomic bool swept;          /* the events of the loss are in all queues */
	_Atomic uint64_t arrivals;   /* orders events of different EVDs by the time the library sees them */
	LIST_HEAD(, object) list[OBJECT_TYPES], pool[OBJECT_TYPES];
	uint32_t count[OBJECT_TYPES];
	struct idmap map[OBJECT_TYPES]; /* keyed by the data plane's ids; PSP: all service points */
	struct evd *async_evd;          /* NULL: out of scope */
	bool async_mine;                /* dat_ia_open made async_evd; the consumer may not free it */
	/* set if this IA reports to the EVD of another IA */
	struct one_cq async_cq;
	struct ia *async_next;
	struct sockaddr_storage addr;
	char name[DAT_NAME_MAX_LENGTH];
	/* Fills in the event of a connection request; false: the request was refused. */
	bool (*request)(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
};

static inline bool
ia_lost(const struct ia *ia)
{
	/* Pairs with the release store in the client core's callback. */
	return __builtin_expect(atomic_load_explicit(&ia->lost, memory_order_acquire), 0);
}

/* Pairs with the release store in lost_sweep: the events of the loss are in their queues. */
static inline bool
ia_swept(const struct ia *ia)
{
	return atomic_load_explicit(&ia->swept, memory_order_acquire);
}

/* ---- object.c ---- */

/* Returns the object of a live handle of this type with its IA's lock held; NULL, without the lock: no such
 * handle.
 */
void *object_lock(DAT_HANDLE handle, DAT_HANDLE_TYPE type);
/* Returns a zeroed object that is in no list, or NULL without memory. */
void *object_new(struct ia *ia, DAT_HANDLE_TYPE type);
/* Gives the object a handle, and adds it to the IA's list and, unless `id` is 0, to the map.  Returns 0 or
 * -ENOMEM. ia.lock held. */
int object_publish(struct object *o, uint32_t id);
/* object_publish() that takes ia.lock. */
int object_publish_alone(struct object *o, uint32_t id);
/* Invalidates the handle; object_discard() must follow.  ia.lock held. */
void object_retire(struct object *o);
/* Removes the object from its map and returns it to the pool.  ia.lock held. */
void object_discard(struct object *o);
/* object_discard() that takes ia.lock. */
void object_drop(struct object *o);
/* Implements dat_*_free: retires and destroys the object unless other objects reference it. */
DAT_RETURN object_free(DAT_HANDLE handle, DAT_HANDLE_TYPE type, DAT_RETURN bad_handle, DAT_RETURN in_use,
		       void (*destroy)(struct object *o));
/* Takes a reference to the object of a live handle of this IA and type; NULL: no such handle.  ia.lock held.
 */
void *object_ref(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type);
/* object_ref() that takes ia.lock. */
void *object_ref_alone(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type);
/* Drops a reference; accepts NULL.  ia.lock held. */
void object_unref(void *object);

static inline struct idmap *
object_map(struct ia *ia, DAT_HANDLE_TYPE type)
{
	return &ia->map[type == DAT_HANDLE_TYPE_RSP ? DAT_HANDLE_TYPE_PSP : type];
}

/* Finds an object by the data plane's id or key. */
static inline void *
object_find(const struct ia *ia, DAT_HANDLE_TYPE type, uint32_t id)
{
	return idmap_find(&ia->map[type], id);
}
/* Translates an error of the data plane.  Exhausted resources except memory become INSUFFICIENT_RESOURCES
 * with `subtype`. */
DAT_RETURN dat_errno(int error, DAT_RETURN_SUBTYPE subtype);

/* Converts an address of a message or of shared memory.  `port` is in host order; the caller has zeroed `to`.
 */
void base_address(struct sockaddr_storage *to, uint16_t family, const uint8_t *addr, uint16_t port);

/* Explains, with DAT_DBG_TYPE or ONESIDE_DEBUG in the environment, why `what` = `about` is refused, and the
 * remedy. */
void base_complain(const char *what, const char *about, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif

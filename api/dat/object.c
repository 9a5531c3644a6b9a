/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists and pools of objects; conversion of the data plane's addresses and errors. */
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lines.h"
#include "dat/ep_object.h"
#include "dat/object.h"

static const size_t object_size[OBJECT_TYPES] = {
	[DAT_HANDLE_TYPE_CR] = sizeof(struct cr),   [DAT_HANDLE_TYPE_EP] = sizeof(struct ep),
	[DAT_HANDLE_TYPE_EVD] = sizeof(struct evd), [DAT_HANDLE_TYPE_LMR] = sizeof(struct lmr),
	[DAT_HANDLE_TYPE_PSP] = sizeof(struct sp),  [DAT_HANDLE_TYPE_PZ] = sizeof(struct pz),
	[DAT_HANDLE_TYPE_RMR] = sizeof(struct rmr), [DAT_HANDLE_TYPE_RSP] = sizeof(struct sp),
	[DAT_HANDLE_TYPE_CNO] = sizeof(struct cno), [DAT_HANDLE_TYPE_SRQ] = sizeof(struct srq),
};

void *
object_lock(DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	struct object *o = handle_object(handle, type);
	struct ia *ia;

	if (o == NULL)
		return NULL;
	ia = o->ia;
	pthread_mutex_lock(&ia->lock);
	/* The object may have been freed before the lock was taken. */
	if (handle_object(handle, type) == o)
		return o;
	pthread_mutex_unlock(&ia->lock);
	return NULL;
}

void *
object_new(struct ia *ia, DAT_HANDLE_TYPE type)
{
	struct object *o;

	pthread_mutex_lock(&ia->lock);
	o = LIST_FIRST(&ia->pool[type]);
	if (o != NULL)
		LIST_REMOVE(o, entry);
	pthread_mutex_unlock(&ia->lock);
	if (o == NULL) {
		o = one_zalloc_lines(object_size[type]);
		if (o == NULL)
			return NULL;
	} else {
		/* Keep the node: lookups without lock may still read the key, which is 0. */
		memset((uint8_t *)o + sizeof(o->node), 0, object_size[type] - sizeof(o->node));
	}
	o->type = type;
	o->ia = ia;
	return o;
}

int
object_publish(struct object *o, uint32_t id)
{
	struct ia *ia = o->ia;

	if (id != 0 && idmap_insert(object_map(ia, o->type), &o->node, id) != 0)
		return -ENOMEM;
	o->handle = handle_new(ia->provider, o->type, o);
	if (o->handle == DAT_HANDLE_NULL) {
		idmap_remove(object_map(ia, o->type), &o->node);
		return -ENOMEM;
	}
	LIST_INSERT_HEAD(&ia->list[o->type], o, entry);
	ia->count[o->type]++;
	return 0;
}

int
object_publish_alone(struct object *o, uint32_t id)
{
	int error;

	pthread_mutex_lock(&o->ia->lock);
	error = object_publish(o, id);
	pthread_mutex_unlock(&o->ia->lock);
	return error;
}

void
object_retire(struct object *o)
{
	struct ia *ia = o->ia;

	handle_free(o->handle);
	LIST_REMOVE(o, entry);
	ia->count[o->type]--;
}

void
object_discard(struct object *o)
{
	struct ia *ia = o->ia;

	idmap_remove(object_map(ia, o->type), &o->node);
	LIST_INSERT_HEAD(&ia->pool[o->type], o, entry);
}

void
object_drop(struct object *o)
{
	pthread_mutex_lock(&o->ia->lock);
	object_discard(o);
	pthread_mutex_unlock(&o->ia->lock);
}

DAT_RETURN
object_free(DAT_HANDLE handle, DAT_HANDLE_TYPE type, DAT_RETURN bad_handle, DAT_RETURN in_use,
	    void (*destroy)(struct object *o))
{
	struct object *o = object_lock(handle, type);
	bool used;

	if (o == NULL)
		return bad_handle;
	used = o->refs > 0;
	if (!used)
		object_retire(o);
	pthread_mutex_unlock(&o->ia->lock);
	if (used)
		return in_use;
	destroy(o);
	return DAT_SUCCESS;
}

void *
object_ref(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	struct object *o = handle_object(handle, type);

	if (o == NULL || o->ia != ia)
		return NULL;
	o->refs++;
	return o;
}

void *
object_ref_alone(struct ia *ia, DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	void *o;

	pthread_mutex_lock(&ia->lock);
	o = object_ref(ia, handle, type);
	pthread_mutex_unlock(&ia->lock);
	return o;
}

void
object_unref(void *object)
{
	if (object != NULL)
		((struct object *)object)->refs--;
}

void
base_address(struct sockaddr_storage *to, uint16_t family, const uint8_t *addr, uint16_t port)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)to;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)to;

	if (family == AF_INET6) {
		sin6->sin6_family = AF_INET6;
		sin6->sin6_port = htons(port);
		memcpy(&sin6->sin6_addr, addr, sizeof(sin6->sin6_addr));
	} else {
		sin->sin_family = AF_INET;
		sin->sin_port = htons(port);
		memcpy(&sin->sin_addr, addr, sizeof(sin->sin_addr));
	}
}

DAT_RETURN
dat_errno(int error, DAT_RETURN_SUBTYPE subtype)
{
	switch (error) {
	case 0:
		return DAT_SUCCESS;
	case -EDQUOT:
	case -ENOSPC:
	case -EMFILE: /* no descriptors left in the process */
	case -ENFILE: /* no descriptors left on the machine */
	case -EAGAIN: /* no more threads */
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, subtype);
	case -ENOMEM:
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	default:
		return DAT_ERROR(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE);
	}
}

/* Reports why an IA does not open: as the refusal of the call with ONESIDE_DEBUG, else on stderr with
 * DAT_DBG_TYPE. */
void
base_complain(const char *what, const char *about, const char *format, ...)
{
	const char *wanted = secure_getenv("DAT_DBG_TYPE");
	char text[320];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (one_explaining)
		one_note_reason("%s = \"%s\": %s", what, about, text);
	else if (wanted != NULL && strtoul(wanted, NULL, 0) != 0)
		fprintf(stderr, "oneside: %s: %s\n", about, text);
}

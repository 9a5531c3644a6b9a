/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes IAs.  Each IA has one attachment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dat/ia.h"

/* Parses "socket=/path port=name".  Both are optional and in any order; a word without "=" is a port. */
DAT_RETURN
ia_params(const char *params, char *socket, size_t socket_len, char *port, size_t port_len)
{
	socket[0] = '\0';
	port[0] = '\0';
	for (;;) {
		bool is_socket = strncmp(params, "socket=", 7) == 0;
		size_t key = is_socket ? 7 : strncmp(params, "port=", 5) == 0 ? 5 : 0;
		size_t len = strcspn(params, " \t");
		char *out = is_socket ? socket : port;

		if ((key == 0 && memchr(params, '=', len) != NULL) ||
		    len - key >= (is_socket ? socket_len : port_len))
			return DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
		if (len > 0) {
			memcpy(out, params + key, len - key);
			out[len - key] = '\0';
		}
		params += len;
		if (*params == '\0')
			return DAT_SUCCESS;
		params += strspn(params, " \t");
	}
}

/* A failure to attach is printed in any case: the code of the call is the same for a missing data plane and
 * for other causes. */
static void
report_attach_error(const char *name, const char *socket, const char *port, int error)
{
	char text[ONE_ATTACH_TEXT];

	if (error == -ENODEV)
		snprintf(
			text, sizeof(text),
			"the data plane at %s has no port \"%s\"; give a port of its configuration, or another socket",
			socket, port);
	else
		one_attach_text(error, socket, text);
	if (one_explaining)
		one_note_reason("ia_name_ptr = \"%s\": %s", name, text);
	else
		one_warn("IA %s: %s", name, text);
}

static DAT_RETURN
attach_ia(struct ia *ia, const char *params)
{
	char socket[108], port[ONE_PORT_NAME];
	struct one_attach args = {
		.port = port,
		.kind = ONE_KIND_DAT,
		.restarts = true,
		.lost = lost_mark,
		.user = ia,
	};
	DAT_RETURN ret = ia_params(params, socket, sizeof(socket), port, sizeof(port));
	int error;

	if (ret != DAT_SUCCESS) {
		base_complain(
			"ia_name_ptr", ia->name,
			"parameters \"%s\" in dat.conf are not [socket=PATH] [port=NAME]; correct dat.conf",
			params);
		return ret;
	}
	args.socket = socket[0] != '\0' ? socket : NULL;
	ia->request = cr_arrived;
	error = one_attach(&args, &ia->client);
	if (error == 0)
		return DAT_SUCCESS;
	report_attach_error(ia->name, one_socket_path(args.socket), port, error);
	switch (error) {
	case -ENODEV:
		return DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
	case -ENOMEM:
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	case -EPROTO:
		return DAT_ERROR(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE);
	default:
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
	}
}

/* Makes the IA report to the asynchronous EVD of another IA. */
static void
be_guest(struct ia *ia, struct evd *evd)
{
	one_cq_async(ia->client, &ia->async_cq);
	lock_take(&evd->lock);
	ia->async_next = evd->guests;
	evd->guests = ia;
	lock_drop(&evd->lock);
	ia->async_evd = evd;
}

static bool
entry_of_ia(const struct one_cqe *cqe, void *arg)
{
	return cqe->type != CQE_SOFTWARE && cqe->cookie == (uintptr_t)arg;
}

/* Stops the IA from reporting to its asynchronous EVD, and removes its entries there. */
static void
leave_async(struct ia *ia)
{
	struct evd *evd = ia->async_evd;

	if (evd == NULL)
		return;
	lock_take(&evd->lock);
	for (struct ia **at = &evd->guests; *at != NULL; at = &(*at)->async_next) {
		if (*at == ia) {
			*at = ia->async_next;
			break;
		}
	}
	evd_purge(evd, entry_of_ia, ia);
	lock_drop(&evd->lock);
	if (!ia->async_mine) {
		pthread_mutex_lock(&evd->o.ia->lock);
		object_unref(evd);
		pthread_mutex_unlock(&evd->o.ia->lock);
	}
	ia->async_evd = NULL;
}

/* Sets the asynchronous EVD that dat_ia_open requests: none, an existing EVD, or a new one. */
static DAT_RETURN
set_async(struct ia *ia, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd)
{
	struct evd *evd;
	DAT_RETURN ret;

	if (*async_evd == DAT_EVD_ASYNC_EXISTS || *async_evd == DAT_EVD_OUT_OF_SCOPE) {
		*async_evd = DAT_EVD_OUT_OF_SCOPE;
		return DAT_SUCCESS;
	}
	if (*async_evd != DAT_HANDLE_NULL) {
		struct ia *host;

		evd = handle_object(*async_evd, DAT_HANDLE_TYPE_EVD);
		if (evd == NULL)
			return BAD_HANDLE(EVD_ASYNC);
		host = evd->o.ia;
		pthread_mutex_lock(&host->lock);
		evd = evd_ref(host, *async_evd, DAT_EVD_ASYNC_FLAG);
		pthread_mutex_unlock(&host->lock);
		if (evd == NULL)
			return BAD_HANDLE(EVD_ASYNC);
		be_guest(ia, evd);
		return DAT_SUCCESS;
	}
	if ((uint32_t)qlen > one_client_info(ia->client)->limits.max_cq_entries)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
	evd = evd_make(ia, (uint32_t)qlen, DAT_EVD_ASYNC_FLAG, &ret);
	if (evd == NULL)
		return ret;
	pthread_mutex_lock(&ia->lock);
	ret = dat_errno(object_publish(&evd->o, evd->cq.id), DAT_RESOURCE_TEVD);
	if (ret == DAT_SUCCESS)
		evd->o.refs++;
	pthread_mutex_unlock(&ia->lock);
	if (ret != DAT_SUCCESS) {
		evd_destroy(&evd->o);
		return ret;
	}
	ia->async_evd = evd;
	ia->async_mine = true;
	*async_evd = evd->o.handle;
	return DAT_SUCCESS;
}

static void
discard_ia(struct ia *ia)
{
	struct object *o;

	for (uint32_t type = 0; type < OBJECT_TYPES; type++) {
		idmap_fini(&ia->map[type]);
		while ((o = LIST_FIRST(&ia->pool[type])) != NULL) {
			LIST_REMOVE(o, entry);
			free(o);
		}
	}
	pthread_mutex_destroy(&ia->lock);
	pthread_mutex_destroy(&ia->listen_lock);
	free(ia);
}

DAT_RETURN
ia_open(const char *name, const char *params, const void *provider, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
	DAT_IA_HANDLE *ia_handle)
{
	const struct one_welcome *info;
	DAT_EVD_HANDLE wanted;
	struct ia *ia;
	DAT_RETURN ret;

	if (async_evd == NULL)
		return BAD_ARG(3);
	if (ia_handle == NULL)
		return BAD_ARG(4);
	if (*async_evd == DAT_HANDLE_NULL && qlen <= 0)
		return BECAUSE(
			BAD_ARG(2),
			"async_evd_min_qlen = %d: a new asynchronous EVD needs at least 1 entry; give 8, say",
			qlen);
	ia = calloc(1, sizeof(*ia));
	if (ia == NULL)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	ia->o.type = DAT_HANDLE_TYPE_IA;
	ia->o.ia = ia;
	ia->provider = provider;
	memcpy(ia->name, name, strnlen(name, sizeof(ia->name) - 1));
	pthread_mutex_init(&ia->lock, NULL);
	pthread_mutex_init(&ia->listen_lock, NULL);
	ret = attach_ia(ia, params);
	if (ret != DAT_SUCCESS) {
		discard_ia(ia);
		return ret;
	}
	info = one_client_info(ia->client);
	base_address(&ia->addr, info->family, info->addr, 0);
	wanted = *async_evd;
	ia->o.handle = handle_new(provider, DAT_HANDLE_TYPE_IA, ia);
	ret = ia->o.handle == DAT_HANDLE_NULL ? DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY)
					      : set_async(ia, qlen, &wanted);
	if (ret != DAT_SUCCESS) {
		if (ia->o.handle != DAT_HANDLE_NULL)
			handle_free(ia->o.handle);
		one_detach(ia->client);
		discard_ia(ia);
		return ret;
	}
	*async_evd = wanted;
	*ia_handle = ia->o.handle;
	return DAT_SUCCESS;
}

/* True if objects that the consumer created are left.  ia.lock held. */
static bool
in_use(const struct ia *ia)
{
	uint32_t n = 0;

	for (uint32_t type = 0; type < OBJECT_TYPES; type++) {
		if (type != DAT_HANDLE_TYPE_CR)
			n += ia->count[type];
	}
	if (ia->async_mine)
		n -= 1;
	return n > 0 || (ia->async_mine && ia->async_evd->o.refs > 1);
}

static void
destroy_all(struct ia *ia, DAT_HANDLE_TYPE type, void (*destroy)(struct object *o))
{
	for (;;) {
		struct object *o;

		pthread_mutex_lock(&ia->lock);
		o = LIST_FIRST(&ia->list[type]);
		if (o != NULL)
			object_retire(o);
		pthread_mutex_unlock(&ia->lock);
		if (o == NULL)
			return;
		destroy(o);
	}
}

/* Stops other IAs from reporting to this IA's asynchronous EVD. */
static void
dismiss_guests(struct ia *ia)
{
	if (!ia->async_mine)
		return;
	for (;;) {
		struct ia *guest;

		lock_take(&ia->async_evd->lock);
		guest = ia->async_evd->guests;
		lock_drop(&ia->async_evd->lock);
		if (guest == NULL)
			return;
		leave_async(guest);
	}
}

DAT_RETURN
dapl_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS ia_flags)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	struct object *o;

	if (ia == NULL)
		return handle_forget(ia_handle) ? DAT_SUCCESS : BAD_HANDLE(IA);
	if (ia_flags != DAT_CLOSE_ABRUPT_FLAG && ia_flags != DAT_CLOSE_GRACEFUL_FLAG)
		return BECAUSE(BAD_ARG(2),
			       "ia_flags = %#x: give DAT_CLOSE_ABRUPT_FLAG or DAT_CLOSE_GRACEFUL_FLAG",
			       ia_flags);
	/* An agent cannot join its own thread. */
	if (cno_is_agent_of(ia))
		return BAD_STATE(IA_IN_USE);
	pthread_mutex_lock(&ia->lock);
	if (handle_object(ia_handle, DAT_HANDLE_TYPE_IA) != ia) {
		pthread_mutex_unlock(&ia->lock);
		return BAD_HANDLE(IA);
	}
	if (ia_flags == DAT_CLOSE_GRACEFUL_FLAG && in_use(ia)) {
		pthread_mutex_unlock(&ia->lock);
		return BAD_STATE(IA_IN_USE);
	}
	handle_free(ia_handle);
	/* End all waits first: waiters use the objects that are destroyed below. */
	LIST_FOREACH(o, &ia->list[DAT_HANDLE_TYPE_EVD], entry)
		evd_abort((struct evd *)o);
	pthread_mutex_unlock(&ia->lock);

	destroy_all(ia, DAT_HANDLE_TYPE_RMR, rmr_destroy);
	destroy_all(ia, DAT_HANDLE_TYPE_RSP, sp_destroy);
	destroy_all(ia, DAT_HANDLE_TYPE_EP, ep_destroy);
	destroy_all(ia, DAT_HANDLE_TYPE_SRQ, srq_destroy);
	destroy_all(ia, DAT_HANDLE_TYPE_LMR, lmr_destroy);
	destroy_all(ia, DAT_HANDLE_TYPE_PSP, sp_destroy);
	destroy_all(ia, DAT_HANDLE_TYPE_CR, cr_destroy);
	destroy_all(ia, DAT_HANDLE_TYPE_PZ, pz_destroy);
	dismiss_guests(ia);
	leave_async(ia);
	destroy_all(ia, DAT_HANDLE_TYPE_EVD, evd_destroy);
	destroy_all(ia, DAT_HANDLE_TYPE_CNO, cno_destroy);
	one_detach(ia->client);
	discard_ia(ia);
	return DAT_SUCCESS;
}

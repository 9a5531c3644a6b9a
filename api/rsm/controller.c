/* SPDX-License-Identifier: BSD-3-Clause */
/* Controllers: the data plane's ports, and loopback, which uses the first port but connects only to this
 * node. */
#include "rsm/link.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Returns the length of the type in "type" or "type0". *unit is the decimal number at the end, 0 if there is
 * none. */
static size_t
split_name(const char *name, unsigned long long *unit)
{
	size_t len = strlen(name), type = len;

	while (type > 0 && isdigit((unsigned char)name[type - 1]))
		type--;
	*unit = 0;
	for (size_t i = type; i < len; i++) {
		if (*unit > UINT32_MAX)
			break; /* larger than any unit already; prevents overflow */
		*unit = *unit * 10 + (unsigned)(name[i] - '0');
	}
	return type;
}

static bool
name_equal(const char *a, const char *b)
{
	unsigned long long unit_a, unit_b;
	size_t type_a = split_name(a, &unit_a), type_b = split_name(b, &unit_b);

	return type_a == type_b && unit_a == unit_b && strncasecmp(a, b, type_a) == 0;
}

static bool
name_is_loopback(const char *name)
{
	unsigned long long unit;

	return name == NULL ||
	       (split_name(name, &unit) == strlen("loopback") && strncasecmp(name, "loopback", 8) == 0);
}

/* Finds a port whose name equals `name` by the rules of RSMAPI, and returns the data plane's spelling. */
static int
find_port(const char *name, char port[ONE_PORT_NAME])
{
	struct one_attach attach = {.kind = ONE_KIND_RSM};
	struct one_client *client;
	struct one_reply reply;
	uint32_t num_ports = 1;
	int error = one_attach(&attach, &client);

	if (error != 0)
		return error;
	for (uint32_t i = 0; i < num_ports; i++) {
		struct one_msg msg = {.type = ONE_MSG_RSM_TOPOLOGY};

		msg.rsm_topology.port = i;
		error = one_call(client, &msg, NULL, 0, &reply);
		if (error != 0)
			break;
		num_ports = reply.rsm_port.num_ports <= RSM_PORTS_MAX ? reply.rsm_port.num_ports : 0;
		memcpy(port, reply.rsm_port.name, ONE_PORT_NAME);
		port[ONE_PORT_NAME - 1] = '\0';
		error = -ENODEV;
		if (port[0] != '\0' && name_equal(name, port)) {
			error = 0;
			break;
		}
	}
	one_detach(client);
	return error;
}

static int
open_link(const char *name, bool loopback, struct rsm_link **link)
{
	char port[ONE_PORT_NAME];
	int error;

	if (loopback)
		return rsm_link_open(NULL, true, link);
	if (name[0] == '\0' || strlen(name) >= sizeof(port))
		return -ENODEV;
	error = rsm_link_open(name, false, link);
	if (error != -ENODEV)
		return error;
	error = find_port(name, port);
	return error != 0 ? error : rsm_link_open(port, false, link);
}

/* Bit n: the data plane accesses 2^n aligned bytes with one load or store; sizes 1, 2, 4 and 8. */
#define UNTORN 0xfu

static void
fill_attr(struct rsm_controller *controller)
{
	rsmapi_controller_attr_t *attr = &controller->attr;
	const struct one_limits *limits = &one_client_info(controller->link->client)->limits;

	attr->attr_page_size = rsm_page_size() >> 10; /* bit n: 2^n KiB, so the size in KiB */
	if (controller->loopback) {
		/* All loopback segments are on this host and can be mapped. */
		attr->attr_direct_access_sizes = attr->attr_atomic_sizes = UNTORN;
		attr->attr_max_import_map_size = attr->attr_tot_import_map_size = limits->max_mr_bytes;
		return;
	}
	attr->attr_atomic_sizes = UNTORN;
	attr->attr_max_export_segment_size = limits->max_mr_bytes;
	attr->attr_tot_export_segment_size = limits->max_mr_total;
	attr->attr_max_export_segments = limits->max_segments;
	attr->attr_max_import_segments = limits->max_qp < limits->max_cq ? limits->max_qp : limits->max_cq;
}

/* Takes a reference to a controller that is already open. */
static rsmapi_controller_handle_t
find_open(const char *name, bool loopback)
{
	uint32_t used = rsm_table_used(&rsm_controllers);

	for (uint32_t i = 0; i < used; i++) {
		struct rsm_controller *controller = rsm_slot_at(&rsm_controllers, i);
		rsmapi_controller_handle_t handle = NULL;

		if (controller == NULL)
			continue;
		if (controller->loopback == loopback && (loopback || name_equal(controller->name, name))) {
			controller->refs++;
			handle = rsm_slot_handle(controller);
		}
		rsm_slot_unlock(controller);
		if (handle != NULL)
			return handle;
	}
	return NULL;
}

int
rsm_open_error(int error)
{
	switch (error) {
	case -ENOMEM:
	case -EDQUOT:
		return RSMERR_INSUFFICIENT_MEM;
	case -EMFILE:
	case -ENFILE:
	case -EAGAIN:
		return RSMERR_INSUFFICIENT_RESOURCES;
	case -EPROTO:
		return RSMERR_BAD_LIBRARY_VERSION;
	default:
		return RSMERR_CTLR_NOT_PRESENT;
	}
}

int
rsm_refuse_attach(const char *argument, const char *object, int error)
{
	char text[ONE_ATTACH_TEXT];

	one_attach_text(error, one_socket_path(NULL), text);
	if (!one_explaining)
		one_warn("%s: %s", object, text);
	return ONE_BECAUSE(rsm_open_error(error), "%s = \"%s\": %s", argument, object, text);
}

static int
open_controller(const char *name, bool loopback, rsmapi_controller_handle_t *out)
{
	struct rsm_controller *controller;
	struct rsm_link *link;
	int error = open_link(name, loopback, &link);

	if (error != 0)
		return rsm_refuse_attach("name", loopback ? "loopback" : name, error);
	controller = rsm_slot_new(&rsm_controllers);
	if (controller == NULL) {
		rsm_link_put(link);
		return RSMERR_INSUFFICIENT_MEM;
	}
	controller->refs = 1;
	controller->loopback = loopback;
	controller->link = link;
	memcpy(controller->name, one_client_info(link->client)->port, sizeof(controller->name));
	controller->name[sizeof(controller->name) - 1] = '\0';
	fill_attr(controller);
	*out = rsm_slot_publish(controller);
	return RSM_SUCCESS;
}

int
rsm_do_get_controller(char *name, rsmapi_controller_handle_t *out)
{
	bool loopback = name_is_loopback(name);
	int result = RSM_SUCCESS;

	if (out == NULL)
		return RSMERR_BAD_CTLR_HNDL;
	rsm_watch_forks();
	pthread_mutex_lock(&rsm_attach_lock);
	*out = find_open(name, loopback);
	if (*out == NULL)
		result = open_controller(name, loopback, out);
	pthread_mutex_unlock(&rsm_attach_lock);
	return result;
}

int
rsm_do_get_controller_attr(rsmapi_controller_handle_t handle, rsmapi_controller_attr_t *attr)
{
	struct rsm_controller *controller;

	if (rsm_slot_lock(&rsm_controllers, handle, (void **)&controller) == RSM_NONE)
		return RSMERR_BAD_CTLR_HNDL;
	if (attr != NULL)
		*attr = controller->attr;
	rsm_slot_unlock(controller);
	return attr != NULL ? RSM_SUCCESS : RSMERR_BAD_ADDR;
}

int
rsm_do_release_controller(rsmapi_controller_handle_t handle)
{
	struct rsm_controller *controller;
	struct rsm_link *link;

	if (rsm_slot_lock(&rsm_controllers, handle, (void **)&controller) == RSM_NONE)
		return RSMERR_BAD_CTLR_HNDL;
	link = controller->link;
	if (--controller->refs == 0) {
		rsm_slot_retire(&rsm_controllers, controller);
		rsm_link_put(link);
	} else {
		rsm_slot_unlock(controller);
	}
	return RSM_SUCCESS;
}

bool
rsm_controller_valid(rsmapi_controller_handle_t handle)
{
	struct rsm_controller *controller;

	if (rsm_slot_lock(&rsm_controllers, handle, (void **)&controller) != RSM_LIVE)
		return false;
	rsm_slot_unlock(controller);
	return true;
}

/* Replaces a lost attachment. The caller holds rsm_attach_lock. */
static int
reattach(rsmapi_controller_handle_t handle, const char *name, bool loopback, struct rsm_link **link)
{
	struct rsm_controller *controller;
	struct rsm_link *fresh, *old;
	int error = open_link(name, loopback, &fresh);

	if (error != 0)
		return rsm_open_error(error);
	if (rsm_slot_lock(&rsm_controllers, handle, (void **)&controller) != RSM_LIVE) {
		rsm_link_put(fresh);
		return RSMERR_BAD_CTLR_HNDL; /* released by another thread */
	}
	old = controller->link;
	controller->link = fresh;
	*link = rsm_link_get(fresh);
	rsm_slot_unlock(controller);
	rsm_link_put(old);
	return RSM_SUCCESS;
}

/* Returns a reference to the controller's attachment, or NULL if it is lost; `name` and `loopback` serve to
 * get a new one. */
static int
current_link(rsmapi_controller_handle_t handle, struct rsm_link **link, char name[ONE_PORT_NAME],
	     bool *loopback)
{
	struct rsm_controller *controller;

	switch (rsm_slot_lock(&rsm_controllers, handle, (void **)&controller)) {
	case RSM_NONE:
		return RSMERR_BAD_CTLR_HNDL;
	case RSM_FOREIGN:
		return RSMERR_CTLR_NOT_PRESENT;
	case RSM_LIVE:
		break;
	}
	*link = rsm_link_lost(controller->link) ? NULL : rsm_link_get(controller->link);
	memcpy(name, controller->name, ONE_PORT_NAME);
	*loopback = controller->loopback;
	rsm_slot_unlock(controller);
	return RSM_SUCCESS;
}

int
rsm_controller_link(rsmapi_controller_handle_t handle, struct rsm_link **link)
{
	char name[ONE_PORT_NAME];
	bool loopback;
	int result = current_link(handle, link, name, &loopback);

	if (result != RSM_SUCCESS || *link != NULL)
		return result;
	pthread_mutex_lock(&rsm_attach_lock);
	result = current_link(handle, link, name, &loopback); /* another thread may have reattached already */
	if (result == RSM_SUCCESS && *link == NULL)
		result = reattach(handle, name, loopback, link);
	pthread_mutex_unlock(&rsm_attach_lock);
	return result;
}

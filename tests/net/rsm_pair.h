/* SPDX-License-Identifier: BSD-3-Clause */
/* An exporter and an importer of RSMAPI, for cases of two processes. */
#ifndef TESTS_NET_RSM_PAIR_H
#define TESTS_NET_RSM_PAIR_H

#include <rsmapi.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define SEGMENT 0x400200u
#define SIZE (4u << 20)

#define RSM_CHECK(pair, call, expected)                                                               \
	do {                                                                                          \
		int error_ = (call);                                                                  \
		CHECK(pair, error_ == (expected), "%s: %d instead of %d", #call, error_, (expected)); \
	} while (0)

struct exporter {
	rsmapi_controller_handle_t controller;
	rsm_memseg_export_handle_t export;
	rsm_memseg_id_t id;
	uint8_t *base;
	rsm_node_id_t node;
};

struct importer {
	rsmapi_controller_handle_t controller;
	rsm_memseg_import_handle_t import;
	rsmapi_barrier_t barrier;
	rsm_node_id_t node; /* of the exporter */
	rsm_node_id_t own;
};

static inline rsm_node_id_t
own_node(struct pair *pair)
{
	rsm_topology_t *topology;
	rsm_node_id_t node;

	RSM_CHECK(pair, rsm_get_interconnect_topology(&topology), RSM_SUCCESS);
	node = topology->topology_hdr.local_nodeid;
	rsm_free_interconnect_topology(topology);
	CHECK(pair, node != 0, "the data plane has no node id");
	return node;
}

/* Makes a segment without publishing it; exchanges the node ids. */
static inline void
exporter_open(struct exporter *e, struct pair *pair, rsm_node_id_t *peer)
{
	static char name[] = "p0";

	memset(e, 0, sizeof(*e));
	RSM_CHECK(pair, rsm_get_controller(name, &e->controller), RSM_SUCCESS);
	e->base = aligned_alloc(4096, SIZE);
	memset(e->base, 0, SIZE);
	e->node = own_node(pair);
	pair_send(pair, &e->node, sizeof(e->node));
	pair_recv(pair, peer, sizeof(*peer));
	RSM_CHECK(pair, rsm_memseg_export_create(e->controller, &e->export, e->base, SIZE, 0), RSM_SUCCESS);
	e->id = SEGMENT;
}

static inline void
exporter_close(struct exporter *e, struct pair *pair)
{
	RSM_CHECK(pair, rsm_memseg_export_destroy(e->export), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_release_controller(e->controller), RSM_SUCCESS);
}

static inline void
publish(struct exporter *e, struct pair *pair, rsm_node_id_t node, rsm_permission_t permission)
{
	rsmapi_access_entry_t entry = {.ae_node = node, .ae_permission = permission};

	RSM_CHECK(pair, rsm_memseg_export_publish(e->export, &e->id, &entry, 1), RSM_SUCCESS);
}

static inline void
importer_open(struct importer *i, struct pair *pair)
{
	static char name[] = "p0";

	memset(i, 0, sizeof(*i));
	RSM_CHECK(pair, rsm_get_controller(name, &i->controller), RSM_SUCCESS);
	i->own = own_node(pair);
	pair_recv(pair, &i->node, sizeof(i->node));
	pair_send(pair, &i->own, sizeof(i->own));
}

static inline void
importer_connect_to(struct importer *i, struct pair *pair, rsm_memseg_id_t id, rsm_permission_t permission)
{
	RSM_CHECK(pair, rsm_memseg_import_connect(i->controller, i->node, id, permission, &i->import),
		  RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_init_barrier(i->import, RSM_BARRIER_SEGMENT, &i->barrier),
		  RSM_SUCCESS);
}

static inline void
importer_connect(struct importer *i, struct pair *pair, rsm_permission_t permission)
{
	importer_connect_to(i, pair, SEGMENT, permission);
}

static inline void
importer_disconnect(struct importer *i, struct pair *pair)
{
	RSM_CHECK(pair, rsm_memseg_import_destroy_barrier(&i->barrier), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_disconnect(i->import), RSM_SUCCESS);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* RSM segments: exports, imports, signals, mappings, and the keep-alive of their connections. */
#ifndef CONTROL_RSM_RSM_H
#define CONTROL_RSM_RSM_H

#include "control/connect/connect.h"
#include "control/base/acl.h"

struct segment {
	uint32_t id;
	struct client *client;
	struct mr *mr;
	struct acl acl;
	struct cm_listener *cm;
	struct cq *signal_cq; /* NULL: none */
	bool mappable;
	bool given; /* to an importer */
	LIST_HEAD(, qp) exports;
	struct cm_node by_id;
	LIST_ENTRY(segment) link;        /* of all */
	LIST_ENTRY(segment) client_link; /* of its owner's */
};

/* ---- rsm.c: exporter ---- */
int rsm_publish(struct client *client, const struct one_msg *msg);
int rsm_republish(struct client *client, const struct one_msg *msg);
int rsm_unpublish(struct client *client, const struct one_msg *msg);
int rsm_topology(struct client *client, const struct one_msg *msg);
void rsm_find_peers(void); /* ask for the MACs of all that are configured */
struct segment *segment_find(uint32_t id);
void rsm_request(struct segment *segment, struct conn *conn); /* CM_REQUEST */

bool rsm_leave(struct client *client); /* its segments go with it; a slice of its end: true when it is over */
/* The peer that the configuration has at that address; NULL: none. */
const struct config_peer *rsm_peer_at(const struct wire_addr *addr);

/* By which it is reached; NULL: by none. */
const struct path_port *rsm_peer_port(const struct config_peer *peer);

/* ---- queue.c ---- */
extern const struct qp_kind import_kind, export_kind;
/* A queue pair that imports; `done` when the core has it. */
int import_qp_new(struct client *client, struct pz *pz, struct cq *cq, struct cq *signal_cq,
		  uint32_t max_send_wr, command_done *done, struct qp **out);
int export_qp_new(struct segment *segment, uint32_t permission, struct qp **out);
void export_drop_window(struct qp *qp);

/* ---- import.c ---- */
int rsm_connect(struct client *client, const struct one_msg *msg);
int rsm_disconnect(struct client *client, const struct one_msg *msg);
/* CM_REPLY of an import. */
enum rsm_error import_reply(struct conn *conn);
enum rsm_error import_error(enum one_conn_event event);
enum rsm_error import_rejected(const struct conn *conn, uint16_t reason, const uint8_t *data);

/* ---- signal.c ---- */
int rsm_signal(struct client *client, const struct one_msg *msg);

/* ---- share.c: segments mapped by importers of this host ---- */
int rsm_map(struct client *client, const struct one_msg *msg);
/* The importer behind this export, if it is of this host, sees from now on that the segment is gone. */
void share_revoke(const struct qp *export);

/* ---- alive.c: keep-alive between data planes ---- */
int host_watch(struct conn *conn, uint64_t incarnation);
void host_unwatch(struct conn *conn);
bool host_mad(struct path_port *port, const struct cm_path *reply_path,
	      const uint8_t *mad); /* true: it was one */
void hosts_poll(void);
uint64_t hosts_deadline(void);

#endif

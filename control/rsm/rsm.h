/* SPDX-License-Identifier: BSD-3-Clause */
/* RSM segments: exports, imports, signals, mappings, and the keep-alive of their connections. */
#ifndef CONTROL_RSM_RSM_H
#define CONTROL_RSM_RSM_H

#include "control/connect/connect.h"
#include "control/base/acl.h"
#include "dataplane/mem/bounce.h"

#define RSM_ASSIGNED_FIRST 0x80000000u /* of the segment ids that the data plane assigns */

struct segment {
	uint32_t id;
	struct client *client;
	struct mr *mr;
	struct acl acl;
	struct cm_listener *cm;
	struct cq *signal_cq; /* NULL: none */
	bool mappable;
	bool given;                 /* an importer received the file */
	struct bounce_marks copies; /* what unpublishing waits for */
	LIST_HEAD(, qp) exports;
	struct cm_node by_id;
	LIST_ENTRY(segment) link;        /* in the list of all segments */
	LIST_ENTRY(segment) client_link; /* in the list of its client's segments */
};

/* ---- rsm.c: exporter ---- */
int rsm_publish(struct client *client, const struct one_msg *msg);
int rsm_republish(struct client *client, const struct one_msg *msg);
int rsm_unpublish(struct client *client, const struct one_msg *msg);
int rsm_topology(struct client *client, const struct one_msg *msg);
void rsm_find_peers(void); /* starts address resolution of all configured peers */
struct segment *segment_find(uint32_t id);
/* Makes and publishes a segment of a settled MR that has none; the caller sets its access list.  NULL: no
 * memory, or the id is taken. */
struct segment *segment_new(struct mr *mr, uint32_t id, struct cq *signal_cq);
void rsm_request(struct segment *segment, struct conn *conn); /* CM_REQUEST */

bool rsm_leave(struct client *client); /* ends a slice of the client's segments; true: all */
/* Returns the configured peer with that address; NULL: none. */
const struct config_peer *rsm_peer_at(const struct wire_addr *addr);

/* Returns the port that leads to the peer; NULL: none. */
const struct path_port *rsm_peer_port(const struct config_peer *peer);

/* ---- queue.c ---- */
extern const struct qp_kind import_kind, export_kind;
/* Makes an import's queue pair. Calls `done` when the core has added it. */
int import_qp_new(struct client *client, struct pz *pz, struct cq *cq, struct cq *signal_cq,
		  uint32_t max_send_wr, command_done *done, struct qp **out);
int export_qp_new(struct segment *segment, uint32_t permission, struct qp **out);
void export_drop_window(struct qp *qp);
bool export_has_room(const struct client *client); /* for another export */
/* Publishes the importer's key for the segment's memory, and enters the export in its segment.  The export
 * has number, zone, segment and permission; it owns `window` afterwards. */
void export_open(struct qp *qp, struct mem_region *window, uint32_t key);

/* ---- import.c ---- */
int rsm_connect(struct client *client, const struct one_msg *msg);
int rsm_disconnect(struct client *client, const struct one_msg *msg);
/* Processes CM_REPLY of an import. */
enum rsm_error import_reply(struct conn *conn);
enum rsm_error import_error(enum one_conn_event event);
enum rsm_error import_rejected(const struct conn *conn, uint16_t reason, const uint8_t *data);

/* ---- rsm.c ---- */
int rsm_signal(struct client *client, const struct one_msg *msg);

/* ---- share.c: segments mapped by importers of this host ---- */
int rsm_map(struct client *client, const struct one_msg *msg);
/* Notifies the importer behind this export, if on this data plane, that the segment is gone. */
void share_revoke(const struct qp *export);

/* ---- pass_rsm.c: take-over ---- */
void rsm_write(struct pass_out *out); /* what belongs to no attachment: before all of them */
int rsm_read(struct pass_in *in);
void rsm_segments_write(struct client *client, struct pass_out *out); /* before the queue pairs */
int rsm_segments_read(struct client *client, struct pass_in *in);
/* Calls of import_kind and export_kind. */
int import_read(struct qp *qp, struct pass_in *in);
void export_write(const struct qp *qp, struct pass_out *out);
int export_read(struct qp *qp, struct pass_in *in);
int rsm_resumed(struct conn *conn);

/* ---- alive.c: keep-alive between data planes ---- */
int host_watch(struct conn *conn, uint64_t incarnation);
void host_unwatch(struct conn *conn);
bool host_mad(struct path_port *port, const struct cm_path *reply_path,
	      const uint8_t *mad); /* true: it was a keep-alive datagram */
void hosts_poll(void);
uint64_t hosts_deadline(void);

#endif

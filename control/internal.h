/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the control thread.  Everything here belongs to that one thread.
 *
 * Requests of clients are carried out by handlers (struct one_msg -> error).  A
 * handler that must wait for a core or a grace period returns REQUEST_LATER and
 * calls client_reply() when it has got what it waits for; a client has at most
 * one request under way.
 *
 * Callbacks (of commands, graces, jobs, resolutions) never run from within the
 * call that registered them.
 */
#ifndef CONTROL_INTERNAL_H
#define CONTROL_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "abi/arena.h"
#include "abi/message.h"
#include "config/config.h"
#include "control/acl.h"
#include "control/arena.h"
#include "control/cm.h"
#include "control/log.h"
#include "control/neigh.h"
#include "control/quota.h"
#include "control/small.h"
#include "control/table.h"
#include "dataplane/engine.h"
#include "dataplane/reach.h"

#define REQUEST_LATER INT_MAX
#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define NEVER UINT64_MAX

struct client;
struct conn;

/* ---- limits of the control thread itself ---- */
enum {
	CLIENT_GROUPS_MAX = 64, /* supplementary groups that are looked at */
	CLIENT_CRS_MAX = 4096,  /* connection requests not yet answered, of one attachment */
	CLIENT_HELLO_MS = 5000, /* for the first message */
	ASYNC_CQ_LOG2 = 8,
	LOOPED_MADS_MAX = 65536,  /* between queue pairs of this data plane, waiting for the next loop */
	UNRESOLVED_MADS_MAX = 512 /* waiting for a MAC */
};
#define STAGING_MAX (64ull << 20)   /* of one attachment */
#define POPULATE_CHUNK (8ull << 20) /* bytes of a mapping in one loop */

/* ---- objects of a client ---- */

enum object_kind {
	OBJECT_PZ,
	OBJECT_CQ,
	OBJECT_QP,
	OBJECT_LISTENER,
	OBJECT_CR,
	OBJECT_REGION,
	OBJECT_MR,
	OBJECT_MW,
	OBJECT_SRQ,
	OBJECT_KINDS
};

struct object {
	uint32_t id;    /* the application's */
	uint32_t users; /* objects that refer to this one */
	enum object_kind kind;
	bool busy; /* being made or freed: unknown to the application */
	struct client *client;
};

struct pz {
	struct object object;
	uint32_t number; /* unique in the data plane */
};

struct old_ring { /* of a CQ that was resized: the application may still read it */
	struct old_ring *next;
	uint64_t offset;
	uint32_t log2;
};

struct cq {
	struct object object;
	struct engine_cq *engine;
	uint64_t offset;
	uint32_t log2;
	uint32_t posts; /* entries on their way from here */
	struct old_ring *old;
};

struct region {
	struct object object;
	uint8_t *base;
	uint64_t size, page;
	bool guarded;
	int fd; /* of an RSM client's file, to be passed on to importers; -1 */
};

struct mr {
	struct object object; /* users: segments and windows */
	struct pz *pz;
	struct mem_region *entry; /* published; NULL: not */
	uint64_t va, length;
	uint32_t access;
	uint8_t *mapping; /* of several pieces, made for this MR; else NULL */
	uint64_t mapping_len;
	uint32_t mappings; /* charged for it */
	uint32_t num_regions;
	struct region **region;
	uint64_t offset; /* in the file, when it is one piece */
	LIST_HEAD(, mw) windows;
};

struct mw {
	struct object object;
	struct pz *pz;
	struct mem_region *entry; /* what is published in the slot: the bound range, or nothing */
	struct mr *mr;            /* NULL: unbound */
	LIST_ENTRY(mw) mr_link;
};

struct srq {
	struct object object; /* users: queue pairs */
	struct engine_srq *engine;
	struct pz *pz;
	uint32_t max_wr;
	uint64_t block, block_size; /* in the arena */
};

enum qp_role { QP_DAT, QP_IMPORT, QP_EXPORT };

struct qp {
	struct object object;
	enum qp_role role;
	enum one_qp_state state;
	bool added; /* a core has it */
	bool removing;
	struct engine_qp *engine;
	struct engine_qp_config config;
	struct pz *pz; /* NULL: none yet; EXPORT: none, config.pz is its own */
	struct cq *send_cq, *recv_cq, *conn_cq;
	struct srq *srq; /* NULL: it has receives of its own */
	uint32_t rd_atomic_in, rd_atomic_out;
	uint64_t block, block_size; /* in the arena */
	struct conn *conn;
	struct qp *qpn_next;
	/* IMPORT */
	uint32_t permission;
	/* EXPORT */
	struct segment *segment;
	struct mem_region *window;
	LIST_ENTRY(qp) segment_link;
};

struct listener {
	struct object object;
	struct cm_listener *cm; /* NULL: closed itself */
	uint64_t service;
	struct cq *cq;
	bool once;
	LIST_ENTRY(listener) link; /* of all */
};

struct cr {
	struct object object;
	struct conn *conn;
	uint64_t shm; /* offset of struct one_cr_shm */
};

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
	LIST_ENTRY(segment) link; /* of all */
};

/* ---- ports ---- */

struct port {
	uint16_t index;
	const struct engine_port_info *info;
	const struct config_port *config;
	struct cm *cm;
	struct cm_env env;
	uint32_t mad_psn;
	bool link_up; /* as last seen */
};

/* ---- connections ---- */

enum conn_state {
	CONN_WAITING,   /* for the QPN's last connection to be forgotten, or to try again */
	CONN_RESOLVING, /* asking for the next hop's MAC */
	CONN_REQUESTED, /* active: REQ is out */
	CONN_STARTING,  /* active: REP came, the core is told, then RTU */
	CONN_OFFERED,   /* passive: the application has not answered yet */
	CONN_PREPARING, /* passive: the core is told, then REP */
	CONN_REPLIED,   /* passive: REP is out */
	CONN_UP,
	CONN_OVER /* the queue pair has had its last event; CM's time-wait may still run */
};

/* What the two sides say to each other, until they are connected. */
struct conn_setup {
	struct cm_remote remote;
	uint16_t private_len; /* ours */
	uint8_t private_data[CM_PRIVATE_REP];
};

struct conn {
	enum conn_state state;
	bool passive;
	struct port *port;
	struct cm_conn *cm; /* NULL: none yet, or gone */
	struct qp *qp;      /* NULL: not accepted, or let go */
	struct cr *cr;
	uint32_t commands;        /* on their way with this conn as their object */
	bool dead;                /* in the list of those to be freed */
	bool listed;              /* in the list of those that wait */
	struct conn_setup *setup; /* NULL once established */
	uint32_t peer_qpn;
	bool peer_oneside;
	struct cm_local local;
	struct cm_path path;
	uint8_t mac[6];
	uint64_t service;
	uint16_t ip_port;  /* the active side's */
	uint64_t deadline; /* of the attempt; NEVER */
	uint64_t retry_at; /* WAITING: not before; NEVER: when the QPN is free */
	uint32_t attempts;
	uint32_t qpn;      /* in time-wait until CM_GONE */
	struct host *host; /* keep-alive of an RSM connection */
	uint64_t incarnation;
	TAILQ_ENTRY(conn) link;
	TAILQ_ENTRY(conn) wait_link;
	LIST_ENTRY(conn) host_link;
};

/* ---- clients ---- */

enum client_state {
	CLIENT_CONNECTED, /* HELLO has not come */
	CLIENT_ATTACHED,
	CLIENT_LEAVING,   /* gone: what is under way comes to an end; everything is unhooked from the world */
	CLIENT_REMOVING,  /* the core lets go of queue pairs and rings */
	CLIENT_QUIESCING, /* keys are removed; a grace period runs */
	CLIENT_GONE       /* nothing refers to it */
};

struct watch {
	void (*ready)(struct watch *watch, uint32_t events);
};

struct client {
	enum client_state state;
	int fd, pidfd;
	struct watch fd_watch, pid_watch;
	pid_t pid;
	uint32_t uid, gid, num_groups;
	gid_t group[CLIENT_GROUPS_MAX];
	uint64_t hello_deadline;
	uint32_t kind; /* enum one_kind */
	char program[32];
	struct port *port;
	struct quota_account *account;
	bool attached; /* counts as an attachment in the quota */

	bool held; /* not read until descriptors of its user have been closed */
	bool busy; /* a request is under way: */
	struct one_msg msg;
	struct one_reply reply;
	int fds[ONE_MSG_FDS];
	uint32_t num_fds;

	struct arena arena;
	struct small small;
	int arena_fd; /* until it is sent */
	int reply_fd; /* goes with the next reply; -1 */
	int wake_fd;
	struct engine_client *engine;
	bool added;
	struct table table[OBJECT_KINDS];
	struct cq *async_cq;
	struct reach *reach;    /* NULL: it has no copy thread */
	uint64_t copies_offset; /* of its struct one_copies */
	LIST_HEAD(, old_ring) unused;
	uint64_t mapped, arena_charged, staged, requests;
	uint32_t segments;
	uint32_t exports;      /* queue pairs that others have made here by importing */
	uint32_t kept_fds;     /* of regions */
	struct mr *leaving;    /* freed by the request under way: copies begun before */
	uint32_t leaving_mark; /* this mark (reach_mark) are waited for */
	uint64_t copies_at;    /* when its copies are looked at */

	uint32_t commands; /* on their way to the core */
	uint32_t jobs;     /* graces and populations under way */
	TAILQ_ENTRY(client) link;
};

/* ---- the one control thread ---- */

TAILQ_HEAD(client_list, client);
TAILQ_HEAD(conn_list, conn);

struct control {
	const struct config *config;
	int epoll, stop_fd, listen_fd;
	uint64_t now;
	bool stopping;
	struct quota quota;
	struct client_list clients;
	struct table pz_numbers; /* every protection zone of the data plane */
	struct port port[CONFIG_PORTS_MAX];
	uint32_t num_ports;
	struct neigh *neigh;
	struct conn_list conns, waiting, dead;
	LIST_HEAD(, listener) listeners;
	LIST_HEAD(, segment) segments;
	uint64_t next_segment; /* id to be given next */
	uint64_t incarnation;  /* of this process: random */
	uint64_t attached_ever;
};
extern struct control control;

/* ---- control.c ---- */
uint64_t control_clock(void);
uint64_t control_random(void);
int control_watch(int fd, struct watch *watch, uint32_t events);

/* ---- work.c: commands, graces, jobs ---- */
typedef void command_done(struct engine_command *command, void *object);
/* Never NULL.  `done` may be NULL: then the acknowledgement is heard of when something else is.  The client
 * is not freed before it. */
struct engine_command *command_new(struct client *client, enum engine_command_type type, command_done *done,
				   void *object);
void command_send(struct engine_command *command);
/* After every core has passed a quiescent state.  The client is not freed before. */
typedef void grace_done(struct client *client, void *object);
void grace_defer(struct client *client, grace_done *done, void *object);
/* Free a memory key's entry when no core can look at it any more. */
void entry_retire(struct client *client, struct mem_region *entry);
/* A step of a job: 1 when there is more to do, else the result (0 or -errno), then given to `done`. */
struct job {
	int (*step)(struct job *job);
	void (*done)(struct job *job, int error);
	struct client *client;
	TAILQ_ENTRY(job) link;
};
void job_start(struct job *job);
bool work_pending(void);
void work_poll(void);
void work_init(void);

/* ---- server.c ---- */
int server_open(const struct config *config, char *why, size_t why_len);
void server_close(void);

/* ---- closer.c: descriptors that applications send ---- */
#define SCM_MAX 253u /* descriptors in a message: the kernel's limit */
/* Room for all that a message can have: those without room the kernel would close, on this thread. */
union ancillary {
	char bytes[CMSG_SPACE(SCM_MAX * sizeof(int))];
	struct cmsghdr align;
};
int closers_start(void);
void closers_stop(void);
void closers_poll(void);
uint64_t closers_deadline(void);
/* Closes what came from `uid`, without waiting for it. */
void fd_discard(uint32_t uid, int fd);
void ancillary_discard(uint32_t uid, struct msghdr *header); /* all that came with a message */
void connection_close(uint32_t uid, int fd);                 /* and what it has sent and nobody read */
/* So many of its descriptors are still to be closed that no more should be taken; */
bool closer_full(uint32_t uid);
/* and they do not close, so that it is not to be served. */
bool closer_stuck(uint32_t uid);

/* ---- client.c ---- */
void client_accept(int fd);
void client_kill(struct client *client, uint32_t fault, const char *reason);
/* The outcome of the request under way. */
void client_reply(struct client *client, int error);
/* For handlers: `return refuse(client, -EINVAL, ONE_SUBJECT_PZ, id)`. */
int refuse(struct client *client, int error, enum one_subject subject, uint64_t value);
static inline bool
client_alive(const struct client *client)
{
	return client->state == CLIENT_ATTACHED;
}
void clients_poll(void); /* deadlines, ends */
uint64_t clients_deadline(void);
/* A part of the arena, charged to the client. */
int client_alloc(struct client *client, uint64_t size, uint64_t *offset);
void client_free(struct client *client, uint64_t offset, uint64_t size);
/* Descriptor `i` of the request under way; the caller owns it from now on; -1: there is none. */
int client_take_fd(struct client *client, uint32_t i);

/* ---- copies.c ---- */
int copies_start(struct client *client);
/* The registration is freed and the request answered when no copy from before is under way. */
void copies_settle(struct client *client, struct mr *mr);
void copies_poll(struct client *client);
uint64_t copies_deadline(const struct client *client);

/* ---- hello.c ---- */
int hello_request(struct client *client, const struct one_hello *hello);

/* ---- object.c: ids, protection zones, completion rings, staging ---- */
void *object_new(struct client *client, enum object_kind kind, size_t size);
void object_free(void *object); /* forgets the id */
/* NULL when there is no such object, or it is busy. */
void *object_get(struct client *client, enum object_kind kind, uint32_t id);
int pz_create(struct client *client);
int pz_free(struct client *client, uint32_t id);
int cq_create(struct client *client, uint32_t entries);
int cq_resize_request(struct client *client, const struct one_cq_resize *args);
int cq_free(struct client *client, uint32_t id);
int cq_start(struct client *client, uint32_t log2, struct cq **out, command_done *done);
void cq_remove(struct cq *cq);  /* at the client's end */
void cq_destroy(struct cq *cq); /* the core has let go */
void cq_post(struct cq *cq, const struct one_cqe *event);
bool cq_has_room(const struct cq *cq);
int staging_create(struct client *client, const struct one_staging *args);
/* 0: too many of the client's user or of all; `limit` tells. */
uint32_t pz_number_new(struct client *client, void *owner, uint64_t *limit);
void pz_number_free(struct client *client, uint32_t number);

/* ---- region.c ---- */
int region_add(struct client *client, const struct one_region_add *args);
int region_remove(struct client *client, uint32_t id);
void region_destroy(struct region *region);
/* mr.c */
int mr_create(struct client *client, const struct one_mr_create *args);
int mr_free(struct client *client, uint32_t id);
void mr_withdraw(struct mr *mr); /* the key, at the client's end */
void mr_destroy(struct mr *mr);
struct mr *mr_staging(struct client *client, struct pz *pz, uint64_t offset, uint64_t size);
/* A key for the client, to be published before the next is asked for; 0: too many of its user or of all. */
uint32_t key_new(struct client *client, uint64_t *limit);
void key_free(struct client *client); /* one that was taken out of the table */

/* ---- bind.c ---- */
int mw_create(struct client *client, const struct one_mw_create *args);
int mw_free(struct client *client, uint32_t id);
void mw_withdraw(struct mw *mw);
void mw_unbind_lost(struct mr *mr); /* windows of `mr` that peers have invalidated */
void bind_event(struct qp *qp);

/* ---- qp.c ---- */
int qp_create(struct client *client, const struct one_qp_create *args);
int qp_modify(struct client *client, const struct one_qp_modify *args);
int qp_reset_request(struct client *client, uint32_t id);
/* 0, or the refusal: queue pair `id` can begin or accept a connection with so much private data. */
int qp_connectable(struct client *client, uint32_t id, uint32_t private_len);
int qp_free(struct client *client, uint32_t id);
/* An RSM queue pair; `done` when the core has it. */
int qp_make_import(struct client *client, struct pz *pz, struct cq *cq, struct cq *signal_cq,
		   uint32_t max_send_wr, command_done *done, struct qp **out);
int qp_make_export(struct segment *segment, uint32_t permission, struct qp **out);
void qp_describe(struct client *client, const struct qp *qp); /* in the reply under way */
/* Lets go of its connection and of the core; freed when the core has let go.  `reply`: then tell the client.
 */
void qp_remove(struct qp *qp, bool reply);
void qp_destroy(struct qp *qp); /* never added, or no core has it any more */
void qp_drop_window(struct qp *qp);
struct qp *qp_by_qpn(uint32_t qpn);
void qp_set_state(struct qp *qp, enum one_qp_state state); /* here and in the application's view */
struct engine_command *qp_command(struct qp *qp, enum engine_command_type type, command_done *done,
				  void *object);
struct one_qp_shm *qp_shm(const struct qp *qp);

/* The ring for `wrs` requests of `sges` pieces; a refusal if it is over the limits. */
int work_ring_log2(struct client *client, uint32_t max_wrs, uint32_t wrs, uint32_t sges, uint32_t *log2);

/* ---- srq.c ---- */
int srq_create(struct client *client, const struct one_srq_create *args);
int srq_limit(struct client *client, const struct one_srq_limit *args);
int srq_free(struct client *client, uint32_t id);
void srq_remove(struct srq *srq);  /* at the client's end */
void srq_destroy(struct srq *srq); /* the core has let go */

/* ---- conn.c ---- */
int qp_connect(struct client *client, const struct one_qp_connect *args);
int qp_disconnect(struct client *client, const struct one_qp_disconnect *args);
struct conn *conn_new(struct port *port, bool passive);
void conn_start(struct conn *conn, struct qp *qp); /* an attempt of `qp` begins */
/* The queue pair goes: its connection ends by itself. */
void conn_detach(struct qp *qp);
/* The end of an attempt or a connection, told to the application once. */
void conn_end(struct conn *conn, enum one_conn_event event, enum rsm_error rsm, bool tell_peer);
/* In time-wait, or in use by a connection. */
bool conn_qpn_held(uint32_t qpn);
void conn_reject(struct conn *conn, enum cm_reject reason, const void *data, uint16_t len);
void conn_put(struct conn *conn); /* frees it when nothing refers to it */
void conn_free(struct conn *conn);
/* conn_show.c: before the event that tells of it. */
void conn_show(const struct conn *conn);
void conn_show_refusal(const struct conn *conn, const uint8_t *data);
void conn_event(struct cm_env *env, const struct cm_event *event);
/* The next hop `hop` of `port` has another MAC now. */
void conns_path_changed(const struct port *port, const struct wire_addr *hop, const uint8_t mac[6]);
void conns_poll(void); /* deadlines, retries, the dead */
uint64_t conns_deadline(void);
void qp_engine_event(struct qp *qp, const struct engine_event *event);

/* ---- accept.c ---- */
int listen_create(struct client *client, const struct one_listen *args);
int listen_free(struct client *client, uint32_t id);
void listener_close(struct listener *listener);
int cr_accept(struct client *client, const struct one_cr_accept *args);
int cr_reject(struct client *client, const struct one_cr_reject *args);
int cr_handoff(struct client *client, const struct one_cr_handoff *args);
void cr_offer(struct listener *listener, struct conn *conn);
void cr_destroy(struct cr *cr);

/* ---- path.c: ports, MADs ---- */
int paths_init(const struct config *config, char *why, size_t why_len);
void paths_fini(void);
void paths_poll(void);
uint64_t paths_deadline(void);
bool paths_pending(void);
void path_frame(uint16_t port, uint8_t *frame, uint32_t len, const struct wire_packet *packet);
struct port *path_own(const struct wire_addr *addr); /* the port of this data plane with that address */
/* Frames from `port` to `dst` go by way of `hop`. */
bool path_goes_by(const struct port *port, const struct wire_addr *dst, const struct wire_addr *hop);
struct port *path_port_by_name(const char *name);
void path_send_mad(struct port *port, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN]);
void addr_to_wire(uint16_t family, const uint8_t bytes[16], struct wire_addr *out);
uint16_t addr_from_wire(const struct wire_addr *addr, uint8_t bytes[16]);
const char *addr_text(const struct wire_addr *addr); /* static buffer */

/* ---- rsm.c: exporter ---- */
int rsm_publish(struct client *client, const struct one_rsm_publish *args);
int rsm_republish(struct client *client, const struct one_rsm_publish *args);
int rsm_unpublish(struct client *client, const struct one_rsm_publish *args);
int rsm_topology(struct client *client, const struct one_rsm_topology *args);
void rsm_find_peers(void);                      /* ask for the MACs of all that are configured */
void segment_withdraw(struct segment *segment); /* nobody finds it, and all imports end */
void segment_destroy(struct segment *segment);
struct segment *segment_find(uint32_t id);
void rsm_request(struct segment *segment, struct conn *conn); /* CM_REQUEST */

/* ---- import.c ---- */
int rsm_connect(struct client *client, const struct one_rsm_connect *args);
int rsm_disconnect(struct client *client, uint32_t id);
/* CM_REPLY of an import: false when it is not one that makes sense. */
bool import_reply(struct conn *conn);
enum rsm_error import_error(enum one_conn_event event);
enum rsm_error import_rejected(uint16_t reason, const uint8_t *data);

/* ---- signal.c ---- */
int rsm_signal(struct client *client, const struct one_rsm_signal *args);

/* ---- share.c: segments mapped by importers of this host ---- */
int rsm_map(struct client *client, const struct one_rsm_map *args);
/* The importer behind this export, if it is of this host, sees from now on that the segment is gone. */
void share_revoke(const struct qp *export);

/* ---- alive.c: keep-alive between data planes ---- */
int host_watch(struct conn *conn, uint64_t incarnation);
void host_unwatch(struct conn *conn);
bool host_mad(struct port *port, const struct cm_path *reply_path, const uint8_t *mad); /* true: it was one */
void hosts_poll(void);
uint64_t hosts_deadline(void);

/* ---- telemetry.c ---- */
int telemetry_init(void);
void telemetry_fini(void);

#endif

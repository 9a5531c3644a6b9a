/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The polling cores as the control thread sees them.
 *
 * Every object of the data path (client, completion ring, queue pair) is made
 * and freed by the control thread and, between ENGINE_*_ADD and the
 * acknowledgement of ENGINE_*_REMOVE, owned by exactly one core.  All objects
 * of one client are on one core, so each completion ring has one producer.
 *
 * Control thread -> core: commands, in order, each acknowledged.
 * Core -> control thread: acknowledgements and events, in order.  After the
 * acknowledgement of a REMOVE nothing more is heard of that object.
 */
#ifndef DATAPLANE_ENGINE_H
#define DATAPLANE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/arena.h"
#include "config/config.h"
#include "dataplane/mem/guard.h"
#include "dataplane/mem/mem.h"
#include "dataplane/rc/rc.h"

struct engine_client; /* an attachment: arena, doorbells */
struct engine_cq;
struct engine_qp;
struct engine_srq;

struct engine_client_config {
	void *owner;
	uint8_t *arena; /* mapped, ONE_ARENA_SIZE; its struct one_arena is filled in, and no application has
			 * it yet: offsets are read from there once */
	int wake_fd;    /* eventfd the application writes when engine_asleep is set */
};

struct engine_cq_config {
	void *owner;
	uint32_t id;     /* the application's: object of ONE_CQE_ASYNC */
	uint64_t offset; /* of a struct one_cq_shm and its entries, zeroed */
	uint32_t log2;   /* >= 1; one entry of 2^log2 is kept for ONE_CQE_SWITCHED, and the library tells of
			  * entries taken by quarters of the ring: 3/4 of it less one always fit */
	struct engine_cq
		*async_cq; /* where ONE_ASYNC_CQ_OVERFLOW goes; NULL: nowhere (the async ring itself) */
};

struct engine_srq_config {
	void *owner;
	uint32_t id;      /* the application's: object of ONE_ASYNC_SRQ_LIMIT */
	uint64_t shm, rq; /* offsets in the arena */
	uint32_t log2;
	struct engine_cq *async_cq; /* NULL: nobody is told */
};

struct engine_qp_config {
	void *owner;
	uint32_t id; /* the application's */
	uint32_t qpn;
	uint32_t doorbell;
	uint32_t pz;          /* data-plane-wide number; 0: none yet */
	uint64_t shm, sq, rq; /* offsets in the arena; 0: has none (the exporter's side of an RSM import) */
	uint32_t sq_log2, rq_log2;
	uint32_t max_send_wr, max_recv_wr;             /* what an honest library never exceeds */
	struct engine_cq *send_cq, *recv_cq, *conn_cq; /* NULL: not reported */
	struct engine_cq *async_cq;
	bool recv_solicited;
	bool notify_end; /* ONE_ASYNC_QP_ERROR whenever its connection ends */
	bool signals;    /* RSM: it has no receive ring; what comes is counted in recv_cq */
	uint16_t port;
	struct engine_srq *srq; /* where receives come from; NULL: from rq */
};

/* A negotiated connection, for ENGINE_QP_CONNECT. */
struct engine_connection {
	struct rc_attr rc;
	enum rc_state state; /* RC_RTR (passive, before RTU) or RC_RTS */
	bool by_numbers; /* without CM: it stays in RC_RTR until ENGINE_QP_RTS, which brings the requester's
			    part */
	bool local;      /* the peer queue pair is in this data plane and on the same core: direct copies */
};

enum engine_command_type {
	ENGINE_CLIENT_ADD = 1,
	ENGINE_CLIENT_REMOVE, /* after all its queue pairs and rings */
	ENGINE_CQ_ADD,
	ENGINE_CQ_RESIZE, /* cq_config: offset, log2; ends the old ring with ONE_CQE_SWITCHED */
	ENGINE_CQ_REMOVE,
	ENGINE_QP_ADD,
	ENGINE_QP_MODIFY,  /* qp_config: pz, completion rings, recv_solicited, notify_end; only before
			    * connecting
			    */
	ENGINE_QP_CONNECT, /* connection; no event */
	ENGINE_QP_RTS,     /* RC_RTR -> RC_RTS (no change in RC_RTS); state = ONE_QP_CONNECTED; posts `event`
			    * if its type is nonzero and ENGINE_EVENT_ESTABLISHED has not posted it before.
			    * Connected by numbers: takes send_psn, rd_atomic_out, retries and timeout of
			    * `connection` */
	ENGINE_QP_STATE,   /* stores one_qp_shm.state = `state` (e.g. CONNECTING, CLOSING) */
	ENGINE_QP_DRAIN,   /* graceful: ENGINE_EVENT_DRAINED when all requests are done */
	ENGINE_QP_FLUSH,   /* stop; flush all work; state = ONE_QP_ERROR; then post `event` on conn_cq */
	ENGINE_QP_RESET,   /* back to ONE_QP_IDLE: rings emptied without completions; receives posted in
			    * IDLE stay */
	ENGINE_QP_REMOVE,
	ENGINE_QP_BIND_DONE, /* answers ENGINE_EVENT_BIND: ok */
	ENGINE_QP_PATH,      /* new path (the peer's MAC changed) */
	ENGINE_CQ_POST,      /* put `event` on cq */
	ENGINE_QP_SIGNAL,    /* without a send ring: signal the peer, event.imm = one_signal() */
	ENGINE_SRQ_ADD,      /* before the queue pairs that use it */
	ENGINE_SRQ_LIMIT,    /* `limit`: ONE_ASYNC_SRQ_LIMIT, once, when fewer receives are left; 0: never */
	ENGINE_SRQ_REMOVE,   /* after the queue pairs that use it */
	ENGINE_CHANNEL_FD    /* `channel` wakes by its socket, or no longer (-1) */
};

struct engine_command {
	enum engine_command_type type;
	int status; /* set by the core before the acknowledgement: 0 or -errno */
	void (*done)(struct engine_command *
			     command); /* control thread, at the acknowledgement; may free it; NULL: free() */
	void *user;
	struct engine_client *client;
	struct engine_cq *cq;
	struct engine_qp *qp;
	struct engine_srq *srq;
	union {
		struct engine_cq_config cq_config;
		struct engine_qp_config qp_config;
		struct engine_connection connection;
		struct wire_path path;
		enum one_qp_state state;
		bool ok;
		uint32_t limit;
		struct {
			uint32_t number;
			int fd; /* AF_UNIX, SOCK_SEQPACKET: the far end is the application's */
		} channel;
	};
	struct one_cqe event;     /* type 0: none; phase is the ring's business */
	uint8_t status_if_broken; /* QP_FLUSH: of `event` if the queue pair has broken by itself before;
				   * 0: the same */
	bool quiet; /* nobody waits for the acknowledgement: it does not wake the control thread */
	struct engine_command *next; /* the engine's */
};

enum engine_event_type {
	ENGINE_EVENT_FAILED = 1,  /* the queue pair broke by itself and is flushed; error = enum rc_error.
				   * Control answers with ENGINE_CQ_POST of BROKEN and the CM's disconnect. */
	ENGINE_EVENT_ESTABLISHED, /* first packet in RC_RTR: the queue pair went to RC_RTS by itself.  So that
				   * no receive completes before the application knows of its connection, the
				   * core has stored ONE_QP_CONNECTED and posted ONE_CONN_ESTABLISHED to
				   * conn_cq. */
	ENGINE_EVENT_DRAINED,
	ENGINE_EVENT_BIND, /* work in engine_qp_bind_work(qp) */
	ENGINE_EVENT_FAULT /* client: enum one_fault; it is served no more */
};

struct engine_event {
	enum engine_event_type type;
	uint32_t value;
	void *owner; /* of the queue pair, or of the client for FAULT */
};

/* Of one core, a millisecond old at most.  Bytes of memory without mapping are counted per client (reach.h).
 */
/* What a loop of a core does, in its order.  The cycles of each are counted on demand. */
enum engine_stage {
	ENGINE_STAGE_COMMANDS,  /* from the control thread */
	ENGINE_STAGE_DRIVER_RX, /* rte_eth_rx_burst */
	ENGINE_STAGE_INPUT,     /* parse, find the queue pair, the transport's input, its copy to memory */
	ENGINE_STAGE_INBOUND,   /* the same for frames that other cores received */
	ENGINE_STAGE_DOORBELLS, /* the look at what was rung */
	ENGINE_STAGE_WORK,      /* requests taken, checked, started; the whole of local transfers */
	ENGINE_STAGE_OUTPUT,    /* the transport's output that had to wait, and acknowledgements */
	ENGINE_STAGE_TIMERS,
	ENGINE_STAGE_PUBLISH, /* completions told */
	ENGINE_STAGE_TX,      /* rte_eth_tx_burst */
	ENGINE_STAGE_OTHER,   /* counters, waking others, what lies between two busy loops */
	ENGINE_STAGE_IDLE,    /* loops that found nothing to do, and what followed them */
	ENGINE_STAGE_MAX
};

struct engine_stats {
	uint64_t loops, busy_loops, busy_cycles, idle_cycles, sleeps;
	uint64_t gaps, gaps_ns; /* times off the processor that the transport does not count */
	uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes;
	uint64_t rx_chained; /* came in several buffers, and were made one */
	uint64_t work, completions, wakes, local_ops, local_bytes, handed_over;
	/* frames dropped before a queue pair saw them, by reason */
	uint64_t drop[WIRE_DROP_MAX];
	uint64_t drop_no_qp;    /* no such queue pair, or not connected by the wire */
	uint64_t drop_no_mbuf;  /* no buffer for a frame to send; the queue pair tries again */
	uint64_t drop_inbound;  /* the ring of the core that owns the queue pair was full */
	uint64_t drop_control;  /* the control thread's ring was full */
	uint64_t drop_segments; /* longer than a receive buffer */
	uint64_t drop_tx_ring;  /* the ring of the core that owns the port's queue was full */
	uint64_t backpressure;  /* a frame had to wait for the port */
	uint64_t cq_overflow;   /* completions lost, ring full */
	uint64_t rc[32];        /* enum rc_counter */
	/* while engine_time_stages() is on */
	uint64_t stage_loops; /* busy ones */
	uint64_t stage_cycles[ENGINE_STAGE_MAX];
};

struct engine_port_info {
	char name[ONE_PORT_NAME];
	uint8_t mac[6];
	uint16_t mtu;      /* Ethernet payload */
	uint16_t path_mtu; /* 256..4096 */
	struct wire_addr addr;
	bool link_up;
	uint32_t mbps; /* 0: unknown */
};

/* ---- control thread ---- */

/* After rte_eal_init: ports, cores, rings, tables.  `config` must live until engine_fini().  One sentence in
 * `why` on failure. */
int engine_init(const struct config *config, char *why, size_t why_len);
int engine_start(void);       /* launches the lcores */
void engine_leave_rseq(void); /* the calling thread: its turns on a processor that it shares take less time */
void engine_stop(void);
void engine_fini(void);

/* Bring links back that need help; call when the deadline has passed (CLOCK_MONOTONIC ns). */
uint64_t engine_links_deadline(void);
void engine_links_poll(uint64_t now);

uint32_t engine_num_cores(void);
uint32_t engine_num_ports(void);
const struct engine_port_info *engine_port(uint32_t port);
struct mem_table *engine_mem_table(void);
void engine_stats(uint32_t core, struct engine_stats *out);
/* Count cycles for each stage from now on, or no longer. */
void engine_time_stages(bool on);

/* The core with the least work, for a new client. */
struct engine_client *engine_client_new(const struct engine_client_config *config);
/* Memory without mapping is moved by its copy thread from now on (reach.h), through struct one_copies at
 * `offset`; before any key leads there.  Freed with the client.  NULL: no memory. */
struct reach *engine_client_reach(struct engine_client *client, uint64_t offset);
/* Before the first ENGINE_CHANNEL_FD.  false: no memory. */
bool engine_client_channels(struct engine_client *client);
void engine_client_free(struct engine_client *client); /* frees are deferred until no core can look */
uint32_t engine_client_core(const struct engine_client *client);
uint32_t engine_client_lcore(const struct engine_client *client); /* DPDK's number of it */
struct engine_cq *engine_cq_new(struct engine_client *client, const struct engine_cq_config *config);
void engine_cq_free(struct engine_cq *cq);
struct engine_qp *engine_qp_new(struct engine_client *client, const struct engine_qp_config *config);
void engine_qp_free(struct engine_qp *qp);
struct engine_srq *engine_srq_new(struct engine_client *client, const struct engine_srq_config *config);
void engine_srq_free(struct engine_srq *srq);
uint32_t engine_qp_core(const struct engine_qp *qp);
/* A mark that is another one when a packet of the peer's has been taken since. */
uint32_t engine_qp_heard(const struct engine_qp *qp);
const struct work *engine_qp_bind_work(const struct engine_qp *qp);
struct engine_qp *engine_qp_find(uint32_t qpn); /* published ones only */
/* A random 24-bit number that no live queue pair has (and none had for a while); 0: full. */
#define ENGINE_QPNS_MAX (1u << 18) /* in use or at rest */
uint32_t engine_qpn_new(void);

/* Queue a command for the core of its object; takes ownership of the memory (malloc). */
int engine_command(struct engine_command *command);

/*
 * Wakes epoll when events, acknowledgements or slow frames are there: to be watched for edges, and never
 * read.  It is written only while the control thread says that it sleeps; engine_sleep_begin() is false
 * when something is there already.
 */
int engine_event_fd(void);
bool engine_sleep_begin(void);
void engine_sleep_end(void);
/* Handle what is there: runs done() of acknowledged commands, `on_event`, `on_frame`.
 * on_frame: ARP, ND, ICMP and QP1 frames; `packet` is set for RoCE frames only. */
struct engine_handlers {
	void (*on_event)(const struct engine_event *event);
	void (*on_frame)(uint16_t port, uint8_t *frame, uint32_t len, const struct wire_packet *packet);
};
uint32_t engine_poll(const struct engine_handlers *handlers);
/* The class of management datagrams that come to the control thread before all others, however many those
 * are (control/rsm/alive.c). */
#define ENGINE_CLASS_KEEP_ALIVE 0x4f
/* Send a frame made by the control thread; copied. */
int engine_send_frame(uint16_t port, const uint8_t *frame, uint32_t len);

/*
 * Grace periods: engine_grace_start() returns a token; once engine_grace_over()
 * is true every core has passed a quiescent state since.
 */
uint64_t engine_grace_start(void);
bool engine_grace_over(uint64_t token);

/*
 * A memory window may vanish under the control thread: SEND with invalidate from
 * the peer makes the core that owns its queue pairs empty the window's slot of
 * the table by itself (mem_invalidate), since that must happen before the
 * receive completes.  The region struct stays the control thread's to free, the
 * slot stays the window's, and mem_lookup() of the key tells whether it is bound.
 */

#endif

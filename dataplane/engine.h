/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The polling cores as the control thread sees them.
 *
 * Every object of the data path (client, completion ring, queue pair) is made
 * and freed by the control thread and, between ENGINE_*_ADD and the
 * acknowledgement of ENGINE_*_REMOVE, owned by exactly one core.  A client has a
 * lane on each core that it uses, and each completion ring has one producer, the
 * core of its lane (doc/cores.md).
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
#include "dataplane/compat/latency.h"
#include "dataplane/mem/guard.h"
#include "dataplane/mem/mem.h"
#include "dataplane/rc/rc.h"

struct engine_ah;     /* an address handle: where datagrams go */
struct engine_client; /* an attachment: arena, doorbells */
struct engine_user;   /* whose attachments share what is a user's */
struct engine_cq;
struct engine_qp;
struct engine_srq;

/* What a user may have of the cores. */
struct engine_share {
	uint32_t weight;    /* of a core's time among the users that have work, >= 1 */
	uint64_t max_ops;   /* work requests, */
	uint64_t max_bytes; /* and bytes of frames sent, of copies within a core, and read, a second; 0: no
			       ceiling */
};

struct engine_client_config {
	void *owner;
	struct engine_user *user; /* is freed later */
	uint8_t *arena; /* mapped, ONE_ARENA_SIZE; its struct one_arena is filled in, and no application has
			 * it yet: offsets are read from there once */
	int wake_fd;    /* eventfd the application writes when engine_asleep is set */
};

struct engine_cq_config {
	uint32_t id;     /* the application's: object of ONE_CQE_ASYNC */
	uint64_t bundle; /* offset of a struct one_cq_bundle, zeroed at first */
	uint64_t offset; /* of a struct one_cq_shm and its entries, zeroed */
	uint32_t log2;   /* >= 1; one entry of 2^log2 is kept for ONE_CQE_SWITCHED, and the library tells of
			  * entries taken by quarters of the ring: 3/4 of it less one always fit */
	struct engine_cq
		*async_cq; /* where ONE_ASYNC_CQ_OVERFLOW goes; NULL: nowhere (the async ring itself) */
};

struct engine_srq_config {
	uint32_t id;      /* the application's: object of ONE_ASYNC_SRQ_LIMIT */
	uint64_t shm, rq; /* offsets in the arena */
	uint32_t log2;
	struct engine_cq *async_cq; /* NULL: the limit is not reported */
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
	bool ud;                /* datagrams; else a connection */
};

/* Of a queue pair for datagrams. */
struct engine_datagram {
	enum rc_state state; /* RC_RTR: it receives; RC_RTS: it sends as well */
	uint32_t qkey;
	uint32_t send_psn; /* of its first datagram: when it goes to RC_RTS */
};

struct engine_ah_config {
	uint32_t id; /* the application's; its low half, below ONE_AHS_MAX, is the place in the table */
	uint32_t pz;
	uint16_t port;
	struct wire_path path;
};

/* A negotiated connection, for ENGINE_QP_CONNECT. */
struct engine_connection {
	struct rc_attr rc;
	enum rc_state state; /* RC_RTR (passive, before RTU) or RC_RTS */
	bool by_numbers;   /* without CM: it stays in RC_RTR until ENGINE_QP_RTS, which brings the requester's
			      part */
	bool local;        /* the peer queue pair is in this data plane and on the same core: direct copies.
			      With by_numbers: only if its core finds it there */
	uint8_t peer_core; /* of its data plane, as far as is known: which ring of a memif leads there */
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
	ENGINE_QP_SET,   /* `settings`, in RC_RTR and RC_RTS; ENGINE_QP_DRAIN goes on with what was stopped */
	ENGINE_QP_STATE, /* stores one_qp_shm.state = `state` (e.g. CONNECTING, CLOSING), unless it is broken
			  */
	ENGINE_QP_DRAIN, /* graceful: ENGINE_EVENT_DRAINED when all requests are done */
	ENGINE_QP_FLUSH, /* stop; flush all work; state = ONE_QP_ERROR; then post `event` on conn_cq */
	ENGINE_QP_RESET, /* back to ONE_QP_IDLE: rings emptied without completions; receives posted in
			  * IDLE stay */
	ENGINE_QP_REMOVE,
	ENGINE_QP_BIND_DONE, /* answers ENGINE_EVENT_BIND: ok; `settle`: the window reached memory that its
			      * application's thread copies */
	ENGINE_QP_PATH,      /* new path (the peer's MAC changed) */
	ENGINE_CQ_POST,      /* put `event` on cq */
	ENGINE_QP_SIGNAL,    /* without a send ring: signal the peer, event.imm = one_signal() */
	ENGINE_SRQ_ADD,      /* before the queue pairs that use it */
	ENGINE_SRQ_LIMIT,    /* `limit`: ONE_ASYNC_SRQ_LIMIT, once, when fewer receives are left; 0: never */
	ENGINE_SRQ_SWAP,     /* `srq` and `other_srq` exchange their rings; their indices stay */
	ENGINE_SRQ_REMOVE,   /* after the queue pairs that use it */
	ENGINE_QP_DATAGRAM,  /* `datagram`: to RC_RTR or RC_RTS, or a new Q_Key there; and the application's
			      * state: CONNECTING, CONNECTED */
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
		struct engine_datagram datagram;
		struct one_qp_settings settings;
		struct wire_path path;
		enum one_qp_state state;
		struct {
			bool ok, settle;
		};
		uint32_t limit;
		struct engine_srq *other_srq;
		struct {
			uint32_t id;
			int fd; /* AF_UNIX, SOCK_SEQPACKET: the far end is the application's */
		} channel;
	};
	struct one_cqe event;        /* type 0: none; phase is the ring's business */
	uint8_t status_if_broken;    /* QP_FLUSH: of `event` if the queue pair has broken by itself before;
				      * 0: the same */
	uint32_t refusal;            /* QP_FLUSH: how the peer has refused a request, which its NAK may not
				      * have told yet; 0: it has not */
	bool quiet;                  /* the acknowledgement does not wake the control thread */
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
	ENGINE_EVENT_BIND,  /* work in engine_qp_bind_work(qp) */
	ENGINE_EVENT_FAULT, /* client: enum one_fault; it is served no more */
	ENGINE_EVENT_SILENT /* advice, once a second at most: several retransmissions were not answered */
};

struct engine_event {
	enum engine_event_type type;
	uint32_t value;
	void *owner; /* of the queue pair, or of the client for FAULT */
};

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
	ENGINE_STAGE_PUBLISH, /* completions published, sleepers woken */
	ENGINE_STAGE_TX,      /* rte_eth_tx_burst */
	ENGINE_STAGE_OTHER,   /* counters, waking others, what lies between two busy loops */
	ENGINE_STAGE_IDLE,    /* loops that found nothing to do, and what followed them */
	ENGINE_STAGE_MAX
};

/* Why a queue pair for datagrams took one not. */
enum engine_ud_drop {
	ENGINE_UD_OPCODE,     /* not of this transport */
	ENGINE_UD_ADDRESS,    /* not to the address of its port, or by a port from an address of ours */
	ENGINE_UD_QKEY,       /* another Q_Key */
	ENGINE_UD_NO_RECEIVE, /* no receive was posted */
	ENGINE_UD_LENGTH,     /* longer than the path MTU, or than the receive */
	ENGINE_UD_BUSY,       /* memory without mapping takes none now, or has not taken those before */
	ENGINE_UD_DROP_MAX
};

/* Why a frame that came or was to leave as ESP, or should have, is not there. */
enum engine_esp_drop {
	ENGINE_ESP_OK,
	ENGINE_ESP_PLAIN,   /* plain, from a peer that is to encrypt */
	ENGINE_ESP_LENGTH,  /* no frame of ESP's, or longer than the MTU with it */
	ENGINE_ESP_SPI,     /* of no security association */
	ENGINE_ESP_ADDRESS, /* not between the two that have the key */
	ENGINE_ESP_REPLAY,  /* below the window, or seen before */
	ENGINE_ESP_ICV,     /* altered, or another key */
	ENGINE_ESP_LIMIT,   /* the key is used up: hard limit, or no sequence number */
	ENGINE_ESP_NO_SA,   /* to be encrypted, and there is nothing to encrypt it with */
	ENGINE_ESP_DROP_MAX
};

/* What work requests are told apart by where their time is counted. */
enum engine_operation {
	ENGINE_OPERATION_SEND,
	ENGINE_OPERATION_WRITE,
	ENGINE_OPERATION_READ,
	ENGINE_OPERATION_ATOMIC,
	ENGINE_OPERATION_DATAGRAM,
	ENGINE_OPERATIONS
};

/* Of so many work requests of a core the time of one is taken: a prime, so that it keeps step with no
 * program. */
#define ENGINE_SAMPLE 61u

/* Of one core.  Bytes of memory without mapping are counted per client (reach.h). */
struct engine_stats {
	uint64_t loops, busy_loops, busy_cycles, idle_cycles, sleeps;
	uint64_t gaps, gaps_ns; /* times off the processor that the transport does not count */
	uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes;
	uint64_t rx_chained; /* came in several buffers, and were made one */
	uint64_t work, completions, wakes, local_ops, local_bytes, handed_over;
	uint64_t tx_handed_over; /* frames to a port that another core has the queue of */
	/* frames dropped before a queue pair saw them, by reason */
	uint64_t drop[WIRE_DROP_MAX];
	uint64_t drop_no_qp;    /* no such queue pair, or not connected by the wire */
	uint64_t drop_no_mbuf;  /* no buffer for a frame to send; the queue pair tries again */
	uint64_t drop_inbound;  /* the ring of the core that owns the queue pair was full */
	uint64_t drop_control;  /* the control thread's ring was full */
	uint64_t drop_segments; /* longer than a receive buffer */
	uint64_t drop_tx_ring;  /* the ring of the core that owns the port's queue was full */
	uint64_t backpressure;  /* a frame had to wait for the port */
	uint64_t held;          /* a user had no turns until a time, since it was above a ceiling */
	uint64_t cq_overflow;   /* completions lost, ring full */
	uint64_t ud_sent, ud_received;
	uint64_t ud_drop[ENGINE_UD_DROP_MAX];
	uint64_t esp_received, esp_sent;
	uint64_t esp_drop[ENGINE_ESP_DROP_MAX];
	uint64_t rc[32]; /* enum rc_counter */
	/* while engine_time_stages() is on */
	uint64_t stage_loops; /* busy ones */
	uint64_t stage_cycles[ENGINE_STAGE_MAX];
	/* from the ring to the completion; of one of ENGINE_SAMPLE requests, if it succeeds */
	struct latency latency[ENGINE_OPERATIONS];
};

/* Of a port, as its driver counts. */
struct engine_port_stats {
	uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes;
	uint64_t rx_missed, rx_errors, tx_errors, rx_no_buffer;
};

/* What Linux leaves of an MTU for the payload of a packet (IPv6, UDP, BTH, the largest extension headers,
 * ICRC): both ends come to the same path MTU. */
#define ENGINE_PATH_OVERHEAD 96u
/* Returns the longest headers in front of a payload between two oneside ends (IPv6, UDP, BTH, RETH, ImmDt,
 * ICRC), with those of ESP while any peer is encrypted. */
uint32_t engine_link_overhead(void);

struct engine_port_info {
	char name[ONE_PORT_NAME];
	uint8_t mac[6];
	uint16_t mtu;      /* Ethernet payload */
	uint16_t path_mtu; /* 256..4096 */
	uint32_t num_addrs;
	struct wire_addr addr[CONFIG_ADDRS_MAX]; /* the first is the primary one */
	bool link_up;
	uint32_t mbps; /* 0: unknown */
	/* The kernel's interface behind it; "" and 0: there is none, or it is not there now. */
	char interface[16];
	uint16_t interface_mtu;
};

/*
 * Unless it says otherwise a function is called on the control thread alone (EAL's main lcore), takes no
 * lock, makes no system call and does not block.  Objects that it returns are the caller's to free, once.
 */

/* ---- start and end ---- */

/**
 * Make ports, cores, rings and tables; after rte_eal_init().  Blocks: devices are configured and started.
 * @param config  Lives until engine_fini() returns.
 * @param why     On failure: one sentence, what is wrong and what helps.
 * @return        0 or -errno; on failure nothing is left, and engine_fini() is not called.
 */
int engine_init(const struct config *config, char *why, size_t why_len);
/**
 * Launch the loop of each core on its lcore.
 * @return  0, or -EBUSY: an lcore runs something else, and no core is left running.
 */
int engine_start(void);
/** Leave restartable sequences.  Any thread, for itself: its turns on a shared processor take less time. */
void engine_leave_rseq(void);
/** Stop the cores.  Blocks until each has left its loop.  Without engine_start(): no effect. */
void engine_stop(void);
/** Close the ports and free everything; after engine_stop().  Blocks.  All objects have been freed before. */
void engine_fini(void);

/* ---- what there is ---- */

uint32_t engine_num_cores(void);
uint32_t engine_num_ports(void);
/** The lcore that a core runs on.  Any thread. */
uint32_t engine_core_lcore(uint32_t core);
/** Lanes of attachments on a core. */
uint32_t engine_core_lanes(uint32_t core);
/** @return  NULL: there is no such port.  Lives until engine_fini(); `link_up` is of this call. */
const struct engine_port_info *engine_port(uint32_t port);
/** @return  The table of keys, which lives until engine_fini(). */
struct mem_table *engine_mem_table(void);
/** Copy the counters of a core, a millisecond old at most while it runs.  Any thread. */
void engine_stats(uint32_t core, struct engine_stats *out);
/**
 * The time, in ns from some moment on, as the first core counts it, which sends the control thread's frames
 * and takes most answers: what others have of its processor is left out, but for 4 ms each time.
 */
uint64_t engine_clock(void);
/** Ask the driver of a port.  Any thread; may make system calls.
 * @return  False: no such port, or the driver does not count. */
bool engine_port_stats(uint32_t port, struct engine_port_stats *out);
/** Cycles a second of what engine_stats counts in cycles.  Any thread. */
uint64_t engine_hz(void);
/** Count the cycles of each stage from now on, or no longer.  Any thread. */
void engine_time_stages(bool on);

/**
 * @return  When engine_links_poll() is to be called; CLOCK_MONOTONIC, ns; UINT64_MAX: never.
 */
uint64_t engine_links_deadline(void);
/** Restart links that do not come back by themselves: memif, on DPDK's interrupt thread; af_packet whose
 * interface was deleted and made anew, on this thread. */
void engine_links_poll(uint64_t now);

/* ---- objects: made and freed here, a core's between the commands ADD and REMOVE ---- */

/** @return  NULL: no memory. */
struct engine_user *engine_user_new(const struct engine_share *share);
/** From now on: cores look at it at the beginning of each turn. */
void engine_user_set(struct engine_user *user, const struct engine_share *share);
/** @return  For how long (ns) it would have no turns, for what it has done; after its attachments. */
uint64_t engine_user_debt(const struct engine_user *user);
/** After its attachments; NULL is allowed. */
void engine_user_free(struct engine_user *user);
/**
 * Make an attachment, on the core that has the least.
 * @return  NULL: no memory, or the arena's header has offsets outside of the arena.
 */
struct engine_client *engine_client_new(const struct engine_client_config *config);
/**
 * Make a further lane of an attachment, whose first lane is `home`, on a core where it has none.
 * ENGINE_CLIENT_ADD and REMOVE are sent to it as to the first; it is freed with that.
 * @param doorbells  Offset of a struct one_doorbells, zeroed.
 * @return           NULL: no memory, no such core, or outside of the arena.
 */
struct engine_client *engine_lane_new(struct engine_client *home, uint32_t core, uint64_t doorbells);
/** @return  From the first lane on each other one once; NULL: there are no more. */
struct engine_client *engine_lane_next(const struct engine_client *lane);
uint32_t engine_lane_core(const struct engine_client *lane);
/** @return  Offset of its struct one_doorbells. */
uint64_t engine_lane_doorbells(const struct engine_client *lane);
/**
 * Free an attachment after REMOVE and all its objects.  As for the others below, the memory goes when no core
 * can look at it any more; NULL is allowed.
 */
void engine_client_free(struct engine_client *client);
/**
 * Move memory without mapping by the application's copy thread from now on, through the struct one_copies at
 * `offset`; before any key leads there.  Each lane has its own, the first lane at first.
 * @return  Freed with the client; NULL: no memory, or outside of the arena.  The same if it has one.
 */
struct reach *engine_client_reach(struct engine_client *client, uint64_t offset);
/** Make room for the sockets of channels, before the first ENGINE_CHANNEL_FD.  @return  False: no memory. */
bool engine_client_channels(struct engine_client *client);
uint32_t engine_client_lcore(const struct engine_client *client);
/** What its cores have taken off its rings, and put into its completion rings. */
void engine_client_counts(const struct engine_client *client, uint64_t *work, uint64_t *completions);
/** @return  NULL: no memory, or the ring lies outside of the arena.  So for shared receive queues. */
struct engine_cq *engine_cq_new(struct engine_client *client, const struct engine_cq_config *config);
void engine_cq_free(struct engine_cq *cq);
struct engine_srq *engine_srq_new(struct engine_client *client, const struct engine_srq_config *config);
void engine_srq_free(struct engine_srq *srq);
/** @return  NULL: no memory, a ring outside of the arena, or the number is in use. */
struct engine_qp *engine_qp_new(struct engine_client *client, const struct engine_qp_config *config);
void engine_qp_free(struct engine_qp *qp);
/** Before ENGINE_QP_ADD: move a queue pair from the first lane to another one, with that lane's rings
 * (`config`). */
void engine_qp_place(struct engine_qp *qp, struct engine_client *lane, const struct engine_qp_config *config);
uint32_t engine_qp_core(const struct engine_qp *qp);
/**
 * Draw a UDP source port by which the device's RSS leads frames from `peer` to `own`, an address of the port,
 * to the receive queue of `core`.
 * @param draw  Random bits.
 * @return      0: the port has one queue, or its hash is not known.
 */
uint16_t engine_steering_port(uint32_t port, uint32_t core, const struct wire_addr *peer,
			      const struct wire_addr *own, uint64_t (*draw)(void));
/**
 * Make an address handle, which the core of `client` finds by `config->id` from now on, instead of the one
 * that had that place before.  It needs no command: a core looks it up for each datagram.
 * @return  NULL: no memory, or no such place or port.
 */
struct engine_ah *engine_ah_new(struct engine_client *client, const struct engine_ah_config *config);
/** Out of the table, if it is still there; freed as the others. */
void engine_ah_free(struct engine_client *client, struct engine_ah *ah);
/** @return  A mark that differs once a packet of the peer's has been taken since. */
uint32_t engine_qp_heard(const struct engine_qp *qp);
/** @return  A new packet of the peer's has come in the last `ns`, from the MAC that its frames are sent to.
 */
bool engine_qp_heard_there(const struct engine_qp *qp, uint64_t ns);
/** @return  After ENGINE_EVENT_FAILED: how the peer's request was refused (rc_refusal()); 0: it was not. */
uint32_t engine_qp_refusal(const struct engine_qp *qp);
/** @return  The bind that ENGINE_EVENT_BIND told of; stays until ENGINE_QP_BIND_DONE is sent. */
const struct work *engine_qp_bind_work(const struct engine_qp *qp);

/** Queue pair numbers in use or at rest. */
#define ENGINE_QPNS_MAX (1u << 18)
/**
 * Draw a random 24-bit number that no queue pair has, nor had for ten seconds.  It is not reserved until
 * engine_qp_new().
 * @return  0: none was found, too many are in use.
 */
uint32_t engine_qpn_new(void);
/**
 * Find a queue pair by its number, between the core's ADD and REMOVE.  Any lcore; on a core what is found
 * lives until the core's next quiescent state.
 */
struct engine_qp *engine_qp_find(uint32_t qpn);
/** @return  `owner` of that queue pair's configuration, between engine_qp_new() and engine_qp_free(); NULL:
 * there is none. */
void *engine_qp_owner(uint32_t qpn);

/* ---- commands and events ---- */

/**
 * Queue a command for the core of its object.  Commands of one core are carried out in order.
 * @param command  From malloc; the engine's until done() is called, or freed by it if there is none.
 * @return         0, or -EINVAL: it has no object, and stays the caller's.
 */
int engine_command(struct engine_command *command);

struct engine_handlers {
	void (*on_event)(const struct engine_event *event);
	/* ARP, ND, ICMP and QP1 frames; `packet` is NULL for those that are not RoCE. */
	void (*on_frame)(uint16_t port, uint8_t *frame, uint32_t len, const struct wire_packet *packet);
};
/**
 * Take a bounded number of acknowledgements, events and frames: calls done() and the handlers, which may call
 * any function of this header but engine_poll(), engine_stop() and engine_fini().
 * @return  How many; 0: nothing is left.
 */
uint32_t engine_poll(const struct engine_handlers *handlers);
/**
 * @return  An eventfd that is written when engine_poll() has something to do, only between
 *          engine_sleep_begin() and engine_sleep_end().  To be watched for edges, and never read.
 */
int engine_event_fd(void);
/** @return  False: there is something to do, do not sleep; engine_sleep_end() is not called. */
bool engine_sleep_begin(void);
void engine_sleep_end(void);

/** @return  ARP and neighbour discovery frames that were lost since they came faster than they were taken. */
uint32_t engine_neigh_lost(void);

/** The class of management datagrams that are taken before all others (control/rsm/alive.c). */
#define ENGINE_CLASS_KEEP_ALIVE 0x4f
/**
 * Send a frame of the control thread; it is copied.  Wakes a core that sleeps, by a system call.
 * @return  0; -EINVAL: no such port, or no frame; -EMSGSIZE: longer than a packet buffer; -ENOBUFS: too many
 * wait.
 */
int engine_send_frame(uint16_t port, const uint8_t *frame, uint32_t len);

/* ---- encryption: dataplane/esp ---- */

struct esp_change;
/**
 * Make the security associations that `config`, which lives until the change is put in force or abandoned,
 * has and the one in force has not.  Any thread but cores; reads files, and waits for the disk.  One at a
 * time.
 * @param trial  It will be abandoned: nothing is saved.
 * @return       0; or -errno, a sentence in `why`, and nothing is changed.
 */
int engine_ipsec_prepare(const struct config *config, bool trial, struct esp_change **change, char *why,
			 size_t why_len);
/** Whether keys come or go by it, which files may have although their names are as before; NULL: none. */
bool engine_ipsec_renews(const struct esp_change *change);
/** Put in force, and free `change`.  Those that it has not are freed when no core uses them any more. */
void engine_ipsec_commit(struct esp_change *change);
/** As if it had not been prepared; NULL is allowed. */
void engine_ipsec_abandon(struct esp_change *change);
/** Security associations in force. */
uint32_t engine_ipsec_count(void);
/** The peer of one of them. */
void engine_ipsec_peer(uint32_t index, struct wire_addr *peer);

/* ---- grace periods ---- */

/**
 * Any thread.
 * @return  A token for engine_grace_over().
 */
uint64_t engine_grace_start(void);
/** @return  Every core has passed a quiescent state since the token was made. */
bool engine_grace_over(uint64_t token);

#endif

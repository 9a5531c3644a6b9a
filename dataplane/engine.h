/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The polling cores, for the control thread.
 *
 * Every object of the data path (client, completion ring, queue pair) is created and freed by the control
 * thread and, between ENGINE_*_ADD and the acknowledgement of ENGINE_*_REMOVE, owned by exactly one core. A
 * client has a lane on each core that it uses, and each completion ring has one producer, the core of its
 * lane (doc/cores.md).
 *
 * Control thread -> core: commands, in order, each acknowledged.
 *
 * Core -> control thread: acknowledgements and events, in order. After the acknowledgement of a REMOVE no
 * message about that object follows.
 */
#ifndef DATAPLANE_ENGINE_H
#define DATAPLANE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/arena.h"
#include "config/config.h"
#include "dataplane/base/latency.h"
#include "dataplane/mem/guard.h"
#include "dataplane/mem/mem.h"
#include "dataplane/rc/rc.h"

struct engine_ah;     /* an address handle: destination of datagrams */
struct engine_client; /* an attachment: arena, doorbells */
struct engine_user;   /* a user: its attachments share quotas and scheduling */
struct engine_cq;
struct engine_move; /* a queue pair on its way between two lanes */
struct engine_qp;
struct engine_srq;

/* A user's share of the cores. */
struct engine_share {
	uint32_t weight;    /* share of a core's time among the users that have work, >= 1 */
	uint64_t max_ops;   /* work requests per second; 0: no ceiling */
	uint64_t max_bytes; /* bytes per second of frames sent, copies within a core, and data read; 0: no
			       ceiling */
};

struct engine_client_config {
	void *owner;
	struct engine_user *user; /* freed later than the client */
	uint8_t *arena;           /* mapped, ONE_ARENA_SIZE */
	/* Offsets of struct one_doorbells, the ONE_CHANNELS struct one_channel, and struct one_keys. The
	 * application may have changed those in its arena. */
	uint64_t doorbells, channels, keys;
	int wake_fd;   /* eventfd that the application writes when engine_asleep is set */
	uint32_t lane; /* number of the first lane, from 1; 0: of the least busy core */
};

struct engine_cq_config {
	uint32_t id;             /* the application's id: object of ONE_CQE_ASYNC */
	uint64_t bundle;         /* offset of a struct one_cq_bundle, initially zeroed */
	uint32_t number;         /* of the ring in the bundle */
	struct engine_cq *first; /* ring 0 of the bundle, freed with this one; NULL: this is ring 0 */
	uint64_t offset;         /* offset of a struct one_cq_shm and its entries, zeroed */
	uint32_t log2; /* >= 1; an entry is reserved for ONE_CQE_SWITCHED, and the library publishes taken
			* entries by quarters of the ring: 3/4 of it less one always fit */
	bool resumes;  /* the ring has entries, and engine_cq_read() follows */
	struct engine_cq
		*async_cq; /* destination of ONE_ASYNC_CQ_OVERFLOW; NULL: none (the async ring itself) */
};

/* A request to bind a window, as the application posted it: unchecked. */
struct engine_bind {
	uint64_t addr, length; /* the range; length 0 unbinds */
	uint32_t lkey;         /* of the region */
	uint32_t key;          /* the window's new key */
	uint32_t flags;        /* ONE_ACCESS_REMOTE_*, ONE_BIND_* */
};

struct engine_srq_config {
	uint32_t id;      /* the application's id: object of ONE_ASYNC_SRQ_LIMIT */
	uint64_t shm, rq; /* offsets in the arena: struct one_srq_shm, and the ring */
	uint32_t log2;
	uint32_t lanes;             /* of the struct one_srq_shm, at most ONE_LANES_MAX */
	struct engine_cq *async_cq; /* NULL: the limit is not reported */
};

struct engine_qp_config {
	void *owner;
	uint32_t id; /* the application's id */
	uint32_t qpn;
	uint32_t doorbell;
	uint32_t pz;          /* data-plane-wide number; 0: none yet */
	uint64_t shm, sq, rq; /* offsets in the arena; 0: none (the exporter's side of an RSM import) */
	uint32_t sq_log2, rq_log2;
	uint32_t max_send_wr, max_recv_wr;             /* never exceeded by a correct library */
	struct engine_cq *send_cq, *recv_cq, *conn_cq; /* NULL: not reported */
	struct engine_cq *async_cq;
	bool recv_solicited;
	bool notify_end; /* ONE_ASYNC_QP_ERROR whenever the connection ends */
	bool signals;    /* RSM: without a receive ring; incoming signals are counted in recv_cq */
	uint16_t port;
	struct engine_srq *srq; /* source of receives; NULL: rq */
	bool ud;                /* a datagram queue pair; else connected */
};

/* State of a datagram queue pair. */
struct engine_datagram {
	enum rc_state state; /* RC_RTR: receives; RC_RTS: also sends */
	uint32_t qkey;
	uint32_t send_psn; /* of the first datagram, for the transition to RC_RTS */
};

struct engine_ah_config {
	uint32_t id; /* the application's id; its low half, below ONE_AHS_MAX, is the index in the table */
	uint32_t pz;
	uint16_t port;
	struct wire_path path;
};

/* A negotiated connection, for ENGINE_QP_CONNECT. */
struct engine_connection {
	struct rc_attr rc;
	enum rc_state state; /* RC_RTR (passive, before RTU) or RC_RTS */
	bool out_of_band;    /* without the CM: stays in RC_RTR until ENGINE_QP_RTS, which brings the
			       requester's part */
	bool local; /* the peer queue pair is in this data plane, and their lanes have the same number: direct
		       copies. With out_of_band: only if the core finds the peer there */
	uint8_t peer_core; /* core of the peer's data plane, as far as known: selects the ring of a memif */
};

enum engine_command_type {
	ENGINE_CLIENT_ADD = 1,
	ENGINE_CLIENT_REMOVE, /* after all its queue pairs and rings */
	ENGINE_CQ_ADD,
	ENGINE_CQ_RESIZE, /* cq_config: offset, log2; ends the old ring with ONE_CQE_SWITCHED */
	ENGINE_CQ_REMOVE,
	ENGINE_QP_ADD,
	ENGINE_QP_MODIFY,  /* qp_config: pz, completion rings, recv_solicited, notify_end; only before
			      connecting */
	ENGINE_QP_CONNECT, /* connection; no event */
	ENGINE_QP_RTS,   /* RC_RTR -> RC_RTS (no change in RC_RTS); state = ONE_QP_CONNECTED; posts `event` if
			    its type is nonzero and ENGINE_EVENT_ESTABLISHED has not posted it before.
			    Out-of-band connection: takes send_psn, rd_atomic_out, retries and timeout of
			    `connection` */
	ENGINE_QP_SET,   /* `settings`, in RC_RTR and RC_RTS; ENGINE_QP_DRAIN resumes a stopped queue */
	ENGINE_QP_STATE, /* stores one_qp_shm.state = `state` (e.g. CONNECTING, CLOSING), unless the queue
			    pair is broken */
	ENGINE_QP_DRAIN, /* graceful: ENGINE_EVENT_DRAINED when all requests are done */
	ENGINE_QP_FLUSH, /* stops; flushes all work; state = ONE_QP_ERROR; then posts `event` on conn_cq */
	ENGINE_QP_RESET, /* back to ONE_QP_IDLE: empties the rings without completions; receives posted in
			    IDLE stay */
	ENGINE_QP_REMOVE,
	ENGINE_QP_FREEZE,    /* `move`: see engine_move_new(). -EAGAIN: try again later */
	ENGINE_QP_THAW,      /* `move`: on the other lane; -ENOBUFS: send it again, now to the old lane */
	ENGINE_QP_MOVED,     /* `move`: after THAW; to the old lane */
	ENGINE_QP_BIND_DONE, /* answers ENGINE_EVENT_BIND: ok; `copies`: the window covered memory that the
				application's copy thread copies */
	ENGINE_QP_PATH,      /* new path (the peer's MAC changed) */
	ENGINE_CQ_POST,      /* puts `event` on cq; with qp: its conn_cq, of the lane to which it moves */
	ENGINE_QP_SIGNAL,    /* without a send ring: signals the peer, event.imm = one_signal() */
	ENGINE_SRQ_ADD,      /* before the queue pairs that use it */
	ENGINE_SRQ_LIMIT,    /* `limit`: ONE_ASYNC_SRQ_LIMIT, once, when fewer receives are left; 0: never */
	ENGINE_SRQ_SWAP,     /* exchanges the rings of `srq` and `other_srq`; their indices stay. Each other
				core may use the old ring until it answers ENGINE_CLIENT_SYNC */
	ENGINE_SRQ_REMOVE,   /* after the queue pairs that use it */
	ENGINE_QP_DATAGRAM,  /* `datagram`: to RC_RTR or RC_RTS, or a new Q_Key there; and sets the
				application's state: CONNECTING, CONNECTED */
	ENGINE_CLIENT_SYNC,  /* no effect: the answer says that the core has left what it began before */
	ENGINE_CHANNEL_FD    /* makes `channel` wake by its socket, or no longer (-1) */
};

/* Place of a command's event among the reports of its bundle: see ONE_CQE_AFTER_REPORT. */
struct engine_report {
	uint32_t number;      /* 0: none */
	uint32_t ring, after; /* the report before, in another ring; `after` 0: none */
};

struct engine_command {
	enum engine_command_type type;
	int status; /* 0 or -errno, set by the core before the acknowledgement */
	void (*done)(struct engine_command *command); /* control thread, at the acknowledgement; may free the
							 command; NULL: free() */
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
		struct engine_move *move;
		struct {
			bool ok, copies;
		};
		uint32_t limit;
		struct engine_srq *other_srq;
		struct {
			uint32_t id;
			int fd; /* AF_UNIX, SOCK_SEQPACKET: the peer is the application's */
		} channel;
	};
	struct one_cqe event;        /* type 0: none; the ring sets phase */
	struct engine_report report; /* set by engine_command() */
	uint8_t status_if_broken;    /* QP_FLUSH: status of `event` if the queue pair has broken by itself
					before; 0: unchanged */
	uint32_t refusal; /* QP_FLUSH: the peer's refusal of a request, whose NAK may not have arrived yet; 0:
			     none */
	bool quiet;       /* the acknowledgement does not wake the control thread */
	struct engine_command *next; /* used only by the engine */
};

enum engine_event_type {
	ENGINE_EVENT_FAILED = 1,  /* the queue pair broke by itself and is flushed; value = enum rc_error.
				   * Control answers with ENGINE_CQ_POST of BROKEN and the CM's disconnect. */
	ENGINE_EVENT_ESTABLISHED, /* first packet in RC_RTR: the queue pair went to RC_RTS by itself. The core
				     has stored ONE_QP_CONNECTED and posted ONE_CONN_ESTABLISHED to conn_cq,
				     so that no receive completes before the application is notified of its
				     connection. */
	ENGINE_EVENT_DRAINED,
	ENGINE_EVENT_BIND,   /* the bind is in engine_qp_bind(qp) */
	ENGINE_EVENT_FAULT,  /* client: enum one_fault; served no more */
	ENGINE_EVENT_SILENT, /* advice, at most once a second: several retransmissions were not answered */
	ENGINE_EVENT_STRAYS /* advice: frames arrive at core `value`, and no flow rule leads them elsewhere */
};

struct engine_event {
	enum engine_event_type type;
	uint32_t value;
	void *owner; /* owner of the queue pair, or of the client for FAULT */
};

/* Stages of a core's loop, in order. Their cycles are counted on demand. */
enum engine_stage {
	ENGINE_STAGE_COMMANDS,  /* from the control thread */
	ENGINE_STAGE_DRIVER_RX, /* rte_eth_rx_burst */
	ENGINE_STAGE_INPUT,     /* parse, find the queue pair, the transport's input, the copy to memory */
	ENGINE_STAGE_INBOUND,   /* INPUT for frames that other cores received */
	ENGINE_STAGE_DOORBELLS, /* doorbell scan */
	ENGINE_STAGE_WORK,      /* requests taken, checked, started; local transfers entirely */
	ENGINE_STAGE_OUTPUT,    /* the transport's output that had to wait, and acknowledgements */
	ENGINE_STAGE_TIMERS,
	ENGINE_STAGE_PUBLISH, /* completions published, sleepers woken */
	ENGINE_STAGE_TX,      /* rte_eth_tx_burst */
	ENGINE_STAGE_OTHER,   /* counters, waking others, time between two busy loops */
	ENGINE_STAGE_IDLE,    /* loops that found nothing to do, and the time until the next loop */
	ENGINE_STAGE_MAX
};

/* Reasons why a UD queue pair dropped a datagram. */
enum engine_ud_drop {
	ENGINE_UD_OPCODE,     /* opcode of another transport */
	ENGINE_UD_ADDRESS,    /* not to the address of its port, or by a port from an own address */
	ENGINE_UD_QKEY,       /* wrong Q_Key */
	ENGINE_UD_NO_RECEIVE, /* no receive was posted */
	ENGINE_UD_LENGTH,     /* longer than the path MTU, or than the receive */
	ENGINE_UD_BUSY, /* memory without a mapping accepts no datagram now, or has not accepted earlier ones
			 */
	ENGINE_UD_DROP_MAX
};

/* Reasons for dropping a frame in ESP processing. */
enum engine_esp_drop {
	ENGINE_ESP_OK,
	ENGINE_ESP_PLAIN,   /* plain, from a peer that must encrypt */
	ENGINE_ESP_LENGTH,  /* not a valid ESP frame, or longer than the MTU with ESP */
	ENGINE_ESP_SPI,     /* no security association with this SPI */
	ENGINE_ESP_ADDRESS, /* not between the two addresses that share the key */
	ENGINE_ESP_REPLAY,  /* below the replay window, or seen before */
	ENGINE_ESP_ICV,     /* modified, or wrong key */
	ENGINE_ESP_LIMIT,   /* key exhausted: hard limit, or no sequence number left */
	ENGINE_ESP_NO_SA,   /* must be encrypted, but there is no security association */
	ENGINE_ESP_DROP_MAX
};

/* Classes of work requests whose latency is counted separately. */
enum engine_operation {
	ENGINE_OPERATION_SEND,
	ENGINE_OPERATION_WRITE,
	ENGINE_OPERATION_READ,
	ENGINE_OPERATION_ATOMIC,
	ENGINE_OPERATION_DATAGRAM,
	ENGINE_OPERATIONS
};

/* Latency sampling interval, in work requests of a core. Prime, to avoid aliasing with periodic workloads. */
#define ENGINE_SAMPLE 61u

/* Statistics of one core. Bytes of memory without a mapping are counted per client (bounce.h). */
struct engine_stats {
	uint64_t loops, busy_loops, busy_cycles, idle_cycles, sleeps;
	uint64_t gaps, gaps_ns; /* periods off the processor that the transport's clock excludes */
	uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes;
	uint64_t rx_chained; /* received in several buffers, and linearized */
	uint64_t work, completions, wakes, local_ops, local_bytes, handed_over;
	uint64_t moves;          /* queue pairs that came from another core */
	uint64_t tx_handed_over; /* frames to a port whose queue another core owns */
	/* frames dropped before they reached a queue pair, by reason */
	uint64_t drop[WIRE_DROP_MAX];
	uint64_t drop_no_qp;    /* no such queue pair, or not connected over the network */
	uint64_t drop_no_mbuf;  /* no buffer for a frame to send; the queue pair retries */
	uint64_t drop_inbound;  /* the ring of the core that owns the queue pair was full */
	uint64_t drop_control;  /* the control thread's ring was full */
	uint64_t drop_segments; /* longer than a receive buffer */
	uint64_t drop_tx_ring;  /* the ring of the core that owns the port's queue was full */
	uint64_t backpressure;  /* a frame had to wait for the port */
	uint64_t held;          /* a user over its ceiling got no turns for a time */
	uint64_t cq_overflow;   /* completions lost, ring full */
	uint64_t ud_sent, ud_received;
	uint64_t ud_drop[ENGINE_UD_DROP_MAX];
	uint64_t esp_received, esp_sent;
	uint64_t esp_drop[ENGINE_ESP_DROP_MAX];
	uint64_t rc[32]; /* enum rc_counter */
	/* counted while engine_time_stages() is on */
	uint64_t stage_loops; /* busy loops */
	uint64_t stage_cycles[ENGINE_STAGE_MAX];
	/* from the ring to the completion; of one request in ENGINE_SAMPLE, if it succeeds */
	struct latency latency[ENGINE_OPERATIONS];
};

/* Statistics of a port, as counted by its driver. */
struct engine_port_stats {
	uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes;
	uint64_t rx_missed, rx_errors, tx_errors, rx_no_buffer;
};

/* Bytes that Linux subtracts from an MTU to get the payload of a packet (IPv6, UDP, BTH, the largest
 * extension headers, ICRC), so that both sides come to the same path MTU. */
#define ENGINE_PATH_OVERHEAD 96u
/* Returns the length of the longest headers in front of a payload between two oneside peers (IPv6, UDP, BTH,
 * RETH, ImmDt, ICRC), including ESP while any peer is encrypted. */
uint32_t engine_link_overhead(void);

struct engine_port_info {
	char name[ONE_PORT_NAME];
	uint8_t mac[6];
	uint16_t mtu;      /* Ethernet payload */
	uint16_t path_mtu; /* 256..4096 */
	uint32_t num_addrs;
	struct wire_addr addr[CONFIG_ADDRS_MAX]; /* the first is the primary address */
	bool link_up;
	uint32_t mbps; /* 0: unknown */
	/* The kernel's interface behind the port; "" and 0: none at present. */
	char interface[16];
	uint16_t interface_mtu;
};

/* Unless stated otherwise a function is called only on the control thread (EAL's main lcore), takes no lock,
 * makes no system call and does not block. Returned objects are the caller's to free, once. */

/* ---- start and end ---- */

/**
 * Make ports, cores, rings and tables; after rte_eal_init(). Blocks: devices are configured and started.
 * @param config  Lives until engine_fini() returns.
 * @param why     On failure: one sentence, with the reason and the remedy.
 * @return        0 or -errno; on failure everything is freed, and engine_fini() must not be called.
 */
int engine_init(const struct config *config, char *why, size_t why_len);
/**
 * Launch the loop of each core on its lcore.
 * @return  0, or -EBUSY: an lcore is busy otherwise, and no core is left running.
 */
int engine_start(void);
/**
 * Unregister the calling thread, which may be any, from restartable sequences: switches on a shared processor
 * get cheaper.
 */
void engine_leave_rseq(void);
/** Stop the cores. Blocks until each has left its loop. No effect without engine_start(). */
void engine_stop(void);
/**
 * Close the ports and free everything; after engine_stop(). Blocks. All objects must have been freed before.
 */
void engine_fini(void);

/* ---- state ---- */

uint32_t engine_num_cores(void);
uint32_t engine_num_ports(void);
/** Return the lcore that a core runs on. Any thread. */
uint32_t engine_core_lcore(uint32_t core);
/** Return the number of attachments' lanes on a core. */
uint32_t engine_core_lanes(uint32_t core);
/** @return  NULL: no such port. Lives until engine_fini(); `link_up` is updated by each call. */
const struct engine_port_info *engine_port(uint32_t port);
/** @return  The table of keys, which lives until engine_fini(). */
struct mem_table *engine_mem_table(void);
/** Copy the counters of a core, at most a millisecond old while it runs. Any thread. */
void engine_stats(uint32_t core, struct engine_stats *out);
/**
 * Return the transport's time of the first core, in ns from an arbitrary origin. That core sends the control
 * thread's frames and receives most answers. Time during which other threads had its processor is excluded,
 * except for 4 ms each time.
 */
uint64_t engine_clock(void);
/**
 * Query the driver of a port. Any thread; may make system calls.
 * @return  False: no such port, or the driver does not count.
 */
bool engine_port_stats(uint32_t port, struct engine_port_stats *out);
/** Return the frequency, in Hz, of the cycles in engine_stats. Any thread. */
uint64_t engine_hz(void);
/** Start or stop counting the cycles of each stage. Any thread. */
void engine_time_stages(bool on);

/** @return  Time of the next engine_links_poll(); CLOCK_MONOTONIC, ns; UINT64_MAX: never. */
uint64_t engine_links_deadline(void);
/**
 * Restart links that do not recover by themselves: memif, on DPDK's interrupt thread; af_packet whose
 * interface was deleted and created again, on this thread.
 * @return  True: a memif has lost its peer since the last call; the link may be up again already.
 */
bool engine_links_poll(uint64_t now);
/** The link of a port has come up: all cores send again what it may have lost. Control thread only. */
void engine_port_repeat(uint32_t port);

/* ---- objects: created and freed here, owned by a core between the commands ADD and REMOVE ---- */

/** @return  NULL: no memory. */
struct engine_user *engine_user_new(const struct engine_share *share);
/** Change a user's share; cores load it at the beginning of each turn. */
void engine_user_set(struct engine_user *user, const struct engine_share *share);
/**
 * @return  Time (ns) for which the user would get no turns because of its past work; call after the last
 *          attachment is freed.
 */
uint64_t engine_user_debt(const struct engine_user *user);
/** Free a user after its attachments; NULL is allowed. */
void engine_user_free(struct engine_user *user);
/**
 * Make an attachment, on the core that has the fewest clients and queue pairs.
 * @return  NULL: no memory, or the arena's header has offsets outside of the arena.
 */
struct engine_client *engine_client_new(const struct engine_client_config *config);
/**
 * Make a further lane of an attachment, whose first lane is `home`. ENGINE_CLIENT_ADD and REMOVE are sent to
 * the lane as to the first; engine_client_free() of the first frees it.
 * @param number     Of the lane: see engine_lane_number().
 * @param doorbells  Offset of a struct one_doorbells, zeroed.
 * @return           NULL: no memory, the number is in use or exceeds the limit, or outside of the arena.
 */
struct engine_client *engine_lane_new(struct engine_client *home, uint32_t number, uint64_t doorbells);
/**
 * Iterate over lanes, beginning with the first lane.
 * @return  Each other lane once, then NULL.
 */
struct engine_client *engine_lane_next(const struct engine_client *lane);
/**
 * @return  The lane's number, below ONE_LANES_MAX and unique in its attachment: the core that it was made
 *          for, maybe by another process with more cores. It is on the core `number % engine_num_cores()`, so
 *          lanes of one number are on one core in each process.
 */
uint32_t engine_lane_number(const struct engine_client *lane);
uint32_t engine_lane_core(const struct engine_client *lane);
/** @return  The attachment's lane of that number; NULL: none. */
static inline struct engine_client *
engine_lane_find(struct engine_client *home, uint32_t number)
{
	struct engine_client *lane = home;

	while (lane != NULL && engine_lane_number(lane) != number)
		lane = engine_lane_next(lane);
	return lane;
}
/** @return  Offset of the lane's struct one_doorbells. */
uint64_t engine_lane_doorbells(const struct engine_client *lane);
/**
 * Free an attachment after REMOVE and after all its objects. All free functions below release memory when no
 * core can access it any more, and allow NULL.
 */
void engine_client_free(struct engine_client *client);
/**
 * From now on the application's copy thread copies memory without a mapping, through the struct one_copies at
 * `offset`. Call before a key of such memory exists. Each lane has its own, the first lane's comes first.
 * @return  The lane's struct bounce, freed with the client; the existing one if there is one; NULL: no
 * memory, or outside of the arena.
 */
struct bounce *engine_client_bounce(struct engine_client *client, uint64_t offset);
/**
 * Make room for the sockets of channels, before the first ENGINE_CHANNEL_FD.
 * @return  False: no memory.
 */
bool engine_client_channels(struct engine_client *client);
uint32_t engine_client_lcore(const struct engine_client *client);
/** Count the work requests that all lanes have taken, and the completions they have stored. */
void engine_client_counts(const struct engine_client *client, uint64_t *work, uint64_t *completions);
/** Make completion rings, and shared receive queues. @return  NULL: no memory, or the ring lies outside of
 * the arena. */
struct engine_cq *engine_cq_new(struct engine_client *client, const struct engine_cq_config *config);
void engine_cq_free(struct engine_cq *cq);
struct engine_srq *engine_srq_new(struct engine_client *client, const struct engine_srq_config *config);
void engine_srq_free(struct engine_srq *srq);
/** @return  NULL: no memory, a ring outside of the arena, or the QPN is in use. */
struct engine_qp *engine_qp_new(struct engine_client *client, const struct engine_qp_config *config);
void engine_qp_free(struct engine_qp *qp);
/**
 * Move a queue pair from the first lane to another lane, with that lane's rings (`config`); before
 * ENGINE_QP_ADD.
 */
void engine_qp_place(struct engine_qp *qp, struct engine_client *lane, const struct engine_qp_config *config);
uint32_t engine_qp_core(const struct engine_qp *qp);
/**
 * Prepare the move of a connected queue pair to another lane of its attachment, with that lane's rings
 * (`config`). Send ENGINE_QP_FREEZE; if that returns 0, ENGINE_QP_THAW, and once more if that fails, and
 * ENGINE_QP_MOVED; then call engine_move_over(). Other commands for the queue pair wait from FREEZE until
 * engine_move_over().
 * @return  NULL: no memory.
 */
struct engine_move *engine_move_new(struct engine_qp *qp, struct engine_client *lane,
				    const struct engine_qp_config *config);
/** @return  Bytes that engine_move_new() allocates, and engine_qp_freeze() of a connected queue pair. */
uint32_t engine_move_size(const struct engine_qp *qp);
/**
 * The move has ended, or has not begun: sends the commands that waited.
 * @return  True: the queue pair is on the new lane.
 */
bool engine_move_over(struct engine_move *move);
/** Free a move that is over. */
void engine_move_free(struct engine_move *move);
/**
 * Draw a UDP source port with which the device's RSS steers frames from `peer` to `own`, an address of the
 * port, to the receive queue of `core`.
 * @param draw  Returns random bits.
 * @return      0: the port has a single queue or none for the core, its hash is unknown, or ESP hides
 *              the UDP ports.
 */
uint16_t engine_steering_port(uint32_t port, uint32_t core, const struct wire_addr *peer,
			      const struct wire_addr *own, uint64_t (*draw)(void));
/**
 * Make an address handle. From now on the core of `client` finds it by `config->id`, instead of an earlier
 * one in the same place. No command is needed: a core looks the handle up for each datagram.
 * @return  NULL: no memory, or no such place or port.
 */
struct engine_ah *engine_ah_new(struct engine_client *client, const struct engine_ah_config *config);
/** Remove an address handle from the table, if it is still there, and free it. */
void engine_ah_free(struct engine_client *client, struct engine_ah *ah);
/** @return  A mark that changes whenever a packet of the peer has been accepted, and counts packets in its
 * lower 24 bits; with a peer on the same core it counts the pages of its own requests. */
uint32_t engine_qp_heard(const struct engine_qp *qp);
/** @return  The UDP source port that the peer of an out-of-band connection has asked for; 0: none. */
uint16_t engine_qp_source_port(const struct engine_qp *qp);
/**
 * @return  True if a new packet of the peer has arrived in the last `ns`, from the MAC that frames to the
 *          peer have as destination.
 */
bool engine_qp_heard_there(const struct engine_qp *qp, uint64_t ns);
/**
 * @return  After ENGINE_EVENT_FAILED: the refusal of the peer's request (rc_refusal()); 0: it was not
 *          refused.
 */
uint32_t engine_qp_refusal(const struct engine_qp *qp);
/**
 * @return  After ENGINE_EVENT_FAILED: payload bytes of the packet that was never acknowledged
 *          (rc_unacknowledged()); 0: the queue pair failed for another reason.
 */
uint32_t engine_qp_unacknowledged(const struct engine_qp *qp);
/** @return  The bind that ENGINE_EVENT_BIND reported; valid until ENGINE_QP_BIND_DONE is sent. */
const struct engine_bind *engine_qp_bind(const struct engine_qp *qp);

/** Limit of QPNs in use or waiting for reuse. */
#define ENGINE_QPNS_MAX (1u << 18)
/**
 * Draw a random 24-bit QPN that no queue pair has, nor had for ten seconds. engine_qp_new() reserves it.
 * @return  0: none was found, too many are in use.
 */
uint32_t engine_qpn_new(void);
/**
 * Find a queue pair by its QPN, between the core's ADD and REMOVE. Any lcore; on a core the result lives
 * until the core's next quiescent state.
 */
struct engine_qp *engine_qp_find(uint32_t qpn);
/**
 * @return  `owner` in the queue pair's configuration, between engine_qp_new() and engine_qp_free(); NULL: no
 *          such queue pair.
 */
void *engine_qp_owner(uint32_t qpn);

/* ---- commands and events ---- */

/**
 * Queue a command for the core of its object. Commands of one core are carried out in order.
 * @param command  From malloc; the engine's until done() is called, or freed by the engine if there is none.
 * @return         0, or -EINVAL: the command has no object, and stays the caller's.
 */
int engine_command(struct engine_command *command);

struct engine_handlers {
	void (*on_event)(const struct engine_event *event);
	/* ARP, ND, ICMP and QP1 frames; `packet` is NULL for frames other than RoCE. */
	void (*on_frame)(uint16_t port, uint8_t *frame, uint32_t len, const struct wire_packet *packet);
};
/**
 * Take a bounded number of acknowledgements, events and frames: calls done() and the handlers, which may call
 * any function of this header but engine_poll(), engine_stop() and engine_fini().
 * @return  Number of items processed; 0: nothing is left.
 */
uint32_t engine_poll(const struct engine_handlers *handlers);
/**
 * @return  An eventfd that is written when engine_poll() has work, only between engine_sleep_begin() and
 *          engine_sleep_end(). Watch it edge-triggered, and never read it.
 */
int engine_event_fd(void);
/** @return  False: there is work, do not sleep; do not call engine_sleep_end(). */
bool engine_sleep_begin(void);
void engine_sleep_end(void);

/** @return  ARP and neighbour discovery frames lost because they arrived faster than they were taken. */
uint32_t engine_neigh_lost(void);

/** The class of management datagrams that are processed before all others (control/rsm/alive.c). */
#define ENGINE_CLASS_KEEP_ALIVE 0x4f
/**
 * Send a frame of the control thread; the frame is copied. Wakes a sleeping core by a system call.
 * @return  0; -EINVAL: no such port, or no frame; -EMSGSIZE: longer than a packet buffer; -ENOBUFS: too many
 *          frames wait.
 */
int engine_send_frame(uint16_t port, const uint8_t *frame, uint32_t len);

/* ---- encryption: dataplane/esp ---- */

struct esp_change;
/**
 * Make the security associations that `config` has in addition to those in force. `config` lives until the
 * change is committed or abandoned. Any thread but cores; reads files, and waits for the disk. One change at
 * a time.
 * @param trial  The change will be abandoned: nothing is saved.
 * @return       0; or -errno, a sentence in `why`, and nothing is changed.
 */
int engine_ipsec_prepare(const struct config *config, bool trial, struct esp_change **change, char *why,
			 size_t why_len);
/**
 * Return true if the change adds or removes keys, which may happen with unchanged names since files may
 * change; NULL: false.
 */
bool engine_ipsec_renews(const struct esp_change *change);
/**
 * Put the change in force, and free `change`. Security associations that it lacks are freed when no core uses
 * them any more.
 */
void engine_ipsec_commit(struct esp_change *change);
/** Return 0 if a full packet of each connection fits with ESP added; -EMSGSIZE and a sentence. */
int engine_ipsec_fits(const struct config *config, char *why, size_t why_len);
/** Undo engine_ipsec_prepare(); NULL is allowed. */
void engine_ipsec_abandon(struct esp_change *change);
/** Return the number of security associations in force. */
uint32_t engine_ipsec_count(void);
/** Return the peer of one of the security associations in force. */
void engine_ipsec_peer(uint32_t index, struct wire_addr *peer);

/* ---- grace periods ---- */

/**
 * Begin a grace period. Any thread.
 * @return  A token for engine_grace_over().
 */
uint64_t engine_grace_start(void);
/** @return  True if every core has passed a quiescent state since the token was made. */
bool engine_grace_over(uint64_t token);

#endif

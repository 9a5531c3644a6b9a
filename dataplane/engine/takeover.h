/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cores' part of a take-over (control/takeover). The control thread calls all of this, while no core
 * runs: in the old process after engine_stop(), in the new one before engine_start().
 */
#ifndef DATAPLANE_ENGINE_TAKEOVER_H
#define DATAPLANE_ENGINE_TAKEOVER_H

#include "dataplane/base/record.h"
#include "dataplane/base/record_type.h"
#include "dataplane/engine.h"

/* ---- the old process ---- */

/* True if no core has a command, a message to the control thread, or something unfinished of an attachment.
 */
bool engine_is_quiet(void);
/* True if no request for a key, bounced access or fault of the lane is unfinished. */
bool engine_lane_is_quiet(const struct engine_client *lane);
/* Freezes a queue pair. *move NULL: its state needs no freezing. Returns 0; -EAGAIN: it binds, or memory
 * without mapping is being written: nothing has changed; -ENOMEM. */
int engine_qp_freeze(struct engine_qp *qp, struct engine_move **move);
/* Undoes engine_qp_freeze(), and frees `move`. */
void engine_qp_unfreeze(struct engine_move *move);
/* Why another process cannot open the port's device before this process ends; NULL: it can. */
const char *engine_port_obstacle(uint32_t port);
/* Closes the devices. engine_ports_reopen() opens them again: 0, or -errno and a sentence. */
void engine_ports_close(void);
int engine_ports_reopen(char *why, size_t why_len);

void engine_counters_write(struct record_out *out); /* of cores and ports */
void engine_lane_write(const struct engine_client *lane, struct record_out *out);
/* Writes which doorbells of which lanes lead to other lanes. */
void engine_forwards_write(const struct engine_client *home, struct record_out *out);
void engine_cq_write(const struct engine_cq *cq, struct record_out *out);
void engine_srq_write(const struct engine_srq *srq, struct record_out *out);
/* `move`: of engine_qp_freeze(). */
void engine_qp_write(const struct engine_qp *qp, const struct engine_move *move, struct record_out *out);
/* Returns the number of the ring that has the bundle's newest report; -1: there is none. */
int engine_cq_last_report(const struct engine_cq *first);
/* Offsets of the channels, and of the first lane's struct one_keys. */
uint64_t engine_lane_channels(const struct engine_client *lane);
uint64_t engine_lane_keys(const struct engine_client *lane);
/* Offset of the lane's struct one_copies; 0: none. */
uint64_t engine_lane_copies(const struct engine_client *lane);
/* Number of accesses that the copy thread has been handed; all are answered. */
uint32_t engine_lane_handed_over(const struct engine_client *lane);

/* ---- encryption: both processes ---- */

/* Both keepers stop while the state crosses: the old one from the quiet point until it goes on, the new one
 * from engine_prepare() until it is alone. False: the keeper works; try again. */
bool engine_ipsec_hold(void);
void engine_ipsec_release(void);
/* The directory of sequence numbers, whose lock both processes share; -1: none is open. */
int engine_ipsec_directory(void);
void engine_ipsec_inherit(int fd); /* call before engine_prepare(); it owns `fd` */
void engine_ipsec_write(struct record_out *out);
/* After engine_open(). Returns 0 or -EINVAL. */
int engine_ipsec_read(const struct record *record);
/* Begins associations without a record. Returns 0, or -errno and a sentence. */
int engine_ipsec_begin(char *why, size_t why_len);

/* ---- the new process ---- */

/* engine_init() in two parts: all but the ports, with packet buffers for frames of `room` bytes, and the
 * ports. */
int engine_prepare(const struct config *config, uint16_t room, char *why, size_t why_len);
int engine_open(char *why, size_t why_len);
/* Drops the frames that have arrived at ports: the old process, which had the ports open, too, has them. */
void engine_ports_drain(void);
uint16_t engine_room(void); /* of packet buffers, in bytes */
/* True if the thread of each core carries out a function. */
bool engine_cores_respond(void);

/* Cores and ports count on from what engine_counters_write() has written. Counters of a core that is not
 * there any more are added to those of another one. 0 or -EINVAL. */
int engine_core_read(const struct record *record);
int engine_port_read(const struct record *record);
/* Read what the write functions have written. The object is new, and no core has it; afterwards its core has
 * it, as after ENGINE_*_ADD. Return 0 or -EINVAL. */
bool engine_lane_continue(struct engine_client *lane, uint64_t copies, uint32_t handed_over);
int engine_lane_read(struct engine_client *lane, const struct record *record);
int engine_forward_read(struct engine_client *home, const struct record *record);
int engine_cq_read(struct engine_cq *cq, const struct record *record);
void engine_cq_set_last_report(struct engine_cq *first, struct engine_cq *last);
int engine_srq_read(struct engine_srq *srq, const struct record *record);
/* `rc` NULL: the record of the transport is absent. `added`: its core has it. */
int engine_qp_read(struct engine_qp *qp, const struct record *record, const struct record *rc, bool added);
/* After all queue pairs have been read: those that were frozen go on. */
void engine_qp_go_on(struct engine_qp *qp);
void engine_channel_set(struct engine_client *client, uint32_t id, int fd);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of a polling core: commands, polling, and the idle policies. */
#ifndef DATAPLANE_LOOP_LOOP_H
#define DATAPLANE_LOOP_LOOP_H

#include "dataplane/core/core.h"

struct engine_client;
struct engine_qp;

/* ---- loop.c ---- */
void loop_clock(struct core *core, uint64_t tsc);
uint32_t loop_iterate(struct core *core, uint64_t tsc); /* one loop, at `tsc`; returns the work done */
int loop_main(void *core);

/* ---- command.c ---- */
int loop_add_client(struct core *core, struct engine_client *client); /* makes the core serve it */
uint32_t loop_commands(struct core *core);

/* ---- repeat.c ---- */
uint32_t loop_repeat(struct core *core); /* sends again what links that have come up had lost */
void loop_repeat_qp(struct core *core, struct engine_qp *qp); /* of one queue pair, connected or not */

/* ---- idle.c ---- */
void idle_wait(struct core *core, uint32_t done); /* after each loop */
void idle_wake(struct core *core); /* called by another thread, after it queued something for the core */
void idle_wake_peers(struct core *core); /* wakes the cores of wake_mask */
int idle_init(struct core *core);
void idle_begin(struct core *core); /* on the core's own thread */
void idle_fini(struct core *core);
void idle_watch(struct core *core, struct engine_client *client);
void idle_forget(struct core *core, struct engine_client *client);

#endif

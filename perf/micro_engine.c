/* SPDX-License-Identifier: BSD-3-Clause */
/* Microbenchmarks: pieces of a polling core's loop. */
#include <stdlib.h>
#include <string.h>

#include "dataplane/qp/transport.h"
#include "micro.h"

/* The form of a request, and its translation into the engine's own. */
static void
validate(struct gbench_state *state, void *user)
{
	struct one_wqe wqe = {.op = ONE_OP_WRITE,
			      .flags = 0,
			      .num_sge = 1,
			      .length = 64,
			      .remote_addr = 4096,
			      .rkey = 77,
			      .sge = {.addr = 8192, .len = 64, .lkey = 5}};
	static struct one_wqe_ext ext[8];
	static struct work work;

	while (gbench_running(state)) {
		wqe.cookie++;
		wqe_to_work(&wqe, ext, &work);
		gbench_use(&work);
	}
	if (work.op != ONE_OP_WRITE || work.length != 64)
		gbench_skip(state, "a good request was refused");
	gbench_set_items(state, gbench_iterations(state));
}

/* ---- timers ---- */

static struct core *
core_new(void)
{
	struct core *core = aligned_alloc(64, (sizeof(*core) + 63) & ~(size_t)63);

	memset(core, 0, sizeof(*core));
	core->now = 1000000000;
	TAILQ_INIT(&core->clients);
	timer_init(core);
	return core;
}

/* Set and cancelled, among `arg` that stand. */
static void
timer(struct gbench_state *state, void *user)
{
	uint32_t count = (uint32_t)gbench_arg(state);
	struct engine_qp *qp = aligned_alloc(64, (count + 1) * sizeof(*qp));
	struct core *core = core_new();

	memset(qp, 0, (count + 1) * sizeof(*qp));
	for (uint32_t i = 0; i <= count; i++) {
		qp[i].timer.at = TIMER_NEVER;
		if (i < count)
			timer_set(core, &qp[i].timer, core->now + 2000000 + i * 1000);
	}
	while (gbench_running(state)) {
		timer_set(core, &qp[count].timer, core->now + 2500000);
		timer_cancel(core, &qp[count].timer);
	}
	gbench_set_items(state, gbench_iterations(state));
	free(core);
	free(qp);
}

/* A loop's look at timers of which none is due, a microsecond later each time. */
static void
timer_look(struct gbench_state *state, void *user)
{
	struct engine_qp *qp = aligned_alloc(64, sizeof(*qp));
	struct core *core = core_new();

	memset(qp, 0, sizeof(*qp));
	qp->timer.at = TIMER_NEVER;
	timer_set(core, &qp->timer, core->now + 16000000);
	while (gbench_running(state)) {
		core->now += 1000;
		if (core->timers == 0) /* its slot came, and nothing was due */
			timer_set(core, &qp->timer, core->now + 16000000);
		timer_run(core, &qp_timer_calls);
	}
	gbench_set_items(state, gbench_iterations(state));
	free(core);
	free(qp);
}

/* ---- doorbells ---- */

/* Of one attachment with `arg` endpoints, none rung. */
static void
doorbells(struct gbench_state *state, void *user)
{
	struct one_doorbells *bells = aligned_alloc(64, sizeof(*bells));
	struct engine_client client = {.doorbells = bells};
	struct core *core = core_new();
	uint32_t rung = 0;

	memset(bells, 0, sizeof(*bells));
	client.groups = (uint32_t)(gbench_arg(state) + ONE_DOORBELL_GROUP - 1) / ONE_DOORBELL_GROUP;
	TAILQ_INSERT_TAIL(&core->clients, &client, link);
	while (gbench_running(state))
		rung += doorbell_scan(core);
	if (rung != 0)
		gbench_skip(state, "a bell that nobody rang");
	gbench_set_items(state, gbench_iterations(state) * (uint64_t)gbench_arg(state));
	free(core);
	free(bells);
}

void
micro_engine(void)
{
	static const int64_t timers[] = {1, 1000}, endpoints[] = {64, 1024, 10000};

	gbench_register("validate", validate, NULL, NULL, 0);
	gbench_register("timer", timer, NULL, timers, 2);
	gbench_register("timer_look", timer_look, NULL, NULL, 0);
	gbench_register("doorbell_scan", doorbells, NULL, endpoints, 3);
}

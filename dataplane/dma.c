/* SPDX-License-Identifier: BSD-3-Clause */
#define ALLOW_EXPERIMENTAL_API /* rte_dmadev.h, all of it in 22.11 */
#include "dma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_dmadev.h>
#include <rte_log.h>
#include <rte_pause.h>

#include "core.h"

#define DEVICES CONFIG_DMA_MAX
#define DESCRIPTORS (2 * DMA_FLIGHT)
#define BURST 8u     /* outcomes asked for at once */
#define FAILURES 16u /* in a row, and the device is not used any more */
#define HANG_NS 1000000000ull
#define PAUSE_NS 1000000ull /* more between two looks is not the device's time but ours */
#define NOTHING UINT64_MAX

RTE_LOG_REGISTER(dma_logtype, oneside.dma, NOTICE);
#define log_error(...) rte_log(RTE_LOG_ERR, (uint32_t)dma_logtype, "dma: " __VA_ARGS__)

enum state {
	STATE_RUNNING,
	STATE_FAILING, /* nothing more is given to it */
	STATE_HUNG,    /* nor is it asked: it is about to be stopped */
	STATE_STOPPED
};

struct device {
	char name[RTE_DEV_NAME_MAX_LEN];
	int16_t id;
	uint16_t channels, max_channels, descriptors;
	bool started;
	/* Cores make it FAILING or HUNG, from what was before; the control thread STOPPED. */
	_Atomic uint8_t state;
	/* control thread */
	bool told;
	uint64_t token; /* of the grace period before it is stopped; 0: none has begun */
};

struct op {
	uint64_t token;       /* later grace periods wait for it */
	struct engine_qp *qp; /* NULL: nobody wants the outcome */
	uint8_t *to;
	const uint8_t *from;
	uint32_t len;
};

struct dma_channel {
	struct device *device;
	uint16_t number;
	uint32_t failures;          /* in a row */
	uint32_t head, tail;        /* free-running; what is between is under way, oldest first */
	uint64_t polled_at, waited; /* ns, since the device has told of one */
	struct op op[DMA_FLIGHT];
	/* Token of the oldest copy under way; NOTHING.  Read by dma_passed. */
	_Alignas(64) _Atomic uint64_t oldest;
};

static struct device devices[DEVICES];
static uint32_t num_devices;
static _Atomic bool trouble; /* a core has changed a state since the control thread looked */

static enum state
state_of(const struct device *device)
{
	/* Pairs with the release store in dma_recover. */
	return atomic_load_explicit(&device->state, memory_order_acquire);
}

/* ---- copies ---- */

bool
dma_busy(const struct dma_channel *channel)
{
	return channel->head != channel->tail;
}

/*
 * Of all grace periods that began before this loop, as this core last told the RCU: what has
 * been removed since then may still have been found in this loop.
 */
static uint64_t
token_now(const struct core *core)
{
	/* Only this core writes it. */
	return __atomic_load_n(&engine.rcu->qsbr_cnt[core->lcore].cnt, __ATOMIC_RELAXED);
}

static void
say_oldest(struct dma_channel *channel)
{
	/* Pairs with the acquire load in dma_passed: copies before this one have happened. */
	atomic_store_explicit(&channel->oldest,
			      dma_busy(channel) ? channel->op[channel->head % DMA_FLIGHT].token : NOTHING,
			      memory_order_release);
}

static void
give_up(struct core *core, enum state state)
{
	struct device *device = core->dma->device;
	uint8_t before = STATE_RUNNING;

	/* Another core with a channel of this device may have been faster, with either. */
	if (!atomic_compare_exchange_strong_explicit(&device->state, &before, (uint8_t)state,
						     memory_order_relaxed, memory_order_relaxed) &&
	    (state != STATE_HUNG || before != STATE_FAILING ||
	     !atomic_compare_exchange_strong_explicit(&device->state, &before, (uint8_t)state,
						      memory_order_relaxed, memory_order_relaxed)))
		return;
	/* Pairs with the exchange in dma_recover. */
	atomic_store_explicit(&trouble, true, memory_order_release);
	core->tell_control = true;
}

static void
count_failure(struct core *core)
{
	core->stats.dma_failed++;
	if (++core->dma->failures == FAILURES)
		give_up(core, STATE_FAILING);
}

bool
dma_copy(struct core *core, struct engine_qp *qp, uint8_t *to, const uint8_t *from, uint32_t len)
{
	struct dma_channel *channel = core->dma;
	struct op *op = &channel->op[channel->tail % DMA_FLIGHT];
	int result;

	/* The outcome of a copy that overlaps is any device's own. */
	if (qp->copying == DMA_COPIES || (to < from + len && from < to + len) ||
	    state_of(channel->device) != STATE_RUNNING)
		return false;
	if (channel->tail - channel->head == DMA_FLIGHT) {
		core->stats.dma_full++;
		return false;
	}
	result = rte_dma_copy(channel->device->id, channel->number, (uintptr_t)from, (uintptr_t)to, len,
			      RTE_DMA_OP_FLAG_SUBMIT);
	if (result == -ENOSPC)
		core->stats.dma_full++;
	else if (result < 0)
		count_failure(core);
	if (result < 0)
		return false;
	*op = (struct op){.token = token_now(core), .qp = qp, .to = to, .from = from, .len = len};
	if (channel->tail++ == channel->head) {
		channel->waited = 0;
		channel->polled_at = core->now;
		/* Seen by whoever finds this core quiescent after this loop. */
		say_oldest(channel);
	}
	qp->copying++;
	core->stats.dma_copies++;
	core->stats.dma_bytes += len;
	return true;
}

/* The oldest one has ended; if not well, it is the core's. */
static void
end_copy(struct core *core, bool done)
{
	struct dma_channel *channel = core->dma;
	struct op *op = &channel->op[channel->head++ % DMA_FLIGHT];
	struct engine_qp *qp = op->qp;

	if (qp == NULL)
		return;
	if (!done)
		memcpy(op->to, op->from, op->len);
	qp->copying--;
	if (qp->waiting)
		qp_reached(core, qp);
}

static uint32_t
ask(struct core *core)
{
	enum rte_dma_status_code status[BURST];
	struct dma_channel *channel = core->dma;
	uint16_t last, n, most = (uint16_t)RTE_MIN(BURST, channel->tail - channel->head);

	n = rte_dma_completed_status(channel->device->id, channel->number, most, &last, status);
	for (uint16_t i = 0; i < n; i++) {
		/* A page that is not there is its application's doing. */
		if (status[i] == RTE_DMA_STATUS_PAGE_FAULT)
			core->stats.dma_failed++;
		else if (status[i] != RTE_DMA_STATUS_SUCCESSFUL)
			count_failure(core);
		else
			channel->failures = 0;
		end_copy(core, status[i] == RTE_DMA_STATUS_SUCCESSFUL);
	}
	return n;
}

static uint32_t
look(struct core *core, uint64_t now)
{
	struct dma_channel *channel = core->dma;
	uint32_t n;

	switch (state_of(channel->device)) {
	case STATE_HUNG:
		return 0;
	case STATE_STOPPED: /* one each time: they are long */
		core->stats.dma_failed++;
		end_copy(core, false);
		n = 1;
		break;
	default:
		n = ask(core);
		break;
	}
	if (n != 0) {
		channel->waited = 0;
		say_oldest(channel);
	} else {
		channel->waited += RTE_MIN(now - channel->polled_at, PAUSE_NS);
		if (unlikely(channel->waited > HANG_NS))
			give_up(core, STATE_HUNG);
	}
	channel->polled_at = now;
	return n;
}

uint32_t
dma_poll(struct core *core)
{
	return look(core, core->now);
}

void
dma_leave(struct core *core, struct engine_qp *qp)
{
	struct dma_channel *channel = core->dma;

	while (qp->copying != 0 && state_of(channel->device) != STATE_HUNG)
		if (look(core, core_time(core)) == 0)
			rte_pause();
	if (likely(qp->copying == 0))
		return;
	for (uint32_t i = channel->head; i != channel->tail; i++)
		if (channel->op[i % DMA_FLIGHT].qp == qp)
			channel->op[i % DMA_FLIGHT].qp = NULL;
	qp->copying = 0;
	qp->moved = 0; /* nobody knows how much of it */
	if (qp->waiting)
		qp_reached(core, qp);
}

/* ---- grace periods, and what hangs ---- */

bool
dma_passed(uint64_t token)
{
	for (uint32_t i = 0; num_devices > 0 && i < engine.num_cores; i++) {
		const struct dma_channel *channel = engine.core[i]->dma;

		/* Pairs with the release store in say_oldest. */
		if (channel != NULL && atomic_load_explicit(&channel->oldest, memory_order_acquire) < token)
			return false;
	}
	return true;
}

bool
dma_in_trouble(void)
{
	/* A look; dma_recover does the acquire. */
	return atomic_load_explicit(&trouble, memory_order_relaxed);
}

/* True when it is over. */
static bool
stop_hung(struct device *device)
{
	int error;

	if (device->token == 0)
		device->token = rte_rcu_qsbr_start(engine.rcu);
	/* Afterwards no core is inside the driver, and none goes there. */
	if (rte_rcu_qsbr_check(engine.rcu, device->token, false) != 1)
		return false;
	error = rte_dma_stop(device->id);
	if (error != 0) {
		log_error("device %s hangs and does not stop (%s): it may write into any memory at any time, "
			  "so the data plane ends\n",
			  device->name, strerror(-error));
		abort();
	}
	log_error(
		"device %s has told nothing for a second; it is stopped, and the cores copy by themselves\n",
		device->name);
	device->started = false;
	/* Pairs with the acquire load in state_of: it does nothing any more. */
	atomic_store_explicit(&device->state, STATE_STOPPED, memory_order_release);
	return true;
}

void
dma_recover(void)
{
	bool again = false;

	/* Pairs with the release store in give_up. */
	if (!atomic_exchange_explicit(&trouble, false, memory_order_acquire))
		return;
	for (uint32_t i = 0; i < num_devices; i++) {
		struct device *device = &devices[i];

		if (state_of(device) == STATE_FAILING && !device->told) {
			log_error("device %s has failed at %u copies in a row; it is not used any more, and "
				  "the "
				  "cores copy by themselves\n",
				  device->name, FAILURES);
			device->told = true;
		}
		if (state_of(device) == STATE_HUNG)
			again = !stop_hung(device) || again;
	}
	if (again)
		atomic_store_explicit(&trouble, true, memory_order_relaxed); /* our own */
}

/* ---- start and end ---- */

#define REFUSE(error, ...) (snprintf(why, why_len, __VA_ARGS__), error)

/* What DPDK has, for whoever named something else. */
static void
list_devices(char *text, size_t len)
{
	struct rte_dma_info info;
	size_t used = 0;
	int16_t id;

	text[0] = '\0';
	RTE_DMA_FOREACH_DEV(id)
	if (used < len && rte_dma_info_get(id, &info) == 0)
		used += (size_t)snprintf(text + used, len - used, "%s%s", used > 0 ? ", " : "",
					 info.dev_name);
}

static int
find_device(const char *name, char *why, size_t why_len)
{
	const uint64_t needed = RTE_DMA_CAPA_MEM_TO_MEM | RTE_DMA_CAPA_OPS_COPY;
	struct device *device = &devices[num_devices];
	struct rte_dma_info info;
	char known[256];

	*device = (struct device){.id = (int16_t)rte_dma_get_dev_id_by_name(name)};
	if (device->id < 0 || rte_dma_info_get(device->id, &info) != 0) {
		list_devices(known, sizeof(known));
		if (known[0] != '\0')
			return REFUSE(-ENODEV, "dma = %s: DPDK has no such DMA device; name one of %s", name,
				      known);
		return REFUSE(
			-ENODEV,
			"dma = %s: DPDK has no DMA device; give it one by the EAL option -a PCI-ADDRESS, "
			"or leave dma out",
			name);
	}
	if ((info.dev_capa & needed) != needed)
		return REFUSE(
			-ENOTSUP,
			"dma = %s: this device cannot copy from memory to memory; name another, or leave "
			"dma out",
			name);
	if (!(info.dev_capa & RTE_DMA_CAPA_SVA))
		return REFUSE(
			-ENOTSUP,
			"dma = %s: this device takes no virtual addresses (SVA), and applications' memory "
			"has no others; bind it to a driver with SVA, or leave dma out",
			name);
	snprintf(device->name, sizeof(device->name), "%s", name);
	device->max_channels = info.max_vchans;
	device->descriptors = RTE_MIN(info.max_desc, (uint16_t)DESCRIPTORS);
	if (device->descriptors < info.min_desc)
		device->descriptors = info.min_desc;
	num_devices++;
	return 0;
}

static int
find_devices(const char *names, char *why, size_t why_len)
{
	char copy[sizeof(engine.config->dma)];
	char *save = NULL;
	int error = 0;

	snprintf(copy, sizeof(copy), "%s", names);
	for (char *name = strtok_r(copy, ",", &save); name != NULL && error == 0;
	     name = strtok_r(NULL, ",", &save))
		error = find_device(name, why, why_len);
	return error;
}

/* One channel for each core, of the devices in turn. */
static int
share_channels(char *why, size_t why_len)
{
	uint32_t total = 0, next = 0;

	for (uint32_t i = 0; i < num_devices; i++)
		total += devices[i].max_channels;
	if (total < engine.num_cores)
		return REFUSE(
			-ENOSPC,
			"dma = %s: %u virtual channel%s in all are too few for %u polling cores; name more "
			"devices, or give EAL fewer cores (-l)",
			engine.config->dma, total, total == 1 ? "" : "s", engine.num_cores);
	if (num_devices > engine.num_cores)
		return REFUSE(-EINVAL, "dma = %s: no polling core is left for device %s; name %u at most",
			      engine.config->dma, devices[engine.num_cores].name, engine.num_cores);
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		struct dma_channel *channel = aligned_alloc(_Alignof(struct dma_channel), sizeof(*channel));

		if (channel == NULL)
			return REFUSE(-ENOMEM, "no memory for the channels of DMA devices");
		while (devices[next % num_devices].channels == devices[next % num_devices].max_channels)
			next++;
		memset(channel, 0, sizeof(*channel));
		channel->device = &devices[next++ % num_devices];
		channel->number = channel->device->channels++;
		atomic_init(&channel->oldest, NOTHING);
		engine.core[i]->dma = channel;
	}
	return 0;
}

static int
start_device(struct device *device, char *why, size_t why_len)
{
	const struct rte_dma_conf conf = {.nb_vchans = device->channels};
	const struct rte_dma_vchan_conf channel = {.direction = RTE_DMA_DIR_MEM_TO_MEM,
						   .nb_desc = device->descriptors};
	int error = rte_dma_configure(device->id, &conf);

	for (uint16_t i = 0; i < device->channels && error == 0; i++)
		error = rte_dma_vchan_setup(device->id, i, &channel);
	if (error == 0)
		error = rte_dma_start(device->id);
	if (error != 0)
		return REFUSE(
			error,
			"dma = %s: the device does not start (%s); see DPDK's lines above, or leave dma "
			"out",
			device->name, strerror(-error));
	device->started = true;
	return 0;
}

int
dma_init(char *why, size_t why_len)
{
	int error;

	num_devices = 0;
	atomic_store_explicit(&trouble, false, memory_order_relaxed); /* no core runs */
	if (engine.config->dma[0] == '\0')
		return 0;
	error = find_devices(engine.config->dma, why, why_len);
	if (error == 0)
		error = share_channels(why, why_len);
	for (uint32_t i = 0; i < num_devices && error == 0; i++)
		error = start_device(&devices[i], why, why_len);
	return error;
}

/* Stopped, not closed: that is EAL's, when it takes its devices back. */
void
dma_fini(void)
{
	for (uint32_t i = 0; i < num_devices; i++)
		if (devices[i].started && rte_dma_stop(devices[i].id) != 0)
			log_error("device %s does not stop\n", devices[i].name);
	for (uint32_t i = 0; i < engine.num_cores; i++)
		free(engine.core[i]->dma);
	num_devices = 0;
}

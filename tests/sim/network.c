/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

/* Half of the runs have one kind of trouble only, so that a failure shows its cause. */
void
weather_draw(struct sim *sim)
{
	struct weather *w = &sim->weather;
	uint32_t kind = sim_below(sim, 12);
	double unit = (double)sim_below(sim, 1001) / 1000;

	w->delay = 1 + sim_below(sim, 50 * US);
	w->jitter = sim_below(sim, 2) ? 0 : sim_below(sim, 5 * US);
	w->poll_jitter = sim_below(sim, 2) ? 0 : sim_below(sim, 20 * US);
	w->copy_delay = 1 + sim_below(sim, sim_below(sim, 4) ? 20 * US : 5 * MS);
	if (sim_below(sim, 4) == 0)
		w->held = sim_below(sim, 2) ? 1 : unit;
	if (kind == 0)
		return; /* no trouble */
	if (kind == 1 || kind >= 6)
		w->loss = sim->options->loss * unit;
	if (kind == 2 || kind >= 6)
		w->duplicate = 0.1 * unit;
	if (kind == 3 || kind >= 6)
		w->corrupt = 0.1 * unit;
	if (kind == 4 || kind >= 6)
		w->reorder = 0.2 * unit;
	if (kind == 5 || kind >= 6)
		w->spike = 0.01 * unit;
	w->spike_delay = 1 + sim_below(sim, 30 * MS);
	w->starve = sim_below(sim, 3) ? 0 : 0.05;
	if (sim_chance(sim, 0.1))
		w->loss = sim->options->loss;
}

static bool
before(const struct frame *a, const struct frame *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void
heap_push(struct sim *sim, struct frame *frame)
{
	uint32_t i = sim->heap_len++;

	if (sim->heap_len > sim->heap_cap) {
		sim->heap_cap = sim->heap_cap * 2 + 64;
		sim->heap = realloc(sim->heap, sim->heap_cap * sizeof(*sim->heap));
	}
	while (i > 0 && before(frame, sim->heap[(i - 1) / 2])) {
		sim->heap[i] = sim->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	sim->heap[i] = frame;
}

struct frame *
network_next(const struct sim *sim)
{
	return sim->heap_len > 0 ? sim->heap[0] : NULL;
}

struct frame *
network_take(struct sim *sim)
{
	struct frame *top = sim->heap[0], *last = sim->heap[--sim->heap_len];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < sim->heap_len) {
		if (child + 1 < sim->heap_len && before(sim->heap[child + 1], sim->heap[child]))
			child++;
		if (!before(sim->heap[child], last))
			break;
		sim->heap[i] = sim->heap[child];
		i = child;
	}
	if (sim->heap_len > 0)
		sim->heap[i] = last;
	return top;
}

void
frame_free(struct frame *frame)
{
	if (frame == NULL)
		return;
	/* Overwrite the bytes, so that a late copy from the frame is detected. */
	memset(frame->bytes, 0xdd, frame->len);
	if (frame->original != NULL)
		memset(frame->original, 0xdd, frame->original_len);
	free(frame->bytes);
	free(frame->original);
	free(frame);
}

static uint8_t *
duplicate(const uint8_t *bytes, uint32_t len)
{
	uint8_t *copy = malloc(len);

	memcpy(copy, bytes, len);
	return copy;
}

static void
corrupt(struct sim *sim, struct frame *frame)
{
	uint32_t flips = 1 + sim_below(sim, 4);

	frame->corrupted = true;
	frame->original = duplicate(frame->bytes, frame->len);
	frame->original_len = frame->len;
	if (sim_below(sim, 8) == 0) { /* truncated to a copy of the exact size, for the address sanitizer */
		uint8_t *cut;

		frame->len = sim_below(sim, frame->len) + 1;
		cut = duplicate(frame->bytes, frame->len);
		free(frame->bytes);
		frame->bytes = cut;
		return;
	}
	for (uint32_t i = 0; i < flips; i++)
		frame->bytes[sim_below(sim, frame->len)] ^= (uint8_t)(1u << sim_below(sim, 8));
}

static void
launch(struct sim *sim, struct host *to, uint8_t *bytes, uint32_t len)
{
	const struct weather *w = &sim->weather;
	struct frame *frame = calloc(1, sizeof(*frame));

	frame->to = to;
	frame->bytes = bytes;
	frame->len = len;
	frame->order = sim->order++;
	frame->at = sim->now + w->delay;
	if (w->jitter > 0 && w->reorder == 0)
		frame->at += sim_below(sim, (uint32_t)w->jitter + 1) / 16;
	if (sim_chance(sim, w->reorder))
		frame->at += sim_below(sim, (uint32_t)(4 * w->delay) + 1);
	if (sim_chance(sim, w->spike))
		frame->at += sim_below(sim, (uint32_t)w->spike_delay);
	if (sim_chance(sim, w->corrupt)) {
		corrupt(sim, frame);
		sim->totals->corrupted++;
	}
	heap_push(sim, frame);
}

void
network_send(struct sim *sim, struct host *to, uint8_t *bytes, uint32_t len)
{
	sim->totals->frames++;
	if (sim_chance(sim, sim->weather.duplicate)) {
		sim->totals->duplicated++;
		launch(sim, to, duplicate(bytes, len), len);
	}
	if (sim_chance(sim, sim->weather.loss)) {
		sim->totals->lost++;
		free(bytes);
		return;
	}
	launch(sim, to, bytes, len);
}

bool
frame_parse(struct sim *sim, struct host *host, struct frame *frame, struct wire_packet *packet)
{
	struct wire_packet original;

	memset(packet, 0, sizeof(*packet));
	if (test_env_parse(&host->env, frame->bytes, frame->len, packet) != WIRE_OK) {
		if (!frame->corrupted)
			sim_fail(sim, NULL, "a good frame was refused");
		sim->totals->caught++;
		return false;
	}
	if (!frame->corrupted)
		return true;
	/* Corruption may only have changed bytes that the ICRC does not cover. */
	memset(&original, 0, sizeof(original));
	wire_parse(frame->original, frame->original_len, &original);
	if (packet->payload_len != original.payload_len ||
	    memcmp(packet->payload, original.payload, original.payload_len) != 0)
		sim_fail(sim, NULL, "a corrupted payload passed the ICRC");
	packet->payload = original.payload;
	memcpy(packet->src_mac, original.src_mac, sizeof(original.src_mac));
	packet->congestion = original.congestion;
	if (memcmp(packet, &original, sizeof(original)) != 0)
		sim_fail(sim, NULL, "a corrupted header passed the ICRC");
	packet->payload = frame->original + (original.payload - frame->original);
	return true;
}

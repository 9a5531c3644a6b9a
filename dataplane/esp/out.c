/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames to be sent: ESP in transport mode, inserted after the IP header. A frame that policy wants protected
 * and that cannot be is dropped: none leaves plain. */
#include "dataplane/core/stats.h"
#include "dataplane/esp/esp.h"
#include "dataplane/esp/frame.h"
#include "dataplane/esp/table.h"

_Static_assert(CORE_BURST <= ESP_BATCH, "a burst is one batch at most");

/* Frames of one security association, each in its place in the burst. */
struct out_run {
	struct core *core;
	struct esp_sa *sa;
	uint32_t num, bytes;
	struct rte_mbuf **place[ESP_BATCH];
	struct esp_frame frame[ESP_BATCH];
	struct esp_batch batch;
};

/* Write padding 1, 2, 3, its length, and the inner protocol. The ciphertext ends at a multiple of four. */
static uint8_t *
write_trailer(uint8_t *end, uint32_t len, uint8_t proto)
{
	uint8_t pad = (uint8_t)(-(len + 2) & 3u);

	for (uint8_t i = 1; i <= pad; i++)
		*end++ = i;
	*end++ = pad;
	*end++ = proto;
	return end;
}

/* Make room in the frame and write all but the ciphertext and the ICV. Returns the ESP header; *text: bytes
 * to encrypt. */
static uint8_t *
frame_up(struct out_run *run, uint32_t i, uint64_t number, uint32_t *text)
{
	struct rte_mbuf *m = *run->place[i];
	struct esp_frame *frame = &run->frame[i];
	uint32_t headers = frame->at + frame->ip_len, len = m->data_len - headers;
	uint8_t *from = rte_pktmbuf_mtod(m, uint8_t *), *data, *esp, *end;

	end = write_trailer(from + m->data_len, len, frame->proto);
	m->data_off -= ESP_HEADER;
	data = from - ESP_HEADER;
	memmove(data, from, headers);
	esp = data + headers;
	store_be32(esp, run->sa->spi);
	store_be32(esp + 4, (uint32_t)number);
	store_be64(esp + 8, run->sa->iv_base + number);
	*text = (uint32_t)(end - esp) - ESP_HEADER;
	m->data_len = (uint16_t)(end + ESP_ICV_LEN - data);
	m->pkt_len = m->data_len;
	esp_frame_become(data + frame->at, frame->v4, ESP_PROTO, m->data_len - headers);
	m->ol_flags |= esp_protected;
	return esp;
}

static void
add_to_batch(struct out_run *run, uint32_t i, uint64_t number)
{
	uint32_t text;
	uint8_t *esp = frame_up(run, i, number, &text);

	memcpy(run->batch.nonce[i], run->sa->salt, ESP_SALT_LEN);
	memcpy(run->batch.nonce[i] + ESP_SALT_LEN, esp + 8, ESP_IV_LEN);
	store_be32(run->batch.header[i], run->sa->spi);
	store_be64(run->batch.header[i] + 4, number);
	esp_batch_add(&run->batch, esp + ESP_HEADER, text, esp + ESP_HEADER + text);
}

static void
run_batch(struct out_run *run)
{
	esp_crypto_run(run->core->index, run->sa->session, &run->batch);
	for (uint32_t i = 0; i < run->batch.num; i++) {
		if (run->batch.status[i] == 0)
			run->core->stats.esp_sent++;
		else
			esp_drop(run->core, run->sa, run->place[i], ENGINE_ESP_ICV);
	}
}

/* Number and encrypt the collected frames, or drop them if no number is left. */
static void
finish_run(struct out_run *run)
{
	uint64_t number = esp_sa_take(run->sa, run->num, run->bytes);

	for (uint32_t i = 0; i < run->num; i++) {
		if (number == 0)
			esp_drop(run->core, run->sa, run->place[i], ENGINE_ESP_LIMIT);
		else
			add_to_batch(run, i, number + i);
	}
	if (number != 0)
		run_batch(run);
}

/* The next frames belong to `sa`: finish those collected. */
static void
switch_sa(struct out_run *run, struct esp_sa *sa)
{
	if (run->num > 0)
		finish_run(run);
	run->sa = sa;
	run->num = run->bytes = run->batch.num = 0;
}

static bool
frame_fits(const struct rte_mbuf *m, uint32_t mtu)
{
	return m->nb_segs == 1 && m->data_len + ESP_OVERHEAD <= mtu + ESP_ETH_LEN &&
	       rte_pktmbuf_headroom(m) >= ESP_HEADER && rte_pktmbuf_tailroom(m) >= ESP_OVERHEAD - ESP_HEADER;
}

static void
collect_frame(struct out_run *run, const struct esp_peer *peer, struct rte_mbuf **place, uint32_t mtu,
	      const struct esp_frame *frame)
{
	if (!frame_fits(*place, mtu)) {
		esp_drop(run->core, peer->out, place, ENGINE_ESP_LENGTH);
		return;
	}
	if (peer->out != run->sa)
		switch_sa(run, peer->out);
	run->place[run->num] = place;
	run->frame[run->num++] = *frame;
	run->bytes += (*place)->data_len;
}

/* NULL: the frame leaves plain. */
static const struct esp_peer *
peer_of(const struct esp_table *table, struct rte_mbuf *m, struct esp_frame *frame)
{
	const struct esp_peer *peer;

	if (table == NULL || !esp_frame_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, frame) ||
	    esp_frame_is_discovery(frame, m->data_len))
		return NULL;
	peer = esp_table_peer(table, &frame->dst);
	return peer != NULL && peer->encrypt ? peer : NULL;
}

static void
apply_policy(struct out_run *run, const struct esp_table *table, uint16_t port, uint32_t mtu,
	     struct rte_mbuf **place)
{
	struct esp_frame frame;
	const struct esp_peer *peer = peer_of(table, *place, &frame);

	if (peer == NULL)
		return;
	if (peer->out == NULL || peer->out->port != port)
		esp_drop(run->core, NULL, place, ENGINE_ESP_NO_SA);
	else
		collect_frame(run, peer, place, mtu, &frame);
}

uint16_t
esp_out(struct core *core, uint16_t port, uint32_t mtu, struct rte_mbuf **frames, uint16_t count)
{
	/* Pairs with the exchange in esp_change_commit(). */
	const struct esp_table *table = atomic_load_explicit(&esp_table, memory_order_acquire);
	struct out_run run;
	uint16_t kept = 0;

	run.core = core;
	run.num = 0;
	switch_sa(&run, NULL);
	for (uint16_t i = 0; i < count; i++)
		if ((frames[i]->ol_flags & esp_protected) == 0)
			apply_policy(&run, table, port, mtu, &frames[i]);
	switch_sa(&run, NULL);
	for (uint16_t i = 0; i < count; i++)
		if (frames[i] != NULL)
			frames[kept++] = frames[i];
	return kept;
}

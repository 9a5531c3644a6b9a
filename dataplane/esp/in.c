/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received frames. ESP is checked from the outer header inwards (lengths, SPI, addresses, window, ICV, window
 * again, padding) and replaced by the protected frame. Transport mode does not authenticate the IP header, so
 * the addresses must be those of the security association.
 *
 * A window has one owner, the core that received the first good packet. Frames that a device spreads over
 * queues by rules other than the SPI are handed over whole.
 */
#include <rte_ring.h>

#include "dataplane/core/stats.h"
#include "dataplane/esp/esp.h"
#include "dataplane/esp/frame.h"
#include "dataplane/esp/table.h"

/* Minimum of bytes after the IP header. */
#define ESP_LEAST (ESP_HEADER + 4 + ESP_ICV_LEN)

struct in_packet {
	struct rte_mbuf **place;
	uint32_t at, ip_len; /* offset and length of the IP header */
	uint32_t text_len;
	uint64_t number;
	bool v4;
};

struct in_run {
	struct core *core;
	struct esp_sa *sa;
	uint32_t text;                      /* bytes of the collected packets */
	uint32_t bytes;                     /* bytes of the accepted packets */
	struct in_packet packet[ESP_BATCH]; /* packet i is text i of the batch */
	struct esp_batch batch;
};

void
esp_drop(struct core *core, struct esp_sa *sa, struct rte_mbuf **place, enum engine_esp_drop reason)
{
	core->stats.esp_drop[reason]++;
	if (sa != NULL)
		atomic_fetch_add_explicit(&sa->dropped[reason], 1, memory_order_relaxed); /* for telemetry */
	rte_pktmbuf_free(*place);
	*place = NULL;
}

/* True if this core owns the window; the first good packet makes its core the owner. */
static bool
owns_window(struct core *core, struct esp_sa *sa)
{
	uint32_t owner = atomic_load_explicit(&sa->owner, memory_order_acquire);

	/* Pairs with the same exchange on other cores: one core becomes owner, and no core accesses the
	 * window before. */
	if (unlikely(owner == ESP_NO_OWNER) &&
	    atomic_compare_exchange_strong_explicit(&sa->owner, &owner, core->index, memory_order_acq_rel,
						    memory_order_acquire))
		return true;
	return owner == core->index;
}

/* Restore the protected frame: the payload stays in place, and the headers move up to it. */
static void
remove_esp(struct rte_mbuf *m, const struct in_packet *packet, uint32_t len, uint8_t proto)
{
	uint32_t headers = packet->at + packet->ip_len;
	uint8_t *data = rte_pktmbuf_mtod(m, uint8_t *);

	memmove(data + ESP_HEADER, data, headers);
	m->data_off += ESP_HEADER;
	m->data_len = (uint16_t)(headers + len);
	m->pkt_len = m->data_len;
	m->ol_flags &= ~RTE_MBUF_F_RX_IP_CKSUM_MASK;
	esp_frame_become(data + ESP_HEADER + packet->at, packet->v4, proto, len);
}

/* Checks after decryption. */
static enum engine_esp_drop
accept_packet(struct in_run *run, const struct in_packet *packet)
{
	struct esp_sa *sa = run->sa;
	struct rte_mbuf *m = *packet->place;
	const uint8_t *text = rte_pktmbuf_mtod(m, uint8_t *) + packet->at + packet->ip_len + ESP_HEADER;
	uint32_t pad = text[packet->text_len - 2];

	if (!owns_window(run->core, sa) || !esp_window_take(&sa->window, packet->number))
		return ENGINE_ESP_REPLAY;
	if (pad + 2 > packet->text_len)
		return ENGINE_ESP_LENGTH;
	run->bytes += packet->text_len - pad - 2;
	remove_esp(m, packet, packet->text_len - pad - 2, text[packet->text_len - 1]);
	return ENGINE_ESP_OK;
}

static void
finish_run(struct in_run *run)
{
	uint32_t accepted = 0;

	run->bytes = 0;
	esp_crypto_run(run->core->index, run->sa->session, &run->batch);
	for (uint32_t i = 0; i < run->batch.num; i++) {
		const struct in_packet *packet = &run->packet[i];
		enum engine_esp_drop reason = ENGINE_ESP_ICV;

		if (run->batch.status[i] == 0)
			reason = accept_packet(run, packet);
		if (reason != ENGINE_ESP_OK)
			esp_drop(run->core, run->sa, run->packet[i].place, reason);
		else
			accepted++;
	}
	run->core->stats.esp_received += accepted;
	if (accepted > 0)
		esp_sa_count(run->sa, accepted, run->bytes);
}

/* The next packets belong to `sa`: finish those collected. */
static void
switch_sa(struct in_run *run, struct esp_sa *sa)
{
	if (run->batch.num > 0)
		finish_run(run);
	run->sa = sa;
	run->text = run->batch.num = 0;
}

static void
collect_packet(struct in_run *run, struct esp_sa *sa, const struct in_packet *packet, uint8_t *esp)
{
	uint32_t i;

	if (sa != run->sa)
		switch_sa(run, sa);
	i = run->batch.num;
	run->text += packet->text_len;
	run->packet[i] = *packet;
	memcpy(run->batch.nonce[i], sa->salt, ESP_SALT_LEN);
	memcpy(run->batch.nonce[i] + ESP_SALT_LEN, esp + 8, ESP_IV_LEN);
	store_be32(run->batch.header[i], sa->spi);
	store_be64(run->batch.header[i] + 4, packet->number);
	esp_batch_add(&run->batch, esp + ESP_HEADER, packet->text_len, esp + ESP_HEADER + packet->text_len);
}

/* Bytes after the IP header according to that header; 0: not a valid frame for us. */
static uint32_t
room_of(const struct esp_frame *frame, const struct rte_mbuf *m)
{
	uint32_t avail = m->data_len - frame->at - frame->ip_len, room;

	if (!frame->v4) {
		room = load_be16(frame->ip + 4);
	} else {
		/* Options and fragments are not accepted. The checksum is verified here unless the device
		 * did. */
		if (frame->ip[0] != 0x45 || (load_be16(frame->ip + 6) & 0x3fff) != 0 ||
		    load_be16(frame->ip + 2) < ESP_IPV4_LEN)
			return 0;
		if ((m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) != RTE_MBUF_F_RX_IP_CKSUM_GOOD &&
		    rte_ipv4_cksum((const struct rte_ipv4_hdr *)frame->ip) != 0)
			return 0;
		room = load_be16(frame->ip + 2) - ESP_IPV4_LEN;
	}
	return room <= avail ? room : 0;
}

static void
hand_over(struct core *core, uint32_t owner, uint16_t port, struct rte_mbuf **place)
{
	frame_info(*place)->parsed = false;
	frame_info(*place)->esp = true;
	frame_info(*place)->port = port;
	frame_info(*place)->far = core->rx_far;
	core_hand_over(core, engine.core[owner], *place);
	*place = NULL;
}

/* Extend the sequence number to 64 bits. False: a replay. Without an owner, the window is as initialized. */
static bool
full_number(const struct esp_sa *sa, uint32_t owner, uint32_t low, uint64_t *out)
{
	if (owner == ESP_NO_OWNER) {
		*out = esp_window_number(sa->begun, low);
		return *out > sa->begun;
	}
	*out = esp_window_number(sa->window.highest, low);
	return esp_window_allows(&sa->window, *out);
}

/* True if the limits admit the packet in addition to those collected. */
static bool
is_admitted(const struct in_run *run, struct esp_sa *sa, uint32_t len)
{
	return sa == run->sa ? esp_sa_admits(sa, run->batch.num + 1, run->text + len)
			     : esp_sa_admits(sa, 1, len);
}

static void
take_esp(struct in_run *run, const struct esp_table *table, uint16_t port, struct rte_mbuf **place,
	 const struct esp_frame *frame)
{
	uint32_t room = room_of(frame, *place), owner;
	uint8_t *esp = frame->ip + frame->ip_len;
	struct in_packet packet = {.place = place,
				   .at = frame->at,
				   .ip_len = frame->ip_len,
				   .text_len = room - ESP_HEADER - ESP_ICV_LEN,
				   .v4 = frame->v4};
	struct core *core = run->core;
	struct esp_sa *sa;

	if (room < ESP_LEAST || room % 4 != 0) {
		esp_drop(core, NULL, place, ENGINE_ESP_LENGTH);
		return;
	}
	sa = esp_table_sa(table, load_be32(esp));
	if (sa == NULL) {
		esp_drop(core, NULL, place, ENGINE_ESP_SPI);
		return;
	}
	if (sa->port != port || !wire_addr_equal(&sa->peer, &frame->src) ||
	    !wire_addr_equal(&sa->local, &frame->dst)) {
		esp_drop(core, sa, place, ENGINE_ESP_ADDRESS);
		return;
	}
	/* Pairs with the exchange in owns_window(). */
	owner = atomic_load_explicit(&sa->owner, memory_order_acquire);
	if (owner != ESP_NO_OWNER && owner != core->index) {
		hand_over(core, owner, port, place);
		return;
	}
	if (!full_number(sa, owner, load_be32(esp + 4), &packet.number))
		esp_drop(core, sa, place, ENGINE_ESP_REPLAY);
	else if (!is_admitted(run, sa, packet.text_len))
		esp_drop(core, sa, place, ENGINE_ESP_LIMIT);
	else
		collect_packet(run, sa, &packet, esp);
}

static void
take_frame(struct in_run *run, const struct esp_table *table, uint16_t port, struct rte_mbuf **place)
{
	struct core *core = run->core;
	const struct esp_peer *peer;
	struct esp_frame frame;

	if (unlikely((*place)->nb_segs > 1)) {
		core->stats.rx_chained++;
		if (rte_pktmbuf_linearize(*place) != 0) {
			core->stats.drop_segments++;
			rte_pktmbuf_free(*place);
			*place = NULL;
			return;
		}
	}
	if (!esp_frame_parse(rte_pktmbuf_mtod(*place, uint8_t *), (*place)->data_len, &frame))
		return;
	if (frame.proto == ESP_PROTO) {
		take_esp(run, table, port, place, &frame);
		return;
	}
	peer = esp_table_peer(table, &frame.src);
	if (peer != NULL && peer->encrypt && !esp_frame_is_discovery(&frame, (*place)->data_len))
		esp_drop(core, NULL, place, ENGINE_ESP_PLAIN);
}

uint16_t
esp_in(struct core *core, uint16_t port, struct rte_mbuf **frames, uint16_t count)
{
	/* Pairs with the exchange in esp_change_commit(). */
	const struct esp_table *table = atomic_load_explicit(&esp_table, memory_order_acquire);
	struct in_run run;
	uint16_t kept = 0;

	if (table == NULL)
		return count;
	run.core = core;
	run.batch.num = 0;
	switch_sa(&run, NULL);
	for (uint16_t i = 0; i < count; i++)
		take_frame(&run, table, port, &frames[i]);
	switch_sa(&run, NULL);
	for (uint16_t i = 0; i < count; i++)
		if (frames[i] != NULL)
			frames[kept++] = frames[i];
	return kept;
}

bool
esp_encrypts(const struct wire_addr *addr)
{
	/* Pairs with the exchange in esp_change_commit(). */
	const struct esp_table *table = atomic_load_explicit(&esp_table, memory_order_acquire);
	const struct esp_peer *peer = table != NULL ? esp_table_peer(table, addr) : NULL;

	return peer != NULL && peer->encrypt;
}

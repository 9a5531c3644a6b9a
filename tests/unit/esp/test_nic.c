/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys in a NIC: what passes it is on the wire, and here, as what the crypto device makes of it; what it
 * refuses is the crypto device's; and neither change of keys nor the end of an upper half of numbers lets
 * pass what should not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"
#include "soft_nic.h"

#include "dataplane/esp/esp.h"
#include "dataplane/esp/keeper.h"
#include "dataplane/esp/table.h"
#include "dataplane/wire/bytes.h"

#define US 0xc0000201u
#define PEER 0xc0000202u
#define EPOCH (1ull << 32)

static char directory[] = "/tmp/oneside-esp.XXXXXX";
static struct peer_key key[4];
static struct config config;
static uint64_t before[ENGINE_ESP_DROP_MAX];

static void
set_sa(struct config_sa *sa, uint32_t spi, uint32_t number)
{
	char name[8];

	snprintf(name, sizeof(name), "%u", number);
	sa->spi = spi;
	snprintf(sa->file, sizeof(sa->file), "%s", peer_key_file(directory, name, &key[number]));
}

static void
set_keys(struct config *to)
{
	struct config_ipsec *ipsec = &to->ipsec[0];

	snprintf(to->state, sizeof(to->state), "%s/state", directory);
	to->num_ipsec = 1;
	strcpy(ipsec->name, "peer");
	ipsec->addr.family = AF_INET;
	memcpy(ipsec->addr.bytes, (uint8_t[]){192, 0, 2, 2}, 4);
	set_sa(&ipsec->out, 0x1001, 0);
	set_sa(&ipsec->in, 0x1002, 1);
	config = *to;
}

/* This thread is core 0: what it uses is freed when it has passed a quiescent state. */
static void
core_runs(bool runs)
{
	if (runs)
		rte_rcu_qsbr_thread_online(engine.rcu, engine.core[0]->lcore);
	else
		rte_rcu_qsbr_thread_offline(engine.rcu, engine.core[0]->lcore);
}

static void
begin(void (*prepare)(struct config *))
{
	fixture_prepare = prepare;
	fixture_start(1, ONE_IDLE_SPIN);
	rte_rcu_qsbr_thread_register(engine.rcu, engine.core[0]->lcore);
	core_runs(true);
}

/* Each key and rule is given back, and no frame came for one that was not there. */
static void
end(void)
{
	char line[128];

	core_runs(false);
	rte_rcu_qsbr_thread_unregister(engine.rcu, engine.core[0]->lcore);
	fixture_stop();
	assert_int_equal(soft_nic.sessions, 0);
	assert_int_equal(soft_nic.rules, 0);
	assert_int_equal(soft_nic.orphans, 0);
	assert_int_equal(soft_nic.malformed, 0);
	memset(&soft_nic, 0, sizeof(soft_nic));
	snprintf(line, sizeof(line), "rm -rf %s/*", directory);
	assert_int_equal(system(line), 0);
}

static int
setup(void **state)
{
	for (uint32_t i = 0; i < RTE_DIM(key); i++)
		peer_key_random(&key[i], i % 2 == 0 ? 36 : 20);
	begin(set_keys);
	return 0;
}

static int
teardown(void **state)
{
	end();
	return 0;
}

static int
group_begin(void **state)
{
	return mkdtemp(directory) != NULL ? 0 : -1;
}

static int
group_end(void **state)
{
	return rmdir(directory);
}

/* Nothing that was retired is left. */
static void
settle(void)
{
	core_runs(false);
	esp_keeper_settle();
	core_runs(true);
}

static void
put_in_force(const struct config *next)
{
	struct esp_change *change;
	char why[512] = "";

	settle();
	if (engine_ipsec_prepare(next, false, &change, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	engine_ipsec_commit(change);
}

static struct esp_sa *
out_sa(void)
{
	return atomic_load(&esp_table)->peer[0].out;
}

static struct esp_sa *
in_sa(void)
{
	return esp_table_sa(atomic_load(&esp_table), 0x1002);
}

static bool
in_nic(struct esp_sa *sa)
{
	return atomic_load(&sa->nic_session) != NULL;
}

/* What another thread does; machines are busy. */
#define AWAIT(condition)                                                           \
	do {                                                                       \
		for (uint32_t left_ = 6000; !(condition); left_--) {               \
			if (left_ == 0)                                            \
				fail_msg("never: %s", #condition);                 \
			rte_rcu_qsbr_quiescent(engine.rcu, engine.core[0]->lcore); \
			nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);  \
		}                                                                  \
	} while (0)

/* Through the port: as it is on the wire, and what comes from there. */
static struct rte_mbuf *
pass_wire(struct rte_mbuf *m)
{
	uint16_t sent = rte_eth_tx_burst(ports[0].device, 0, &m, 1);

	assert_int_equal(sent, 1);
	assert_int_equal(rte_eth_rx_burst(ports[0].device, 0, &m, 1), 1);
	return m;
}

static void
fill(uint8_t *bytes, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)rand();
}

/* ---- out ---- */

static struct rte_mbuf *
pass_out(const uint8_t *payload, uint32_t len)
{
	struct rte_mbuf *m = peer_plain(US, PEER, 17, payload, len);

	return esp_out(engine.core[0], 0, 1500, &m, 1) == 1 ? m : NULL;
}

/* A frame of ours, through the port, as the peer opens it. */
static struct peer_packet
sent(const struct peer_key *with, uint64_t high)
{
	uint8_t payload[100], inside[200];
	struct peer_packet packet;
	struct rte_mbuf *m;

	fill(payload, sizeof(payload));
	m = pass_out(payload, sizeof(payload));
	assert_non_null(m);
	m = pass_wire(m);
	assert_true(peer_open(m, with, high, &packet, inside));
	assert_int_equal(packet.len, sizeof(payload));
	assert_memory_equal(inside, payload, sizeof(payload));
	rte_pktmbuf_free(m);
	return packet;
}

static void
test_out(void **state)
{
	uint8_t payload[1400], inside[1500];
	uint64_t number = 0, frames = 0;

	assert_true(soft_nic.asked && in_nic(out_sa()));
	for (uint32_t len = 1; len <= sizeof(payload); len += 1 + len / 10) {
		struct peer_packet packet;
		struct rte_mbuf *m;

		fill(payload, len);
		m = pass_out(payload, len);
		assert_non_null(m);
		/* Again, as for a frame that the port did not take. */
		assert_int_equal(esp_out(engine.core[0], 0, 1500, &m, 1), 1);
		m = pass_wire(m);
		assert_true(peer_open(m, &key[0], 0, &packet, inside));
		assert_int_equal(packet.spi, 0x1001);
		assert_int_equal(packet.proto, 17);
		assert_int_equal(packet.len, len);
		assert_memory_equal(inside, payload, len);
		assert_int_equal(packet.number, number + 1);
		number = packet.number;
		rte_pktmbuf_free(m);
		assert_int_equal(soft_nic.encrypted, ++frames);
	}
	assert_int_equal(atomic_load(&out_sa()->nic_packets), frames);
	assert_int_equal(engine.core[0]->stats.esp_sent, frames);
}

/* ---- in ---- */

static struct rte_mbuf *
frame_to_us(const struct peer_key *with, uint32_t spi, uint64_t number, const uint8_t *payload, uint32_t len)
{
	struct peer_packet packet = {.spi = spi,
				     .src = PEER,
				     .dst = US,
				     .number = number,
				     .iv = number,
				     .key = with,
				     .proto = 17,
				     .payload = payload,
				     .len = len,
				     .pad = 0xff};

	return peer_frame(&packet);
}

static void
mark(void)
{
	memcpy(before, engine.core[0]->stats.esp_drop, sizeof(before));
}

/* What has been dropped for since mark(), once; ENGINE_ESP_OK: nothing. */
static enum engine_esp_drop
dropped(void)
{
	enum engine_esp_drop reason = ENGINE_ESP_OK;

	for (uint32_t i = 0; i < ENGINE_ESP_DROP_MAX; i++) {
		uint64_t more = engine.core[0]->stats.esp_drop[i] - before[i];

		assert_true(more == 0 || (more == 1 && reason == ENGINE_ESP_OK));
		if (more == 1)
			reason = (enum engine_esp_drop)i;
	}
	return reason;
}

/* Why it is dropped, or ENGINE_ESP_OK and is right. */
static enum engine_esp_drop
take(struct rte_mbuf *m, const uint8_t *payload, uint32_t len)
{
	mark();
	if (esp_in(engine.core[0], 0, &m, 1) == 0)
		return dropped();
	assert_int_equal(dropped(), ENGINE_ESP_OK);
	assert_int_equal(m->data_len, PEER_ETH + PEER_IPV4 + len);
	assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *) + PEER_ETH + PEER_IPV4, payload, len);
	rte_pktmbuf_free(m);
	return ENGINE_ESP_OK;
}

/* By the port. */
static enum engine_esp_drop
received(const struct peer_key *with, uint32_t spi, uint64_t number)
{
	uint8_t payload[100];

	fill(payload, sizeof(payload));
	return take(pass_wire(frame_to_us(with, spi, number, payload, sizeof(payload))), payload,
		    sizeof(payload));
}

static void
test_in(void **state)
{
	uint8_t payload[1400];
	uint64_t number = 0;
	struct rte_mbuf *m;

	assert_true(in_nic(in_sa()));
	for (uint32_t len = 1; len <= sizeof(payload); len += 1 + len / 10) {
		fill(payload, len);
		m = pass_wire(frame_to_us(&key[1], 0x1002, ++number, payload, len));
		assert_int_equal(take(m, payload, len), ENGINE_ESP_OK);
		assert_int_equal(soft_nic.decrypted, number);
	}
	assert_int_equal(atomic_load(&in_sa()->nic_packets), number);
	/* The window is ours. */
	assert_int_equal(received(&key[1], 0x1002, number), ENGINE_ESP_REPLAY);
	assert_int_equal(received(&key[1], 0x1002, 3), ENGINE_ESP_REPLAY);
	/* What comes as it is, is decrypted here. */
	m = frame_to_us(&key[1], 0x1002, number + 1, payload, 64);
	assert_int_equal(take(m, payload, 64), ENGINE_ESP_OK);
	assert_int_equal(received(&key[1], 0x1002, number + 1), ENGINE_ESP_REPLAY);
	assert_int_equal(atomic_load(&in_sa()->packets), number + 1);
	assert_true(in_nic(in_sa()));
}

/* Each bit from the sequence number on; of the SPI it is nobody's. */
static void
test_in_altered(void **state)
{
	uint8_t payload[24] = {4};
	uint32_t esp = PEER_ETH + PEER_IPV4, bits = (PEER_ESP + 28 + 16) * 8;
	struct rte_mbuf *m;

	for (uint32_t bit = 0; bit < bits; bit++) {
		m = frame_to_us(&key[1], 0x1002, 5, payload, sizeof(payload));
		rte_pktmbuf_mtod(m, uint8_t *)[esp + bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(take(pass_wire(m), payload, sizeof(payload)),
				 bit < 32 ? ENGINE_ESP_SPI : ENGINE_ESP_ICV);
	}
	assert_int_equal(soft_nic.failed, bits - 32);
	assert_int_equal(atomic_load(&in_sa()->dropped[ENGINE_ESP_ICV]), bits - 32);
	assert_int_equal(received(&key[1], 0x1002, 5), ENGINE_ESP_OK);
}

/* Frames that the NIC has decrypted and frames that it has not, in one burst and in their order. */
static void
test_in_mixed(void **state)
{
	uint8_t payload[CORE_BURST][64];
	struct rte_mbuf *frames[CORE_BURST];

	for (uint32_t i = 0; i < CORE_BURST; i++) {
		fill(payload[i], 64);
		frames[i] = frame_to_us(&key[1], 0x1002, i + 1, payload[i], 64);
		if (i % 3 != 0)
			frames[i] = pass_wire(frames[i]);
	}
	assert_int_equal(esp_in(engine.core[0], 0, frames, CORE_BURST), CORE_BURST);
	for (uint32_t i = 0; i < CORE_BURST; i++)
		assert_memory_equal(rte_pktmbuf_mtod(frames[i], uint8_t *) + PEER_ETH + PEER_IPV4, payload[i],
				    64);
	rte_pktmbuf_free_bulk(frames, CORE_BURST);
	assert_int_equal(atomic_load(&in_sa()->nic_packets), soft_nic.decrypted);
	assert_int_equal(soft_nic.decrypted, CORE_BURST - (CORE_BURST + 2) / 3);
}

/* ---- what a NIC refuses ---- */

static char *log_text;

static void
set_log(FILE **file)
{
	static size_t len;

	*file = open_memstream(&log_text, &len);
	rte_openlog_stream(*file);
	rte_log_set_level_pattern("oneside.esp*", RTE_LOG_NOTICE);
	rte_log_set_global_level(RTE_LOG_NOTICE);
}

static void
end_log(FILE *file)
{
	rte_openlog_stream(NULL);
	rte_log_set_global_level(RTE_LOG_ERR);
	fclose(file);
}

/* The log says so; without, nothing of NICs.  Traffic passes all the same. */
static void
assert_by(bool out, bool in, const char *reason)
{
	uint64_t encrypted = soft_nic.encrypted, decrypted = soft_nic.decrypted;

	assert_int_equal(in_nic(out_sa()), out);
	assert_int_equal(in_nic(in_sa()), in);
	sent(&key[0], 0);
	assert_int_equal(received(&key[1], 0x1002, 1), ENGINE_ESP_OK);
	assert_int_equal(received(&key[1], 0x1002, 1), ENGINE_ESP_REPLAY);
	assert_int_equal(soft_nic.encrypted - encrypted, out);
	assert_int_equal(soft_nic.decrypted - decrypted, in ? 2 : 0);
	if (reason == NULL)
		assert_null(strstr(log_text, "esp_nic"));
	else if (strstr(log_text, "event=esp_nic_refused") == NULL || strstr(log_text, reason) == NULL ||
		 strstr(log_text, "remedy=") == NULL)
		fail_msg("\"%s\" does not say \"%s\"", log_text, reason);
}

static void
set_refused(struct config *to)
{
	to->port[0].no_inline_esp = true;
	set_keys(to);
}

/* The data plane starts again, with another NIC. */
#define AGAIN(with, prepare, ...)                 \
	do {                                      \
		FILE *log_;                       \
		end();                            \
		soft_nic = (struct soft_nic)with; \
		set_log(&log_);                   \
		begin(prepare);                   \
		end_log(log_);                    \
		assert_by(__VA_ARGS__);           \
		free(log_text);                   \
	} while (0)
#define NIC(...)            \
	{                   \
		__VA_ARGS__ \
	}

static void
test_refused(void **state)
{
	AGAIN(NIC(.no_offload = true), set_keys, false, false, NULL);
	assert_false(soft_nic.asked);
	AGAIN(NIC(.made = 0), set_refused, false, false, NULL);
	assert_false(soft_nic.asked);
	AGAIN(NIC(.no_configuration = true), set_keys, false, false, "refuses to be configured");
	assert_false(soft_nic.asked);
	AGAIN(NIC(.no_context = true), set_keys, false, false, "no security context");
	AGAIN(NIC(.no_esn = true), set_keys, false, false, "no extended sequence numbers");
	AGAIN(NIC(.no_long_keys = true), set_keys, false, true, "no AES-GCM with keys of 32 bytes");
	AGAIN(NIC(.makes_trailers = true), set_keys, false, true, "trailers");
	AGAIN(NIC(.sessions_max = 1), set_keys, true, false, "makes no session");
	AGAIN(NIC(.no_rules = true), set_keys, true, false, "no flow rule");
	assert_int_equal(soft_nic.sessions, 1);
}

static void
set_ipv6(struct config *to)
{
	static const uint8_t prefix[8] = {0x20, 0x01, 0x0d, 0xb8};
	struct config_ipsec *ipsec = &to->ipsec[0];

	set_keys(to);
	to->port[0].addr[0].family = ipsec->addr.family = AF_INET6;
	for (uint8_t i = 0; i < 2; i++) {
		uint8_t *bytes = i == 0 ? to->port[0].addr[0].bytes : ipsec->addr.bytes;

		memset(bytes, 0, 16);
		memcpy(bytes, prefix, sizeof(prefix));
		bytes[15] = (uint8_t)(i + 1);
	}
	config = *to;
}

static void
test_ipv6(void **state)
{
	end();
	begin(set_ipv6);
	assert_true(in_nic(out_sa()) && in_nic(in_sa()));
	end();
	soft_nic.no_ipv6 = true;
	begin(set_ipv6);
	assert_false(in_nic(out_sa()) || in_nic(in_sa()));
}

static void
set_no_keys(struct config *to)
{
	set_keys(to);
	to->num_ipsec = 0;
}

/* The first section comes with a reload: the port has been started as what it was. */
static void
test_late(void **state)
{
	FILE *file;

	end();
	begin(set_no_keys);
	assert_false(soft_nic.asked);
	set_log(&file);
	put_in_force(&config);
	end_log(file);
	assert_by(false, false, "start the data plane anew");
	free(log_text);
}

/* ---- keys come and go ---- */

static void
test_rotation(void **state)
{
	struct config next = config;
	uint8_t payload[64] = {1};
	struct rte_mbuf *held;

	sent(&key[0], 0);
	assert_int_equal(received(&key[1], 0x1002, 1), ENGINE_ESP_OK);
	set_sa(&next.ipsec[0].in_next, 0x2002, 3);
	put_in_force(&next);
	assert_int_equal(soft_nic.sessions, 3);
	assert_int_equal(soft_nic.made, 3);
	assert_int_equal(received(&key[1], 0x1002, 2), ENGINE_ESP_OK);
	assert_int_equal(received(&key[3], 0x2002, 1), ENGINE_ESP_OK);
	/* One waits for the port. */
	held = pass_out(payload, sizeof(payload));
	assert_non_null(held);
	set_sa(&next.ipsec[0].out, 0x2001, 2);
	next.ipsec[0].in = next.ipsec[0].in_next;
	next.ipsec[0].in_next.spi = 0;
	put_in_force(&next);
	assert_int_equal(sent(&key[2], 0).spi, 0x2001);
	assert_int_equal(received(&key[3], 0x2002, 2), ENGINE_ESP_OK);
	assert_int_equal(received(&key[1], 0x1002, 3), ENGINE_ESP_SPI);
	settle();
	assert_int_equal(soft_nic.sessions, 2);
	assert_int_equal(soft_nic.rules, 1);
	/* Its key has gone: it does not leave as it is. */
	mark();
	assert_int_equal(esp_out(engine.core[0], 0, 1500, &held, 1), 0);
	assert_int_equal(dropped(), ENGINE_ESP_NO_SA);
	/* No keys at all, and one that waits. */
	held = pass_out(payload, sizeof(payload));
	assert_non_null(held);
	next.num_ipsec = 0;
	put_in_force(&next);
	settle();
	assert_int_equal(soft_nic.sessions, 0);
	assert_true((port_cares(&ports[0]) & PORT_CARE_ESP) != 0);
	mark();
	assert_int_equal(esp_out(engine.core[0], 0, 1500, &held, 1), 0);
	assert_int_equal(dropped(), ENGINE_ESP_NO_SA);
}

/* A key stays in the NIC until each core has been through as many loops as empty a ring. */
static void
test_linger(void **state)
{
	struct config none = config;
	uint32_t loops = 0;

	none.num_ipsec = 0;
	put_in_force(&none);
	/* The rule goes at once. */
	for (uint32_t left = 6000; soft_nic.rules > 0 && left > 0; left--)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	assert_int_equal(soft_nic.rules, 0);
	assert_int_equal(soft_nic.sessions, 2);
	AWAIT((loops++, soft_nic.sessions) == 0);
	assert_true(loops > ESP_NIC_ROUNDS);
}

/* Another key under an SPI that is in force: frames do not tell which they are of. */
static void
test_same_spi(void **state)
{
	struct config next = config;
	FILE *file;

	assert_int_equal(received(&key[1], 0x1002, 1), ENGINE_ESP_OK);
	set_sa(&next.ipsec[0].in, 0x1002, 3);
	set_log(&file);
	put_in_force(&next);
	end_log(file);
	assert_non_null(strstr(log_text, "an SPI of its own"));
	free(log_text);
	assert_false(in_nic(in_sa()));
	settle();
	assert_int_equal(soft_nic.rules, 0);
	assert_int_equal(received(&key[1], 0x1002, 2), ENGINE_ESP_ICV);
	assert_int_equal(received(&key[3], 0x1002, 3), ENGINE_ESP_OK);
}

/* While the NIC still has the old key of an SPI, what that opens is not taken for the new one's. */
static void
test_old_key(void **state)
{
	struct config next = config;
	uint8_t payload[64] = {1};
	struct rte_mbuf *m = pass_wire(frame_to_us(&key[1], 0x1002, 1, payload, sizeof(payload)));

	set_sa(&next.ipsec[0].in, 0x1002, 3);
	put_in_force(&next);
	assert_int_equal(take(m, payload, sizeof(payload)), ENGINE_ESP_ICV);
}

/* ---- the upper half of numbers ---- */

/* As if so many had been sent; the keeper, which numbers wake when many have been used, sleeps on. */
static void
go_on_with(struct esp_sa *sa, uint64_t number)
{
	atomic_store(&sa->ceiling, 4 * EPOCH);
	atomic_store(&sa->wake_at, UINT64_MAX);
	atomic_store(&sa->next, number);
}

static void
test_out_extended(void **state)
{
	struct esp_sa *sa = out_sa();

	sent(&key[0], 0);
	go_on_with(sa, EPOCH - 2);
	assert_int_equal(sent(&key[0], 0).number, EPOCH - 2);
	assert_int_equal(sent(&key[0], 0).number, EPOCH - 1);
	assert_int_equal(soft_nic.encrypted, 3);
	/* The NIC has been told of the half before; the keeper comes to it. */
	esp_keeper_wake();
	AWAIT(!in_nic(sa) || atomic_load(&sa->nic_session)->high == 1);
	assert_int_equal(sent(&key[0], 1).number, EPOCH);
	AWAIT(in_nic(sa) && atomic_load(&sa->nic_session)->high == 1);
	assert_int_equal(sent(&key[0], 1).number, EPOCH + 1);
	assert_int_equal(soft_nic.made, 3);
	assert_int_equal(soft_nic.sessions, 2);
	assert_true(soft_nic.encrypted >= 4);
}

/* Within a burst. */
static void
test_out_turn(void **state)
{
	uint8_t payload[64] = {1}, inside[128];
	struct rte_mbuf *frames[8];

	go_on_with(out_sa(), EPOCH - 4);
	for (uint32_t i = 0; i < 8; i++)
		frames[i] = peer_plain(US, PEER, 17, payload, sizeof(payload));
	assert_int_equal(esp_out(engine.core[0], 0, 1500, frames, 8), 8);
	for (uint32_t i = 0; i < 8; i++) {
		struct peer_packet packet;

		frames[i] = pass_wire(frames[i]);
		assert_true(peer_open(frames[i], &key[0], i / 4, &packet, inside));
		assert_int_equal(packet.number, EPOCH - 4 + i);
		rte_pktmbuf_free(frames[i]);
	}
	assert_int_equal(soft_nic.encrypted, 4);
}

/* Below the window its lower half means a number that is still to come, which the NIC knows nothing of. */
static void
test_in_old(void **state)
{
	assert_int_equal(received(&key[1], 0x1002, 10), ENGINE_ESP_OK);
	assert_int_equal(received(&key[1], 0x1002, 3 * ESP_WINDOW), ENGINE_ESP_OK);
	assert_int_equal(received(&key[1], 0x1002, 10), ENGINE_ESP_REPLAY);
	assert_int_equal(received(&key[1], 0x1002, 11), ENGINE_ESP_REPLAY);
	assert_int_equal(in_sa()->window.highest, 3 * ESP_WINDOW);
	assert_int_equal(soft_nic.decrypted, 4);
	assert_true(in_nic(in_sa()));
	assert_int_equal(soft_nic.rules, 1);
}

/* The rule goes before the half ends, and another comes behind it; what comes between is decrypted here. */
static void
test_in_extended(void **state)
{
	uint64_t number = EPOCH - (1u << 23);

	assert_int_equal(received(&key[1], 0x1002, number), ENGINE_ESP_OK);
	assert_int_equal(soft_nic.decrypted, 1);
	AWAIT(soft_nic.rules == 0);
	AWAIT(!in_nic(in_sa()) && soft_nic.sessions == 1);
	assert_int_equal(received(&key[1], 0x1002, EPOCH - 1), ENGINE_ESP_OK);
	assert_int_equal(received(&key[1], 0x1002, EPOCH), ENGINE_ESP_OK);
	assert_int_equal(received(&key[1], 0x1002, EPOCH - 2), ENGINE_ESP_OK);
	assert_int_equal(received(&key[1], 0x1002, EPOCH - 1), ENGINE_ESP_REPLAY);
	assert_int_equal(soft_nic.decrypted, 1);
	assert_int_equal(received(&key[1], 0x1002, EPOCH + (1u << 22)), ENGINE_ESP_OK);
	AWAIT(in_nic(in_sa()) && soft_nic.rules == 1);
	assert_int_equal(atomic_load(&in_sa()->nic_session)->high, 1);
	assert_int_equal(received(&key[1], 0x1002, EPOCH + (1u << 22) + 1), ENGINE_ESP_OK);
	assert_int_equal(soft_nic.decrypted, 2);
	assert_int_equal(received(&key[1], 0x1002, EPOCH + (1u << 22) + 1), ENGINE_ESP_REPLAY);
}

/* Until one is taken, by numbers from here on; the one behind it. */
static uint64_t
received_at_last(uint64_t number)
{
	enum engine_esp_drop reason;

	AWAIT((reason = received(&key[1], 0x1002, number++)) == ENGINE_ESP_OK || reason != ENGINE_ESP_ICV);
	assert_int_equal(reason, ENGINE_ESP_OK);
	return number;
}

/* A peer that is far ahead: the NIC cannot open its packets, and nothing else tells of it. */
static void
test_in_ahead(void **state)
{
	uint64_t number;

	assert_int_equal(received(&key[1], 0x1002, 3 * ESP_WINDOW), ENGINE_ESP_OK);
	assert_int_equal(received(&key[1], 0x1002, EPOCH + 7), ENGINE_ESP_ICV);
	number = received_at_last(EPOCH + 8);
	assert_int_equal(in_sa()->window.highest, number - 1);
	number = received_at_last(EPOCH + (1u << 22));
	AWAIT(in_nic(in_sa()) && atomic_load(&in_sa()->nic_session)->high == 1 && soft_nic.rules == 1);
	assert_int_equal(received(&key[1], 0x1002, number), ENGINE_ESP_OK);
	assert_int_equal(soft_nic.decrypted, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_out),      TEST(test_in),       TEST(test_in_altered),  TEST(test_in_mixed),
		TEST(test_refused),  TEST(test_ipv6),     TEST(test_late),        TEST(test_rotation),
		TEST(test_linger),   TEST(test_same_spi), TEST(test_old_key),     TEST(test_out_extended),
		TEST(test_out_turn), TEST(test_in_old),   TEST(test_in_extended), TEST(test_in_ahead),
	};

	return cmocka_run_group_tests(tests, group_begin, group_end);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_cryptodev.h>
#include <rte_dev.h>
#include <rte_random.h>

#include "dataplane/wire/bytes.h"

void
peer_device(const char *driver)
{
	if (driver == NULL || rte_cryptodev_count() > 0 || rte_eal_hotplug_add("vdev", driver, "") == 0)
		return;
	printf("SKIPPED: DPDK has no driver %s\n", driver);
	exit(77);
}

void
peer_key_random(struct peer_key *key, uint32_t len)
{
	key->len = len;
	for (uint32_t i = 0; i < len; i++)
		key->bytes[i] = (uint8_t)rte_rand();
}

const char *
peer_key_file(const char *directory, const char *name, const struct peer_key *key)
{
	static char path[8][128];
	static unsigned int next;
	char *out = path[next++ % 8];
	FILE *file;
	int fd;

	snprintf(out, sizeof(path[0]), "%s/%s", directory, name);
	unlink(out);
	fd = open(out, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	assert_non_null(file);
	for (uint32_t i = 0; i < key->len; i++)
		fprintf(file, "%02x", key->bytes[i]);
	fputc('\n', file);
	assert_int_equal(fclose(file), 0);
	return out;
}

uint16_t
peer_sum(const uint8_t *bytes, uint32_t len)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < len; i += 2)
		sum += load_be16(bytes + i);
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint8_t *
headers(struct rte_mbuf *m, uint32_t src, uint32_t dst, uint8_t proto, uint32_t len)
{
	uint8_t *frame = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(PEER_ETH + PEER_IPV4 + len));
	uint8_t *ip = frame + PEER_ETH;

	assert_non_null(frame);
	memset(frame, 0, PEER_ETH + PEER_IPV4);
	memcpy(frame, ports[0].info.mac, 6);
	frame[6] = 2;
	store_be16(frame + 12, 0x0800);
	ip[0] = 0x45;
	ip[1] = 0x68;
	store_be16(ip + 2, (uint16_t)(PEER_IPV4 + len));
	ip[6] = 0x40;
	ip[8] = 64;
	ip[9] = proto;
	store_be32(ip + 12, src);
	store_be32(ip + 16, dst);
	store_be16(ip + 10, peer_sum(ip, PEER_IPV4));
	return ip + PEER_IPV4;
}

struct rte_mbuf *
peer_plain(uint32_t src, uint32_t dst, uint8_t proto, const uint8_t *payload, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(engine.core[0]->pool);

	assert_non_null(m);
	memcpy(headers(m, src, dst, proto, len), payload, len);
	return m;
}

static void
prepare(struct esp_batch *batch, const struct peer_key *key, const uint8_t *esp, uint64_t number)
{
	batch->num = 0;
	memcpy(batch->nonce[0], key->bytes + key->len - 4, 4);
	memcpy(batch->nonce[0] + 4, esp + 8, 8);
	memcpy(batch->header[0], esp, 4);
	store_be64(batch->header[0] + 4, number);
}

static bool
run_cipher(struct esp_batch *batch, const struct peer_key *key, bool encrypt, uint8_t *text, uint32_t len)
{
	void *session = esp_crypto_session(encrypt, key->bytes, key->len - 4);

	assert_non_null(session);
	esp_batch_add(batch, text, len, text + len);
	esp_crypto_run(engine_num_cores(), session, batch);
	esp_crypto_free(session);
	return batch->status[0] == 0;
}

struct rte_mbuf *
peer_frame(const struct peer_packet *packet)
{
	uint32_t pad = packet->pad != 0xff ? packet->pad : (4 - (packet->len + 2) % 4) % 4;
	uint32_t text = packet->len + (packet->pad != 0xff ? 2 + (4 - (packet->len + 2) % 4) % 4 : pad + 2);
	struct rte_mbuf *m = rte_pktmbuf_alloc(engine.core[0]->pool);
	struct esp_batch batch;
	uint8_t *esp;

	assert_non_null(m);
	esp = headers(m, packet->src, packet->dst, 50, PEER_ESP + text + 16);
	store_be32(esp, packet->spi);
	store_be32(esp + 4, (uint32_t)packet->number);
	store_be64(esp + 8, packet->iv);
	memset(esp + PEER_ESP, 0, text);
	memcpy(esp + PEER_ESP, packet->payload, packet->len);
	for (uint32_t i = 0; i < pad && packet->len + i < text - 2; i++)
		esp[PEER_ESP + packet->len + i] = (uint8_t)(i + 1);
	esp[PEER_ESP + text - 2] = (uint8_t)pad;
	esp[PEER_ESP + text - 1] = packet->proto;
	prepare(&batch, packet->key, esp, packet->number);
	assert_true(run_cipher(&batch, packet->key, true, esp + PEER_ESP, text));
	return m;
}

bool
peer_open(struct rte_mbuf *m, const struct peer_key *key, uint64_t high, struct peer_packet *packet,
	  uint8_t *payload)
{
	uint8_t *ip = rte_pktmbuf_mtod(m, uint8_t *) + PEER_ETH, *esp = ip + PEER_IPV4;
	uint32_t total = load_be16(ip + 2), text = total - PEER_IPV4 - PEER_ESP - 16;
	struct esp_batch batch;

	assert_int_equal(m->data_len, PEER_ETH + total);
	assert_int_equal(ip[9], 50);
	assert_int_equal(peer_sum(ip, PEER_IPV4), 0);
	assert_int_equal(text % 4, 0);
	packet->spi = load_be32(esp);
	packet->number = high << 32 | load_be32(esp + 4);
	packet->iv = load_be64(esp + 8);
	packet->src = load_be32(ip + 12);
	packet->dst = load_be32(ip + 16);
	prepare(&batch, key, esp, packet->number);
	if (!run_cipher(&batch, key, false, esp + PEER_ESP, text))
		return false;
	packet->proto = esp[PEER_ESP + text - 1];
	packet->pad = esp[PEER_ESP + text - 2];
	packet->len = text - 2 - packet->pad;
	for (uint32_t i = 0; i < packet->pad; i++)
		assert_int_equal(esp[PEER_ESP + packet->len + i], i + 1);
	memcpy(payload, esp + PEER_ESP, packet->len);
	return true;
}

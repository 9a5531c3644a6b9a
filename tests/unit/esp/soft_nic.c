/* SPDX-License-Identifier: BSD-3-Clause */
#define ALLOW_EXPERIMENTAL_API
#include "soft_nic.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <rte_cryptodev.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf_dyn.h>
#include <rte_security_driver.h>

#include "dataplane/wire/bytes.h"

#define KEYS 64u
#define ETH 14u
#define ESP 16u
#define ICV 16u

struct key { /* in a session, as drivers have it */
	uint32_t id;
	bool outbound;
	uint32_t spi, high, len;
	uint8_t bytes[32], salt[4], dst[16];
	bool v4;
};

/* What the driver notes in a frame. */
struct note {
	uint32_t id, high;
};

struct rte_flow {
	const struct key *key; /* NULL: no rule */
	uint8_t src[16], dst[16];
	uint32_t spi;
};

struct soft_nic soft_nic;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below, and soft_nic */
static const struct key *keys[KEYS];
static struct rte_flow flows[KEYS];
static int note_offset = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- sessions ---- */

static const struct key *
key_by_id(uint32_t id)
{
	for (uint32_t i = 0; i < KEYS; i++)
		if (keys[i] != NULL && keys[i]->id == id)
			return keys[i];
	return NULL;
}

static bool
takes(const struct rte_security_session_conf *conf)
{
	const struct rte_crypto_aead_xform *aead = &conf->crypto_xform->aead;

	return conf->action_type == RTE_SECURITY_ACTION_TYPE_INLINE_CRYPTO &&
	       conf->protocol == RTE_SECURITY_PROTOCOL_IPSEC &&
	       conf->ipsec.proto == RTE_SECURITY_IPSEC_SA_PROTO_ESP &&
	       conf->ipsec.mode == RTE_SECURITY_IPSEC_SA_MODE_TRANSPORT && conf->ipsec.options.esn &&
	       conf->crypto_xform->type == RTE_CRYPTO_SYM_XFORM_AEAD &&
	       aead->algo == RTE_CRYPTO_AEAD_AES_GCM && aead->digest_length == ICV &&
	       (aead->key.length == 16 || (aead->key.length == 32 && !soft_nic.no_long_keys)) &&
	       !(soft_nic.no_ipv6 && conf->ipsec.tunnel.type == RTE_SECURITY_IPSEC_TUNNEL_IPV6) &&
	       (soft_nic.sessions_max == 0 || soft_nic.sessions < soft_nic.sessions_max);
}

static void
fill(struct key *key, const struct rte_security_session_conf *conf)
{
	key->id = ++soft_nic.made;
	key->outbound = conf->ipsec.direction == RTE_SECURITY_IPSEC_SA_DIR_EGRESS;
	key->spi = conf->ipsec.spi;
	key->high = conf->ipsec.esn.hi;
	key->len = conf->crypto_xform->aead.key.length;
	memcpy(key->bytes, conf->crypto_xform->aead.key.data, key->len);
	memcpy(key->salt, &conf->ipsec.salt, 4);
	key->v4 = conf->ipsec.tunnel.type == RTE_SECURITY_IPSEC_TUNNEL_IPV4;
	if (key->v4)
		memcpy(key->dst, &conf->ipsec.tunnel.ipv4.dst_ip, 4);
	else
		memcpy(key->dst, &conf->ipsec.tunnel.ipv6.dst_addr, 16);
}

static int
session_create(void *device, struct rte_security_session_conf *conf, struct rte_security_session *session)
{
	struct key *key = SECURITY_GET_SESS_PRIV(session);
	int error = -ENOTSUP;

	(void)device;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < KEYS && error != 0 && takes(conf); i++) {
		if (keys[i] != NULL)
			continue;
		memset(key, 0, sizeof(*key));
		fill(key, conf);
		keys[i] = key;
		soft_nic.sessions++;
		error = 0;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

static int
session_destroy(void *device, struct rte_security_session *session)
{
	struct key *key = SECURITY_GET_SESS_PRIV(session);
	int error = -ENOENT;

	(void)device;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < KEYS; i++) {
		if (flows[i].key == key)
			abort(); /* a rule that leads nowhere */
		if (keys[i] != key)
			continue;
		keys[i] = NULL;
		soft_nic.sessions--;
		OPENSSL_cleanse(key, sizeof(*key));
		error = 0;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

static unsigned int
session_size(void *device)
{
	(void)device;
	return sizeof(struct key);
}

static int
set_note(void *device, struct rte_security_session *session, struct rte_mbuf *m, void *params)
{
	const struct key *key = SECURITY_GET_SESS_PRIV(session);
	struct note *note = RTE_MBUF_DYNFIELD(m, note_offset, struct note *);
	const uint64_t *number = params;

	(void)device;
	*note = (struct note){key->id, (uint32_t)(*number >> 32)};
	return 0;
}

/* ---- what it says of itself ---- */

#define GCM(most)                                                                              \
	{                                                                                      \
		.op = RTE_CRYPTO_OP_TYPE_SYMMETRIC,                                            \
		.sym = {.xform_type = RTE_CRYPTO_SYM_XFORM_AEAD,                               \
			.aead = {.algo = RTE_CRYPTO_AEAD_AES_GCM,                              \
				 .block_size = 16,                                             \
				 .key_size = {.min = 16, .max = most, .increment = (most)-16}, \
				 .digest_size = {.min = 16, .max = 16},                        \
				 .aad_size = {.min = 8, .max = 12, .increment = 4},            \
				 .iv_size = {.min = 12, .max = 12}} }                          \
	}
#define NO_MORE                                    \
	{                                          \
		.op = RTE_CRYPTO_OP_TYPE_UNDEFINED \
	}
#define ABLE(way)                                                                                          \
	{                                                                                                  \
		.action = RTE_SECURITY_ACTION_TYPE_INLINE_CRYPTO, .protocol = RTE_SECURITY_PROTOCOL_IPSEC, \
		.ipsec = {                                                                                 \
			.proto = RTE_SECURITY_IPSEC_SA_PROTO_ESP,                                          \
			.mode = RTE_SECURITY_IPSEC_SA_MODE_TRANSPORT,                                      \
			.direction = RTE_SECURITY_IPSEC_SA_DIR_##way                                       \
		}                                                                                          \
	}

static const struct rte_security_capability *
capabilities(void *device)
{
	static const struct rte_cryptodev_capabilities all[] = {GCM(32), NO_MORE},
						       shorter[] = {GCM(16), NO_MORE};
	static struct rte_security_capability able[] = {
		ABLE(EGRESS), ABLE(INGRESS), {.action = RTE_SECURITY_ACTION_TYPE_NONE}};

	(void)device;
	for (uint32_t i = 0; i < 2; i++) {
		able[i].ipsec.options.esn = !soft_nic.no_esn;
		able[i].crypto_capabilities = soft_nic.no_long_keys ? shorter : all;
		able[i].ol_flags = 0;
	}
	able[0].ol_flags = RTE_SECURITY_TX_OLOAD_NEED_MDATA |
			   (soft_nic.makes_trailers ? RTE_SECURITY_TX_HW_TRAILER_OFFLOAD : 0);
	return able;
}

/* ---- the cipher ---- */

/* The text where it is; false: not authentic.  `high`: of the number. */
static bool
run(const struct key *key, bool encrypt, uint32_t high, uint8_t *esp, uint32_t text, uint8_t *icv)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	const EVP_CIPHER *cipher = key->len == 32 ? EVP_aes_256_gcm() : EVP_aes_128_gcm();
	uint8_t nonce[12], aad[12], end[16];
	int len;
	bool good;

	memcpy(nonce, key->salt, 4);
	memcpy(nonce + 4, esp + 8, 8);
	memcpy(aad, esp, 4);
	store_be32(aad + 4, high);
	memcpy(aad + 8, esp + 4, 4);
	good = EVP_CipherInit_ex(context, cipher, NULL, key->bytes, nonce, encrypt) == 1 &&
	       EVP_CipherUpdate(context, NULL, &len, aad, sizeof(aad)) == 1 &&
	       EVP_CipherUpdate(context, esp + ESP, &len, esp + ESP, (int)text) == 1 &&
	       (encrypt || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, ICV, icv) == 1) &&
	       EVP_CipherFinal_ex(context, end, &len) == 1 &&
	       (!encrypt || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, ICV, icv) == 1);
	EVP_CIPHER_CTX_free(context);
	return good;
}

struct view {
	uint8_t *ip, *esp;
	uint32_t l2, l3, text;
	bool v4;
};

/* A frame of ESP, whole, as its IP header says. */
static bool
look(struct rte_mbuf *m, struct view *view)
{
	uint8_t *data = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t total;

	if (m->nb_segs != 1 || m->data_len < ETH + 20)
		return false;
	view->l2 = ETH;
	view->ip = data + ETH;
	view->v4 = load_be16(data + 12) == 0x0800;
	if (!view->v4 && load_be16(data + 12) != 0x86dd)
		return false;
	view->l3 = view->v4 ? 20 : 40;
	if (m->data_len < ETH + view->l3 + ESP + ICV || view->ip[view->v4 ? 9 : 6] != 50)
		return false;
	total = view->v4 ? load_be16(view->ip + 2) : load_be16(view->ip + 4) + 40u;
	if (total > m->data_len - ETH || total < view->l3 + ESP + ICV)
		return false;
	view->esp = view->ip + view->l3;
	view->text = total - view->l3 - ESP - ICV;
	return true;
}

/* ---- frames ---- */

static void
encrypt(struct rte_mbuf *m)
{
	const struct note *note = RTE_MBUF_DYNFIELD(m, note_offset, const struct note *);
	const struct key *key = key_by_id(note->id);
	struct view view;

	if (key == NULL) {
		soft_nic.orphans++;
		return;
	}
	if (!look(m, &view) || m->l2_len != view.l2 || m->l3_len != view.l3 || !key->outbound ||
	    ((m->ol_flags & RTE_MBUF_F_TX_IPV4) != 0) != view.v4 ||
	    ((m->ol_flags & RTE_MBUF_F_TX_IPV6) != 0) == view.v4 || load_be32(view.esp) != key->spi ||
	    memcmp(view.ip + (view.v4 ? 16 : 24), key->dst, view.v4 ? 4 : 16) != 0 ||
	    note->high != key->high) {
		soft_nic.malformed++;
		return;
	}
	run(key, true, key->high, view.esp, view.text, view.esp + ESP + view.text);
	soft_nic.encrypted++;
	m->ol_flags &= ~RTE_MBUF_F_TX_SEC_OFFLOAD; /* a ring that is full has it sent again */
}

static uint16_t
on_tx(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count, void *unused)
{
	pthread_mutex_lock(&lock);
	for (uint16_t i = 0; i < count; i++)
		if ((frames[i]->ol_flags & RTE_MBUF_F_TX_SEC_OFFLOAD) != 0)
			encrypt(frames[i]);
	pthread_mutex_unlock(&lock);
	return count;
}

static const struct key *
key_of(const struct view *view)
{
	uint32_t len = view->v4 ? 4 : 16;

	for (uint32_t i = 0; i < KEYS; i++)
		if (flows[i].key != NULL && flows[i].spi == load_be32(view->esp) &&
		    flows[i].key->v4 == view->v4 &&
		    memcmp(flows[i].src, view->ip + (view->v4 ? 12 : 8), len) == 0 &&
		    memcmp(flows[i].dst, view->ip + (view->v4 ? 16 : 24), len) == 0)
			return flows[i].key;
	return NULL;
}

static void
decrypt(struct rte_mbuf *m)
{
	const struct key *key;
	struct view view;

	if ((m->ol_flags & RTE_MBUF_F_RX_SEC_OFFLOAD) != 0)
		return; /* a port that was started again calls twice */
	m->ol_flags &= ~(RTE_MBUF_F_TX_SEC_OFFLOAD | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6);
	if (!look(m, &view) || (key = key_of(&view)) == NULL)
		return;
	m->ol_flags |= RTE_MBUF_F_RX_SEC_OFFLOAD;
	if (run(key, false, key->high, view.esp, view.text, view.esp + ESP + view.text)) {
		soft_nic.decrypted++;
	} else {
		m->ol_flags |= RTE_MBUF_F_RX_SEC_OFFLOAD_FAILED;
		soft_nic.failed++;
	}
}

static uint16_t
on_rx(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count, uint16_t most, void *unused)
{
	pthread_mutex_lock(&lock);
	for (uint16_t i = 0; i < count; i++)
		decrypt(frames[i]);
	pthread_mutex_unlock(&lock);
	return count;
}

/* ---- in place of DPDK's ---- */

int
rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
	int error = REAL(rte_eth_dev_info_get)(port, info);

	if (soft_nic.no_offload)
		return error;
	info->rx_offload_capa |= RTE_ETH_RX_OFFLOAD_SECURITY;
	info->tx_offload_capa |= RTE_ETH_TX_OFFLOAD_SECURITY;
	return error;
}

int
rte_eth_dev_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, const struct rte_eth_conf *conf)
{
	struct rte_eth_conf device = *conf;

	soft_nic.asked = (conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_SECURITY) != 0 &&
			 (conf->txmode.offloads & RTE_ETH_TX_OFFLOAD_SECURITY) != 0;
	if (soft_nic.asked && soft_nic.no_configuration)
		return -EINVAL;
	device.rxmode.offloads &= ~RTE_ETH_RX_OFFLOAD_SECURITY;
	device.txmode.offloads &= ~RTE_ETH_TX_OFFLOAD_SECURITY;
	return REAL(rte_eth_dev_configure)(port, rx_queues, tx_queues, &device);
}

void *
rte_eth_dev_get_sec_ctx(uint16_t port)
{
	static const struct rte_security_ops ops = {.session_create = session_create,
						    .session_destroy = session_destroy,
						    .session_get_size = session_size,
						    .set_pkt_metadata = set_note,
						    .capabilities_get = capabilities};
	static struct rte_security_ctx context = {.ops = &ops};

	(void)port;
	return soft_nic.no_context ? NULL : &context;
}

int
rte_eth_dev_start(uint16_t port)
{
	static const struct rte_mbuf_dynfield field = {
		.name = "soft_nic_note", .size = sizeof(struct note), .align = sizeof(uint32_t)};
	int error = REAL(rte_eth_dev_start)(port);
	struct rte_eth_dev_info info;

	if (error != 0 || !soft_nic.asked || REAL(rte_eth_dev_info_get)(port, &info) != 0)
		return error;
	note_offset = rte_mbuf_dynfield_register(&field);
	for (uint16_t i = 0; i < info.nb_rx_queues; i++)
		rte_eth_add_rx_callback(port, i, on_rx, NULL);
	for (uint16_t i = 0; i < info.nb_tx_queues; i++)
		rte_eth_add_tx_callback(port, i, on_tx, NULL);
	return 0;
}

int
rte_flow_validate(uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
		  const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	return -ENOTSUP; /* no rules to queues */
}

static void
understand(struct rte_flow *flow, const struct rte_flow_item pattern[],
	   const struct rte_flow_action actions[])
{
	const struct rte_flow_item_esp *esp = pattern[2].spec;

	memset(flow, 0, sizeof(*flow));
	if (pattern[0].type != RTE_FLOW_ITEM_TYPE_ETH || pattern[2].type != RTE_FLOW_ITEM_TYPE_ESP ||
	    pattern[3].type != RTE_FLOW_ITEM_TYPE_END || actions[0].type != RTE_FLOW_ACTION_TYPE_SECURITY ||
	    actions[1].type != RTE_FLOW_ACTION_TYPE_END)
		return;
	if (pattern[1].type == RTE_FLOW_ITEM_TYPE_IPV4) {
		const struct rte_flow_item_ipv4 *ip = pattern[1].spec;

		memcpy(flow->src, &ip->hdr.src_addr, 4);
		memcpy(flow->dst, &ip->hdr.dst_addr, 4);
	} else {
		const struct rte_flow_item_ipv6 *ip = pattern[1].spec;

		memcpy(flow->src, &ip->hdr.src_addr, 16);
		memcpy(flow->dst, &ip->hdr.dst_addr, 16);
	}
	flow->spi = rte_be_to_cpu_32(esp->hdr.spi);
	flow->key = (const void *)((const struct rte_security_session *)actions[0].conf)->driver_priv_data;
}

struct rte_flow *
rte_flow_create(uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
		const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	struct rte_flow *made = NULL, wanted;

	understand(&wanted, pattern, actions);
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < KEYS && made == NULL && wanted.key != NULL && !soft_nic.no_rules; i++) {
		if (flows[i].key != NULL)
			continue;
		made = &flows[i];
		*made = wanted;
		soft_nic.rules++;
	}
	pthread_mutex_unlock(&lock);
	return made;
}

int
rte_flow_destroy(uint16_t port, struct rte_flow *flow, struct rte_flow_error *error)
{
	pthread_mutex_lock(&lock);
	flow->key = NULL;
	soft_nic.rules--;
	pthread_mutex_unlock(&lock);
	return 0;
}

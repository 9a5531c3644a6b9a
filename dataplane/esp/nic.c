/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys in NICs.  An outbound key is a session of the NIC's; an inbound one is a session and a flow rule,
 * which leads the frames of its SPI and addresses there.
 *
 * A NIC that decrypts sees the lower half of a number, authenticates with the upper half that its session
 * has, and has no window.  So what it has found authentic is taken only where our window comes to the same
 * upper half: else a frame of 2^32 numbers ago would be new.  And the rule goes before the upper half ends;
 * when its rings have been emptied and the numbers are well into the next, a session for that takes over.
 * Between them the crypto device decrypts.
 *
 * A key that the NIC has is in frames that wait in its rings: it stays there until they have left.
 */
#define ALLOW_EXPERIMENTAL_API /* the driver's note in a frame */
#include "dataplane/esp/nic.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cryptodev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_log.h>
#include <rte_mempool.h>
#include <rte_security.h>

#include "config/secret.h"
#include "dataplane/esp/table.h"

RTE_LOG_REGISTER(esp_nic_logtype, oneside.esp.nic, NOTICE);
#define log_notice(...) rte_log(RTE_LOG_NOTICE, (uint32_t)esp_nic_logtype, __VA_ARGS__)
#define log_warning(...) rte_log(RTE_LOG_WARNING, (uint32_t)esp_nic_logtype, __VA_ARGS__)

#define SESSIONS (2 * ESP_SAS_MAX) /* of a port: those that go and those that come in one change */
#define LIBRARY_PART (2 * RTE_CACHE_LINE_SIZE) /* of a session, before its driver's */
#define LAST (1u << 24)  /* numbers of an upper half that are not the NIC's: the keeper looks each 2^20 */
#define FIRST (1u << 16) /* the same: in front of them is the window */

struct esp_nic {
	struct config_secret *key;
	struct esp_nic_session *session; /* NULL: none at the moment */
	struct rte_flow *rule;           /* inbound; NULL: frames come as they are */
	bool refused;                    /* there will be no other */
	bool leaving;                    /* the session goes, after these: */
	struct esp_rounds rounds;
};

struct offer {
	bool there;
	const char *off; /* why it is not used; NULL: it is */
	uint16_t device;
	const char *name;
	struct rte_mempool *sessions;
};

static struct offer offers[CONFIG_PORTS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* devices' sessions, their pools, and `last_id` */
static uint32_t last_id;

void
esp_nic_offer(uint16_t port, uint16_t device, const char *name, const char *off)
{
	offers[port] = (struct offer){.there = true, .off = off, .device = device, .name = name};
}

void
esp_nic_close(void)
{
	for (uint32_t i = 0; i < CONFIG_PORTS_MAX; i++)
		rte_mempool_free(offers[i].sessions);
	memset(offers, 0, sizeof(offers));
}

/* ---- what it says of itself ---- */

static bool
in_range(const struct rte_crypto_param_range *range, uint32_t value)
{
	if (value < range->min || value > range->max)
		return false;
	return value == range->min || value == range->max ||
	       (range->increment != 0 && (value - range->min) % range->increment == 0);
}

static bool
has_gcm(const struct rte_cryptodev_capabilities *has, uint32_t key_len)
{
	for (; has != NULL && has->op != RTE_CRYPTO_OP_TYPE_UNDEFINED; has++)
		if (has->op == RTE_CRYPTO_OP_TYPE_SYMMETRIC &&
		    has->sym.xform_type == RTE_CRYPTO_SYM_XFORM_AEAD &&
		    has->sym.aead.algo == RTE_CRYPTO_AEAD_AES_GCM &&
		    in_range(&has->sym.aead.key_size, key_len) &&
		    in_range(&has->sym.aead.digest_size, ESP_ICV_LEN))
			return true;
	return false;
}

static enum rte_security_ipsec_sa_direction
direction_of(const struct esp_sa *sa)
{
	return sa->outbound ? RTE_SECURITY_IPSEC_SA_DIR_EGRESS : RTE_SECURITY_IPSEC_SA_DIR_INGRESS;
}

static bool
is_for(const struct rte_security_capability *has, enum rte_security_ipsec_sa_direction direction)
{
	return has->action == RTE_SECURITY_ACTION_TYPE_INLINE_CRYPTO &&
	       has->protocol == RTE_SECURITY_PROTOCOL_IPSEC &&
	       has->ipsec.proto == RTE_SECURITY_IPSEC_SA_PROTO_ESP &&
	       has->ipsec.mode == RTE_SECURITY_IPSEC_SA_MODE_TRANSPORT && has->ipsec.direction == direction;
}

/* The capability that the key needs; NULL, and in `why` what is missing. */
static const struct rte_security_capability *
find_capability(void *context, enum rte_security_ipsec_sa_direction direction, uint32_t key_len,
		const char **why)
{
	const uint32_t trailers = RTE_SECURITY_TX_HW_TRAILER_OFFLOAD | RTE_SECURITY_RX_HW_TRAILER_OFFLOAD;
	const struct rte_security_capability *has = rte_security_capabilities_get(context);

	*why = "it has no inline crypto for ESP in transport mode";
	for (; has != NULL && has->action != RTE_SECURITY_ACTION_TYPE_NONE; has++) {
		if (!is_for(has, direction))
			continue;
		if (!has->ipsec.options.esn)
			*why = "it has no extended sequence numbers";
		else if ((has->ol_flags & trailers) != 0)
			*why = "it makes or takes off trailers, which are ours";
		else if (!has_gcm(has->crypto_capabilities, key_len))
			*why = key_len == 16 ? "it has no AES-GCM with keys of 16 bytes"
					     : "it has no AES-GCM with keys of 32 bytes";
		else
			return has;
	}
	return NULL;
}

/* ---- sessions ---- */

/* Drivers have keys in their sessions: out of core dumps with them. */
static struct rte_mempool *
pool_of(struct offer *offer, void *context)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	if (offer->sessions != NULL)
		return offer->sessions;
	snprintf(name, sizeof(name), "oneside_nic_%u", offer->device);
	offer->sessions =
		rte_mempool_create(name, SESSIONS, rte_security_session_get_size(context) + LIBRARY_PART, 0,
				   0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);
	if (offer->sessions != NULL && !esp_crypto_hide_pool(offer->sessions)) {
		rte_mempool_free(offer->sessions);
		offer->sessions = NULL;
	}
	return offer->sessions;
}

/* Drivers look for the addresses here in transport mode, too. */
static void
set_addresses(struct rte_security_ipsec_tunnel_param *to, const struct esp_sa *sa)
{
	const uint8_t *src = sa->outbound ? sa->local.gid : sa->peer.gid;
	const uint8_t *dst = sa->outbound ? sa->peer.gid : sa->local.gid;

	if (wire_addr_is_v4(&sa->peer)) {
		to->type = RTE_SECURITY_IPSEC_TUNNEL_IPV4;
		memcpy(&to->ipv4.src_ip, src + 12, 4);
		memcpy(&to->ipv4.dst_ip, dst + 12, 4);
	} else {
		to->type = RTE_SECURITY_IPSEC_TUNNEL_IPV6;
		memcpy(&to->ipv6.src_addr, src, 16);
		memcpy(&to->ipv6.dst_addr, dst, 16);
	}
}

/* Some drivers read the salt behind the key, where it is in the secret. */
static void *
make_in_device(struct offer *offer, void *context, const struct esp_sa *sa, const uint8_t *key,
	       uint32_t key_len, uint64_t number)
{
	struct rte_crypto_sym_xform xform = {
		.type = RTE_CRYPTO_SYM_XFORM_AEAD,
		.aead = {.op = sa->outbound ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT,
			 .algo = RTE_CRYPTO_AEAD_AES_GCM,
			 .key = {.data = key, .length = (uint16_t)key_len},
			 .iv = {.length = ESP_SALT_LEN + ESP_IV_LEN},
			 .digest_length = ESP_ICV_LEN,
			 .aad_length = ESP_AAD_LEN}};
	struct rte_security_session_conf conf = {.action_type = RTE_SECURITY_ACTION_TYPE_INLINE_CRYPTO,
						 .protocol = RTE_SECURITY_PROTOCOL_IPSEC,
						 .ipsec = {.spi = sa->spi,
							   .options.esn = 1,
							   .direction = direction_of(sa),
							   .proto = RTE_SECURITY_IPSEC_SA_PROTO_ESP,
							   .mode = RTE_SECURITY_IPSEC_SA_MODE_TRANSPORT,
							   .esn.value = number},
						 .crypto_xform = &xform};
	struct rte_mempool *pool = pool_of(offer, context);

	memcpy(&conf.ipsec.salt, sa->salt, ESP_SALT_LEN);
	set_addresses(&conf.ipsec.tunnel, sa);
	return pool != NULL ? rte_security_session_create(context, &conf, pool) : NULL;
}

static void
end_session(struct esp_nic_session *session)
{
	pthread_mutex_lock(&lock);
	rte_security_session_destroy(session->context, session->session);
	pthread_mutex_unlock(&lock);
	free(session);
}

/* NULL: refused. */
static struct esp_nic_session *
begin_session(const struct esp_sa *sa, uint64_t number, const char **why)
{
	struct esp_nic_session *session = calloc(1, sizeof(*session));
	struct offer *offer = &offers[sa->port];
	void *context = rte_eth_dev_get_sec_ctx(offer->device);
	const struct rte_security_capability *has = NULL;
	size_t len;
	const uint8_t *key = config_secret_bytes(sa->nic->key, &len);

	*why = "it has no security context";
	if (context != NULL)
		has = find_capability(context, direction_of(sa), (uint32_t)len - ESP_SALT_LEN, why);
	if (session == NULL || has == NULL) {
		free(session);
		return NULL;
	}
	*why = "its driver makes no session: it has no room, or does not take such a key or address";
	pthread_mutex_lock(&lock);
	session->session = make_in_device(offer, context, sa, key, (uint32_t)len - ESP_SALT_LEN, number);
	session->id = ++last_id;
	pthread_mutex_unlock(&lock);
	session->high = (uint32_t)(number >> 32);
	session->describes = (has->ol_flags & RTE_SECURITY_TX_OLOAD_NEED_MDATA) != 0;
	session->context = context;
	if (session->session != NULL)
		return session;
	free(session);
	return NULL;
}

/* ---- flow rules ---- */

static struct rte_flow *
make_rule(const struct esp_sa *sa, void *session)
{
	const struct rte_flow_attr attr = {.ingress = 1};
	const struct rte_flow_item_esp esp = {.hdr.spi = rte_cpu_to_be_32(sa->spi)};
	const struct rte_flow_item_esp esp_mask = {.hdr.spi = UINT32_MAX};
	const struct rte_flow_item_ipv4 v4_mask = {.hdr.src_addr = UINT32_MAX, .hdr.dst_addr = UINT32_MAX};
	struct rte_flow_item_ipv4 v4 = {0};
	struct rte_flow_item_ipv6 v6 = {0}, v6_mask = {0};
	struct rte_flow_item pattern[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &v4, .mask = &v4_mask},
		{.type = RTE_FLOW_ITEM_TYPE_ESP, .spec = &esp, .mask = &esp_mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_SECURITY, .conf = session},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rte_flow_error error;

	if (wire_addr_is_v4(&sa->peer)) {
		memcpy(&v4.hdr.src_addr, sa->peer.gid + 12, 4);
		memcpy(&v4.hdr.dst_addr, sa->local.gid + 12, 4);
	} else {
		memcpy(&v6.hdr.src_addr, sa->peer.gid, 16);
		memcpy(&v6.hdr.dst_addr, sa->local.gid, 16);
		memset(&v6_mask.hdr.src_addr, 0xff, 16);
		memset(&v6_mask.hdr.dst_addr, 0xff, 16);
		pattern[1] = (struct rte_flow_item){
			.type = RTE_FLOW_ITEM_TYPE_IPV6, .spec = &v6, .mask = &v6_mask};
	}
	return rte_flow_create(offers[sa->port].device, &attr, pattern, actions, &error);
}

/* ---- a key's life ---- */

void
esp_nic_refuse(const struct esp_sa *sa, const char *name, const char *why)
{
	if (offers[sa->port].there)
		log_warning("event=esp_nic_refused ipsec=%s spi=%#" PRIx32
			    " port=%s text=\"the crypto device %s, and not the NIC: %s\" "
			    "remedy=\"none is needed; inline_esp = no at the port leaves its NIC out\"\n",
			    name, sa->spi, offers[sa->port].name, sa->outbound ? "encrypts" : "decrypts",
			    why);
}

static uint64_t
next_number(const struct esp_sa *sa)
{
	return atomic_load_explicit(&sa->next, memory_order_relaxed); /* where it is about */
}

/* What comes next may have another upper half than it seems. */
static bool
is_at_turn(const struct esp_sa *sa)
{
	uint64_t next = next_number(sa);

	return !sa->outbound && ((uint32_t)next >= -LAST || (next >> 32 != 0 && (uint32_t)next < FIRST));
}

static void
publish(struct esp_sa *sa, struct esp_nic_session *session)
{
	/* Pairs with the loads of cores. */
	atomic_store_explicit(&sa->nic_session, session, memory_order_release);
}

static void
give_up(struct esp_sa *sa, const char *name, const char *why)
{
	esp_nic_refuse(sa, name, why);
	esp_nic_end(sa);
}

/* Frames of an inbound key may come decrypted as soon as there is the rule. */
static void
engage(struct esp_sa *sa, const char *name)
{
	struct esp_nic *nic = sa->nic;
	const char *why;

	atomic_store_explicit(&sa->nic_astray, ESP_BELOW, memory_order_relaxed); /* of the session before */
	nic->session = begin_session(sa, next_number(sa), &why);
	if (nic->session == NULL) {
		give_up(sa, name, why);
		return;
	}
	publish(sa, nic->session);
	if (sa->outbound)
		return;
	nic->rule = make_rule(sa, nic->session->session);
	if (nic->rule != NULL)
		return;
	esp_nic_refuse(sa, name, "it takes no flow rule to the key");
	nic->refused = true;
	publish(sa, NULL);
	nic->leaving = true;
	esp_rounds_begin(&nic->rounds, 1);
}

void
esp_nic_begin(struct esp_sa *sa, const char *name, struct config_secret *key)
{
	const struct offer *offer = &offers[sa->port];

	if (!offer->there)
		return;
	if (offer->off != NULL) {
		esp_nic_refuse(sa, name, offer->off);
		return;
	}
	sa->nic = calloc(1, sizeof(*sa->nic));
	if (sa->nic == NULL) {
		esp_nic_refuse(sa, name, "there is no memory");
		return;
	}
	sa->nic->key = config_secret_hold(key);
	if (!is_at_turn(sa))
		engage(sa, name);
	if (sa->nic != NULL && sa->nic->refused)
		esp_nic_end(sa); /* no core has seen it */
	if (sa->nic != NULL)
		log_notice("event=esp_nic ipsec=%s spi=%#" PRIx32 " port=%s text=\"the NIC %s\"\n", name,
			   sa->spi, offer->name, sa->outbound ? "encrypts" : "decrypts");
}

static void
take_back_rule(const struct esp_sa *sa)
{
	struct rte_flow_error error;

	if (sa->nic->rule != NULL && rte_flow_destroy(offers[sa->port].device, sa->nic->rule, &error) != 0)
		log_warning("event=esp_nic_rule spi=%#" PRIx32
			    " port=%s text=\"the NIC does not give back the flow rule to its key\" "
			    "remedy=\"give the peer's key another SPI\"\n",
			    sa->spi, offers[sa->port].name);
	sa->nic->rule = NULL;
}

/* The numbers are no longer the session's, or soon will not be. */
static bool
is_past(const struct esp_sa *sa)
{
	uint64_t next = next_number(sa);

	/* Pairs with esp_sa_stray. */
	return next >> 32 != sa->nic->session->high || (!sa->outbound && (uint32_t)next >= -LAST) ||
	       atomic_load_explicit(&sa->nic_astray, memory_order_relaxed) != ESP_BELOW;
}

/* What it has decrypted by now is still taken: it is in rings. */
static void
retreat(struct esp_sa *sa)
{
	take_back_rule(sa);
	if (sa->outbound)
		publish(sa, NULL);
	sa->nic->leaving = true;
	esp_rounds_begin(&sa->nic->rounds, sa->outbound ? ESP_NIC_ROUNDS + 1 : ESP_NIC_ROUNDS);
}

/* True: it has gone. */
static bool
leave(struct esp_sa *sa)
{
	struct esp_nic *nic = sa->nic;

	if (!esp_rounds_over(&nic->rounds))
		return false;
	/* This thread's own store. */
	if (atomic_load_explicit(&sa->nic_session, memory_order_relaxed) != NULL) {
		publish(sa, NULL);
		esp_rounds_begin(&nic->rounds, 1);
		return false;
	}
	end_session(nic->session);
	nic->session = NULL;
	nic->leaving = false;
	return true;
}

bool
esp_nic_tend(struct esp_sa *sa, const char *name)
{
	struct esp_nic *nic = sa->nic;

	if (nic == NULL)
		return false;
	if (nic->session != NULL && !nic->leaving) {
		if (!is_past(sa))
			return false;
		retreat(sa);
	}
	if (nic->session != NULL && !leave(sa))
		return true;
	if (nic->refused)
		esp_nic_end(sa);
	else if (!is_at_turn(sa))
		engage(sa, name);
	return sa->nic != NULL && sa->nic->leaving;
}

bool
esp_nic_stop(struct esp_sa *sa)
{
	if (sa->nic == NULL)
		return false;
	take_back_rule(sa);
	return sa->nic->session != NULL;
}

void
esp_nic_end(struct esp_sa *sa)
{
	struct esp_nic *nic = sa->nic;

	if (nic == NULL)
		return;
	take_back_rule(sa);
	publish(sa, NULL);
	if (nic->session != NULL)
		end_session(nic->session);
	config_secret_drop(nic->key);
	free(nic);
	sa->nic = NULL;
}

/* ---- frames ---- */

bool
esp_nic_send(const struct esp_nic_session *session, struct rte_mbuf *m, uint32_t ip_at, uint32_t ip_len,
	     bool v4, uint64_t number)
{
	m->tx_offload = rte_mbuf_tx_offload(ip_at, ip_len, 0, 0, 0, 0, 0);
	m->ol_flags |= RTE_MBUF_F_TX_SEC_OFFLOAD | (v4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
	return !session->describes ||
	       rte_security_set_pkt_metadata(session->context, session->session, m, &number) == 0;
}

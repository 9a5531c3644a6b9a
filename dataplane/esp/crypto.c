/* SPDX-License-Identifier: BSD-3-Clause */
/* A core has its frames in the cache and nothing else to do with them meanwhile, so the device has to compute
 * on the calling core: by CPU crypto if available, else by operations that are complete when enqueued. Cores
 * never wait for accelerator hardware. */
#define ALLOW_EXPERIMENTAL_API /* for CPU crypto and session pools */
#include "dataplane/esp/crypto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_cpuflags.h>
#include <rte_cryptodev.h>
#include <rte_dev.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <rte_version.h>

#include "config/address.h"

RTE_LOG_REGISTER(esp_crypto_logtype, oneside.esp.crypto, NOTICE);
#define log_notice(...) rte_log(RTE_LOG_NOTICE, (uint32_t)esp_crypto_logtype, __VA_ARGS__)
#define log_warning(...) rte_log(RTE_LOG_WARNING, (uint32_t)esp_crypto_logtype, __VA_ARGS__)

#define AESNI_GCM "crypto_aesni_gcm"
#define OPENSSL "crypto_openssl"
#define OWN "_oneside"
#define SESSIONS 1024u /* all security associations, old and new ones during a change */
#define DESCRIPTORS (4 * ESP_BATCH)
#define LATE_POLLS 1000 /* polls, one per millisecond, for an operation that was not complete at once */
#define NONCE_LEN (ESP_SALT_LEN + ESP_IV_LEN)
#define NONCE_OFFSET (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))

/* Operations of one caller. */
struct queue {
	struct rte_crypto_op *op[ESP_BATCH];
	struct rte_mbuf text[ESP_BATCH]; /* describes bytes that are elsewhere */
} __rte_cache_aligned;

static struct {
	bool open, started;
	bool own;    /* this file created the device */
	bool on_cpu; /* the device has CPU crypto and needs no queues */
	int dumpable;
	uint8_t device;
	uint32_t queues;
	struct rte_cryptodev_info info;
	struct rte_mempool *sessions, *ops;
	struct queue *queue;
} crypto;

bool
esp_crypto_hide(void *memory, size_t len)
{
	/* The kernel refuses MADV_DONTDUMP for a part of a huge page. */
	const struct rte_memseg_list *list = rte_mem_virt2memseg_list(memory);
	uintptr_t page = list != NULL ? (uintptr_t)list->page_sz : (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = RTE_ALIGN_FLOOR((uintptr_t)memory, page);
	uintptr_t to = RTE_ALIGN_CEIL((uintptr_t)memory + len, page);

	return madvise((void *)from, to - from, MADV_DONTDUMP) == 0;
}

static void
hide_chunk(struct rte_mempool *pool, void *hidden, struct rte_mempool_memhdr *memory, unsigned int index)
{
	(void)pool, (void)index;
	if (!esp_crypto_hide(memory->addr, memory->len))
		*(bool *)hidden = false;
}

static bool
hide_pool(struct rte_mempool *pool)
{
	bool hidden = true;

	rte_mempool_mem_iter(pool, hide_chunk, &hidden);
	return hidden;
}

/* ---- operations ---- */

/* Fill in the operation and the buffer of packet `i`. */
static void
describe_packet(struct queue *queue, uint32_t i, void *session, const struct esp_batch *batch)
{
	struct rte_crypto_op *op = queue->op[i];
	struct rte_mbuf *text = &queue->text[i];

	text->buf_addr = batch->text[i].base;
	text->buf_len = text->data_len = (uint16_t)batch->text[i].len;
	text->pkt_len = batch->text[i].len;
	op->status = RTE_CRYPTO_OP_STATUS_NOT_PROCESSED;
	rte_crypto_op_attach_sym_session(op, session);
	op->sym->m_src = text;
	op->sym->aead.data.length = batch->text[i].len;
	op->sym->aead.digest.data = batch->icv[i].va;
	op->sym->aead.aad.data = batch->aad[i].va;
	memcpy(rte_crypto_op_ctod_offset(op, uint8_t *, NONCE_OFFSET), batch->nonce[i], NONCE_LEN);
}

/* Wait until all have come back: a buffer that the device still has must not be freed. */
static void
await_operations(uint16_t id, uint16_t count)
{
	struct rte_crypto_op *done[ESP_BATCH];

	while (count > 0)
		count -= rte_cryptodev_dequeue_burst(crypto.device, id, done, count);
}

static void
run_by_queue(uint16_t id, void *session, struct esp_batch *batch)
{
	struct queue *queue = &crypto.queue[id];

	for (uint32_t i = 0; i < batch->num; i++)
		describe_packet(queue, i, session, batch);
	/* An operation that the device does not accept has failed; continue after it. */
	for (uint32_t at = 0; at < batch->num; at++) {
		uint16_t taken = rte_cryptodev_enqueue_burst(crypto.device, id, &queue->op[at],
							     (uint16_t)(batch->num - at));

		await_operations(id, taken);
		at += taken;
	}
	for (uint32_t i = 0; i < batch->num; i++)
		batch->status[i] = queue->op[i]->status == RTE_CRYPTO_OP_STATUS_SUCCESS ? 0 : -1;
}

static void
run_on_cpu(void *session, struct esp_batch *batch)
{
	static const union rte_crypto_sym_ofs all = {.raw = 0};
	struct rte_crypto_sym_vec vec = {.num = batch->num,
					 .src_sgl = batch->sgl,
					 .iv = batch->iv,
					 .aad = batch->aad,
					 .digest = batch->icv,
					 .status = batch->status};

	rte_cryptodev_sym_cpu_crypto_process(crypto.device, session, all, &vec);
}

void
esp_crypto_run(uint32_t core, void *session, struct esp_batch *batch)
{
	if (likely(crypto.on_cpu))
		run_on_cpu(session, batch);
	else
		run_by_queue((uint16_t)core, session, batch);
}

/* ---- sessions ---- */

void *
esp_crypto_session(bool encrypt, const uint8_t *key, uint32_t key_len)
{
	struct rte_crypto_sym_xform xform = {
		.type = RTE_CRYPTO_SYM_XFORM_AEAD,
		.aead = {.op = encrypt ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT,
			 .algo = RTE_CRYPTO_AEAD_AES_GCM,
			 .key = {.data = key, .length = (uint16_t)key_len},
			 .iv = {.offset = NONCE_OFFSET, .length = NONCE_LEN},
			 .digest_length = ESP_ICV_LEN,
			 .aad_length = ESP_AAD_LEN}};

	return rte_cryptodev_sym_session_create(crypto.device, &xform, crypto.sessions);
}

void
esp_crypto_free(void *session)
{
	/* The driver clears its copy of the key. */
	if (session != NULL)
		rte_cryptodev_sym_session_free(crypto.device, session);
}

/* ---- the device ---- */

static int
refuse_device(char *why, size_t why_len, int error, const char *what)
{
	return config_refuse(why, why_len, error, "the crypto device %s %s",
			     rte_cryptodev_name_get(crypto.device), what);
}

/* The OpenSSL driver of earlier releases has one context per key: cores that use it concurrently corrupt each
 * other's packets. Later releases have one per queue. */
static bool
shares_contexts(void)
{
	unsigned int release = rte_version_year() * 100 + rte_version_month(), minor = rte_version_minor();

	if (strcmp(crypto.info.driver_name, OPENSSL) != 0)
		return false;
	return release < 2211 || (release == 2211 && minor < 6) || (release > 2211 && release < 2311) ||
	       (release == 2311 && minor < 2) || (release > 2311 && release < 2407);
}

static bool
has_gcm(void)
{
	const struct rte_cryptodev_sym_capability_idx gcm = {.type = RTE_CRYPTO_SYM_XFORM_AEAD,
							     .algo.aead = RTE_CRYPTO_AEAD_AES_GCM};
	const struct rte_cryptodev_symmetric_capability *has =
		rte_cryptodev_sym_capability_get(crypto.device, &gcm);

	return has != NULL &&
	       rte_cryptodev_sym_capability_check_aead(has, 16, ESP_ICV_LEN, ESP_AAD_LEN, NONCE_LEN) == 0 &&
	       rte_cryptodev_sym_capability_check_aead(has, 32, ESP_ICV_LEN, ESP_AAD_LEN, NONCE_LEN) == 0;
}

/* Check the capabilities that the device reports. */
static int
check_device(char *why, size_t why_len)
{
	if (!has_gcm())
		return refuse_device(why, why_len, -ENOTSUP,
				     "has no AES-GCM with keys of 16 and 32 bytes; give EAL --vdev " AESNI_GCM
				     " or --vdev " OPENSSL ", or no crypto device");
	if (crypto.on_cpu)
		return 0;
	if ((crypto.info.feature_flags & RTE_CRYPTODEV_FF_HW_ACCELERATED) != 0)
		return refuse_device(
			why, why_len, -ENOTSUP,
			"is an accelerator, and cores do not wait for one; block it (EAL's -b), and give --vdev " AESNI_GCM
			" or --vdev " OPENSSL);
	if (shares_contexts())
		return refuse_device(
			why, why_len, -ENOTSUP,
			"belongs to a DPDK whose " OPENSSL
			" is not safe on several cores; install DPDK 22.11.6, 23.11.2, 24.07 or later");
	if (crypto.info.max_nb_queue_pairs != 0 && crypto.info.max_nb_queue_pairs < crypto.queues)
		return config_refuse(
			why, why_len, -ENOSPC,
			"the crypto device %s has %u queue pairs, and %u are needed, one for each core and one more; give it max_nb_queue_pairs=%u",
			rte_cryptodev_name_get(crypto.device), crypto.info.max_nb_queue_pairs, crypto.queues,
			crypto.queues);
	return 0;
}

/* Call after configuring queue pairs: the size of a session may depend on their number. */
static int
make_sessions(char *why, size_t why_len)
{
	crypto.sessions = rte_cryptodev_sym_session_pool_create(
		"oneside_keys", SESSIONS, rte_cryptodev_sym_get_private_session_size(crypto.device), 0, 0,
		SOCKET_ID_ANY);
	if (crypto.sessions == NULL)
		return config_refuse(why, why_len, -ENOMEM, "no memory for %u keys; give EAL more (-m)",
				     SESSIONS);
	if (!hide_pool(crypto.sessions))
		return config_refuse(
			why, why_len, -ENOMEM,
			"the memory for keys cannot be kept out of core dumps: %s; free memory, or raise vm.max_map_count",
			strerror(errno));
	return 0;
}

/* Even for CPU crypto, a driver requires one queue pair. */
static int
configure_device(char *why, size_t why_len)
{
	static const char silent[] = "does not start; its driver's reason is in the lines above";
	uint16_t queues = crypto.on_cpu ? 1 : (uint16_t)crypto.queues;
	int socket = rte_cryptodev_socket_id(crypto.device), error;
	struct rte_cryptodev_config config = {.nb_queue_pairs = queues, .socket_id = socket};
	struct rte_cryptodev_qp_conf queue = {.nb_descriptors = DESCRIPTORS};

	if (rte_cryptodev_configure(crypto.device, &config) != 0)
		return refuse_device(why, why_len, -EIO, silent);
	error = make_sessions(why, why_len);
	if (error != 0)
		return error;
	queue.mp_session = crypto.sessions;
	for (uint16_t i = 0; i < queues; i++)
		if (rte_cryptodev_queue_pair_setup(crypto.device, i, &queue, socket) != 0)
			return refuse_device(why, why_len, -EIO, silent);
	crypto.started = rte_cryptodev_start(crypto.device) == 0;
	return crypto.started ? 0 : refuse_device(why, why_len, -EIO, silent);
}

static bool
make_queues(void)
{
	uint32_t ops = crypto.queues * ESP_BATCH;

	crypto.ops = rte_crypto_op_pool_create("oneside_crypto", RTE_CRYPTO_OP_TYPE_SYMMETRIC, ops, 0,
					       NONCE_LEN, SOCKET_ID_ANY);
	crypto.queue = rte_calloc(NULL, crypto.queues, sizeof(struct queue), RTE_CACHE_LINE_SIZE);
	if (crypto.ops == NULL || crypto.queue == NULL)
		return false;
	for (uint32_t i = 0; i < crypto.queues; i++) {
		rte_crypto_op_bulk_alloc(crypto.ops, RTE_CRYPTO_OP_TYPE_SYMMETRIC, crypto.queue[i].op,
					 ESP_BATCH);
		for (uint32_t j = 0; j < ESP_BATCH; j++)
			crypto.queue[i].text[j].nb_segs = 1;
	}
	return true;
}

/* Number of polls until the operation comes back; LATE_POLLS: it did not. */
static int
polls_until_done(void)
{
	struct rte_crypto_op *done;
	int polls = 0;

	while (rte_cryptodev_dequeue_burst(crypto.device, 0, &done, 1) == 0 && ++polls < LATE_POLLS)
		usleep(1000);
	return polls;
}

/* Test one operation, which has to be complete when it has been enqueued. */
static bool
is_at_once(void)
{
	static const uint8_t key[16];
	static uint8_t text[16], icv[ESP_ICV_LEN], header[16]; /* a late operation may still use them */
	void *session = esp_crypto_session(true, key, sizeof(key));
	struct rte_crypto_op *op = crypto.queue[0].op[0];
	struct esp_batch batch = {.num = 0};
	int polls = LATE_POLLS;
	bool taken;

	if (session == NULL)
		return false;
	esp_batch_add(&batch, text, sizeof(text), icv);
	batch.aad[0].va = header;
	describe_packet(&crypto.queue[0], 0, session, &batch);
	taken = rte_cryptodev_enqueue_burst(crypto.device, 0, &op, 1) == 1;
	if (taken)
		polls = polls_until_done();
	/* stop_device() frees what the device still uses. */
	if (!taken || polls < LATE_POLLS)
		esp_crypto_free(session);
	return polls == 0 && op->status == RTE_CRYPTO_OP_STATUS_SUCCESS;
}

/* A driver may copy keys to memory outside of the sessions: disable core dumps. */
static int
start_queues(char *why, size_t why_len)
{
	crypto.dumpable = prctl(PR_GET_DUMPABLE);
	prctl(PR_SET_DUMPABLE, 0);
	if (!make_queues())
		return config_refuse(why, why_len, -ENOMEM,
				     "no memory for the operations of %u queues; give EAL more (-m)",
				     crypto.queues);
	if (!is_at_once())
		return refuse_device(why, why_len, -ENOTSUP,
				     "does not complete an operation at once; give EAL --vdev " AESNI_GCM
				     " or --vdev " OPENSSL);
	return 0;
}

static int
start_device(char *why, size_t why_len)
{
	int error;

	rte_cryptodev_info_get(crypto.device, &crypto.info);
	crypto.on_cpu = (crypto.info.feature_flags & RTE_CRYPTODEV_FF_SYM_CPU_CRYPTO) != 0;
	error = check_device(why, why_len);
	if (error != 0)
		return error;
	error = configure_device(why, why_len);
	if (error != 0)
		return error;
	return crypto.on_cpu ? 0 : start_queues(why, why_len);
}

static void
stop_device(void)
{
	char name[RTE_CRYPTODEV_NAME_MAX_LEN];

	snprintf(name, sizeof(name), "%s", rte_cryptodev_name_get(crypto.device));
	if (crypto.started)
		rte_cryptodev_stop(crypto.device);
	if (crypto.own)
		rte_eal_hotplug_remove("vdev", name);
	if (crypto.dumpable > 0)
		prctl(PR_SET_DUMPABLE, crypto.dumpable);
	rte_free(crypto.queue);
	rte_mempool_free(crypto.ops);
	rte_mempool_free(crypto.sessions);
	memset(&crypto, 0, sizeof(crypto));
}

static int
try_device(uint8_t device, bool own, uint32_t cores, char *why, size_t why_len)
{
	int error;

	crypto.device = device;
	crypto.own = own;
	crypto.queues = cores + 1;
	error = start_device(why, why_len);
	if (error != 0)
		stop_device();
	return error;
}

/* Choose the first of EAL's crypto devices that is suitable. */
static int
choose_device(uint32_t cores, char *why, size_t why_len)
{
	int error = -ENODEV;

	for (uint32_t i = 0; i < RTE_CRYPTO_MAX_DEVS && error != 0; i++)
		if (rte_cryptodev_is_valid_dev((uint8_t)i))
			error = try_device((uint8_t)i, false, cores, why, why_len);
	return error;
}

/* Without these instructions the other drivers are as fast; with them, slower. */
static bool
processor_has_aesni(void)
{
#ifdef RTE_ARCH_X86
	return rte_cpu_get_flag_enabled(RTE_CPUFLAG_AES) > 0 &&
	       rte_cpu_get_flag_enabled(RTE_CPUFLAG_PCLMULQDQ) > 0;
#else
	return false;
#endif
}

static int
make_device(const char *name, uint32_t cores, char *why, size_t why_len)
{
	char options[48];
	int device;

	snprintf(options, sizeof(options), "max_nb_queue_pairs=%u", cores + 1);
	if (rte_eal_hotplug_add("vdev", name, options) == 0 && (device = rte_cryptodev_get_dev_id(name)) >= 0)
		return try_device((uint8_t)device, true, cores, why, why_len);
	return config_refuse(why, why_len, -ENODEV,
			     "DPDK has no driver for AES-GCM on this machine; install " AESNI_GCM
			     " (Debian: librte-crypto-ipsec-mb23) or " OPENSSL
			     " (librte-crypto-openssl23), or leave the section out");
}

static int
find_device(uint32_t cores, char *why, size_t why_len)
{
	bool aesni = processor_has_aesni();
	int error;

	if (rte_cryptodev_count() > 0)
		return choose_device(cores, why, why_len);
	if (aesni && make_device(AESNI_GCM OWN, cores, why, why_len) == 0)
		return 0;
	error = make_device(OPENSSL OWN, cores, why, why_len);
	if (error == 0 && aesni)
		log_warning(
			"event=esp_slow text=\"" AESNI_GCM
			" would be faster on this processor, but is not installed\" remedy=\"install it (Debian: librte-crypto-ipsec-mb23), and restart the data plane\"\n");
	return error;
}

int
esp_crypto_open(uint32_t cores, char *why, size_t why_len)
{
	int error;

	if (crypto.open)
		return 0;
	error = find_device(cores, why, why_len);
	if (error != 0)
		return error;
	crypto.open = true;
	log_notice("event=esp_crypto device=%s text=\"ESP uses this device, %s\"\n", esp_crypto_name(),
		   crypto.on_cpu ? "by CPU crypto" : "by operations in one queue per core");
	return 0;
}

void
esp_crypto_close(void)
{
	if (crypto.open)
		stop_device();
}

const char *
esp_crypto_name(void)
{
	return crypto.open ? rte_cryptodev_name_get(crypto.device) : "none";
}

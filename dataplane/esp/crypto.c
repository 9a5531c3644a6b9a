/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device is made when the first key needs it, without arguments of the operator's.  One that computes on
 * the calling thread (CPU crypto) is all that is used: the cores are there anyway, a frame is in their cache,
 * and nothing has to wait for a device's answer.
 */
#define ALLOW_EXPERIMENTAL_API /* CPU crypto, and pools for sessions */
#include "dataplane/esp/crypto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cryptodev.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_memory.h>

#define DEVICE "crypto_aesni_gcm_oneside"
#define SESSIONS 1024u /* of all security associations, those that go and those that come in one change */

static struct {
	bool open;
	uint8_t device;
	struct rte_mempool *sessions;
} crypto;

bool
esp_crypto_hide(void *memory, size_t len)
{
	/* Of a part of a huge page the kernel refuses it. */
	const struct rte_memseg_list *list = rte_mem_virt2memseg_list(memory);
	uintptr_t page = list != NULL ? (uintptr_t)list->page_sz : (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = RTE_ALIGN_FLOOR((uintptr_t)memory, page);
	uintptr_t to = RTE_ALIGN_CEIL((uintptr_t)memory + len, page);

	return madvise((void *)from, to - from, MADV_DONTDUMP) == 0;
}

static void
hide(struct rte_mempool *pool, void *hidden, struct rte_mempool_memhdr *memory, unsigned int index)
{
	(void)pool, (void)index;
	if (!esp_crypto_hide(memory->addr, memory->len))
		*(bool *)hidden = false;
}

/* The driver wants a queue pair even for what does not pass it. */
static int
start(char *why, size_t why_len)
{
	struct rte_cryptodev_config config = {.nb_queue_pairs = 1, .socket_id = SOCKET_ID_ANY};
	struct rte_cryptodev_qp_conf queue = {.nb_descriptors = 128};
	uint32_t size = rte_cryptodev_sym_get_private_session_size(crypto.device);
	bool hidden = true;

	crypto.sessions =
		rte_cryptodev_sym_session_pool_create("oneside_keys", SESSIONS, size, 0, 0, SOCKET_ID_ANY);
	if (crypto.sessions == NULL) {
		snprintf(why, why_len, "no memory for %u keys; give EAL more (-m)", SESSIONS);
		return -ENOMEM;
	}
	rte_mempool_mem_iter(crypto.sessions, hide, &hidden);
	if (!hidden) {
		snprintf(why, why_len,
			 "the memory for keys cannot be kept out of core dumps: %s; free memory, or raise "
			 "vm.max_map_count",
			 strerror(errno));
		return -ENOMEM;
	}
	queue.mp_session = crypto.sessions;
	config.socket_id = rte_cryptodev_socket_id(crypto.device);
	if (rte_cryptodev_configure(crypto.device, &config) == 0 &&
	    rte_cryptodev_queue_pair_setup(crypto.device, 0, &queue, config.socket_id) == 0 &&
	    rte_cryptodev_start(crypto.device) == 0)
		return 0;
	snprintf(why, why_len,
		 "the crypto device " DEVICE " does not start; its driver's reason is in the lines above");
	return -EIO;
}

static int
find(char *why, size_t why_len)
{
	struct rte_cryptodev_info info;
	int device;

	if (rte_eal_hotplug_add("vdev", DEVICE, "") == 0 &&
	    (device = rte_cryptodev_get_dev_id(DEVICE)) >= 0) {
		crypto.device = (uint8_t)device;
		rte_cryptodev_info_get(crypto.device, &info);
		if ((info.feature_flags & RTE_CRYPTODEV_FF_SYM_CPU_CRYPTO) != 0)
			return 0;
	}
	snprintf(why, why_len,
		 "DPDK has no driver for AES-GCM on this machine; install crypto_aesni_gcm (Debian: "
		 "librte-crypto-ipsec-mb23), or leave the section out");
	return -ENODEV;
}

int
esp_crypto_open(char *why, size_t why_len)
{
	int error = 0;

	if (crypto.open)
		return 0;
	error = find(why, why_len);
	if (error == 0)
		error = start(why, why_len);
	crypto.open = true;
	if (error != 0)
		esp_crypto_close();
	return error;
}

void
esp_crypto_close(void)
{
	if (!crypto.open)
		return;
	if (rte_cryptodev_get_dev_id(DEVICE) >= 0) {
		rte_cryptodev_stop(crypto.device);
		rte_eal_hotplug_remove("vdev", DEVICE);
	}
	rte_mempool_free(crypto.sessions);
	memset(&crypto, 0, sizeof(crypto));
}

const char *
esp_crypto_name(void)
{
	return crypto.open ? DEVICE : "none";
}

void *
esp_crypto_session(bool encrypt, const uint8_t *key, uint32_t key_len)
{
	struct rte_crypto_sym_xform xform = {
		.type = RTE_CRYPTO_SYM_XFORM_AEAD,
		.aead = {.op = encrypt ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT,
			 .algo = RTE_CRYPTO_AEAD_AES_GCM,
			 .key = {.data = key, .length = (uint16_t)key_len},
			 .iv = {.length = ESP_SALT_LEN + ESP_IV_LEN},
			 .digest_length = ESP_ICV_LEN,
			 .aad_length = ESP_AAD_LEN}};

	return rte_cryptodev_sym_session_create(crypto.device, &xform, crypto.sessions);
}

void
esp_crypto_free(void *session)
{
	/* The driver clears what it has made of the key. */
	if (session != NULL)
		rte_cryptodev_sym_session_free(crypto.device, session);
}

void
esp_crypto_run(void *session, struct esp_batch *batch)
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-GCM by a DPDK crypto device: a batch of packets, complete when the call returns. */
#ifndef DATAPLANE_ESP_CRYPTO_H
#define DATAPLANE_ESP_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_crypto_sym.h>

#define ESP_SALT_LEN 4u
#define ESP_IV_LEN 8u
#define ESP_ICV_LEN 16u
#define ESP_AAD_LEN 12u /* SPI and the whole sequence number */
#define ESP_BATCH 32u

/* Packets of one security association, encrypted or decrypted in place. */
struct esp_batch {
	uint32_t num;
	int32_t status[ESP_BATCH]; /* 0: done */
	struct rte_crypto_vec text[ESP_BATCH];
	struct rte_crypto_sgl sgl[ESP_BATCH];
	struct rte_crypto_va_iova_ptr iv[ESP_BATCH], icv[ESP_BATCH], aad[ESP_BATCH];
	/* Drivers read these in units of 16 bytes. */
	uint8_t nonce[ESP_BATCH][16], header[ESP_BATCH][16];
};

/* Open a device for `cores` cores and one more thread; later calls have no effect. Slow: not on cores.
 * Returns 0, or -errno with a sentence in `why` that lacks its subject. */
int esp_crypto_open(uint32_t cores, char *why, size_t why_len);
void esp_crypto_close(void); /* after all sessions are freed */
const char *esp_crypto_name(void);

/* Keep memory that holds keys out of core dumps; false: errno is set. */
bool esp_crypto_hide(void *memory, size_t len);

/* Schedule a key for one direction; NULL: no memory. */
void *esp_crypto_session(bool encrypt, const uint8_t *key, uint32_t key_len);
void esp_crypto_free(void *session);

/* Add a packet to the batch. The ICV is read from `icv` on decryption, written there on encryption. */
static inline void
esp_batch_add(struct esp_batch *batch, uint8_t *text, uint32_t len, uint8_t *icv)
{
	uint32_t i = batch->num++;

	batch->text[i] = (struct rte_crypto_vec){.base = text, .len = len, .tot_len = len};
	batch->sgl[i] = (struct rte_crypto_sgl){.vec = &batch->text[i], .num = 1};
	batch->iv[i].va = batch->nonce[i];
	batch->aad[i].va = batch->header[i];
	batch->icv[i].va = icv;
	batch->status[i] = -1;
}

/* Run the batch; sets each status. `core`: index of the calling core; the number of cores: the thread that is
 * no core. */
void esp_crypto_run(uint32_t core, void *session, struct esp_batch *batch);

#endif

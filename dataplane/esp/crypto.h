/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-GCM by a crypto device of DPDK's, some packets at a time, done when the call returns. */
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

/* Packets of one security association, encrypted or decrypted where they are. */
struct esp_batch {
	uint32_t num;
	int32_t status[ESP_BATCH]; /* 0: done */
	struct rte_crypto_vec text[ESP_BATCH];
	struct rte_crypto_sgl sgl[ESP_BATCH];
	struct rte_crypto_va_iova_ptr iv[ESP_BATCH], icv[ESP_BATCH], aad[ESP_BATCH];
	/* Drivers read these in units of 16 bytes. */
	uint8_t nonce[ESP_BATCH][16], header[ESP_BATCH][16];
};

/*
 * Once, for so many cores and one thread more; again has no effect.  May take long; not on cores.  0 or
 * -errno and a sentence without its object.
 */
int esp_crypto_open(uint32_t cores, char *why, size_t why_len);
void esp_crypto_close(void); /* after all sessions */
const char *esp_crypto_name(void);

/* Keeps memory that holds keys out of core dumps; false sets errno. */
bool esp_crypto_hide(void *memory, size_t len);

/* A key scheduled for one direction; NULL: no memory. */
void *esp_crypto_session(bool encrypt, const uint8_t *key, uint32_t key_len);
void esp_crypto_free(void *session);

/* The next packet of the batch; the ICV is there, or goes there. */
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

/* Each status is set.  `core`: the calling core's index; the number of cores: the thread that is none. */
void esp_crypto_run(uint32_t core, void *session, struct esp_batch *batch);

#endif

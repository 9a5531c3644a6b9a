/* SPDX-License-Identifier: BSD-3-Clause */
/* Choice of the crypto device; and each device computes AES-GCM, packet by packet, before the call
 * returns. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>

#include <rte_cpuflags.h>
#include <rte_cryptodev.h>
#include <rte_dev.h>

#include "peer.h"

#define OPENSSL "crypto_openssl"
#define CORES 3u

static bool processor_is_old, device_is_late;
static uint32_t looks, frees, early_frees; /* since the late device started */
static bool has_operation;
static dequeue_pkt_burst_t dequeue;

/* Replaces EAL's function: on request, a processor without AES instructions. */
int
rte_cpu_get_flag_enabled(enum rte_cpu_flag_t feature)
{
	static int (*real)(enum rte_cpu_flag_t);

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "rte_cpu_get_flag_enabled");
	return processor_is_old ? 0 : real(feature);
}

static uint16_t
dequeue_late(void *queue, struct rte_crypto_op **ops, uint16_t count)
{
	uint16_t done = looks++ == 0 ? 0 : dequeue(queue, ops, count);

	has_operation &= done == 0;
	return done;
}

/* Replaces DPDK's function: counts sessions freed while the device still has an operation. */
int
rte_cryptodev_sym_session_free(uint8_t device, void *session)
{
	static int (*real)(uint8_t, void *);

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "rte_cryptodev_sym_session_free");
	frees++;
	early_frees += has_operation;
	return real(device, session);
}

/* Replaces DPDK's function: a late device, which returns operations only when polled again. */
int
rte_cryptodev_start(uint8_t device)
{
	static int (*real)(uint8_t);
	int error;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "rte_cryptodev_start");
	error = real(device);
	if (error == 0 && device_is_late) {
		looks = frees = early_frees = 0;
		has_operation = true;
		dequeue = rte_crypto_fp_ops[device].dequeue_burst;
		rte_crypto_fp_ops[device].dequeue_burst = dequeue_late;
	}
	return error;
}

static bool
have(const char *driver)
{
	bool there = rte_eal_hotplug_add("vdev", driver, "") == 0;

	if (there)
		assert_int_equal(rte_eal_hotplug_remove("vdev", driver), 0);
	return there;
}

static void
need(const char *driver)
{
	if (have(driver))
		return;
	printf("SKIPPED: there is no driver %s\n", driver);
	skip();
}

static void
open_device(void)
{
	char why[400] = "";

	if (esp_crypto_open(CORES, why, sizeof(why)) != 0)
		fail_msg("%s", why);
}

static void
assert_refused(const char *sentence)
{
	char why[400] = "";

	assert_true(esp_crypto_open(CORES, why, sizeof(why)) < 0);
	if (strstr(why, sentence) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, sentence);
	assert_string_equal(esp_crypto_name(), "none");
	assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
}

static void
add(const char *device, const char *options)
{
	assert_int_equal(rte_eal_hotplug_add("vdev", device, options), 0);
}

static void
take_away(const char *device)
{
	assert_int_equal(rte_eal_hotplug_remove("vdev", device), 0);
}

/* ---- AES-GCM ---- */

static const uint8_t sealed[2][56] = {
	{0xaa, 0x87, 0x3a, 0xb8, 0x7a, 0x8c, 0x35, 0x0d, 0x82, 0x71, 0xbf, 0x0b, 0x4a, 0x1f,
	 0xbe, 0x6f, 0x43, 0xff, 0x31, 0x1b, 0x97, 0x02, 0x2b, 0xb8, 0x3d, 0x09, 0x6b, 0x80,
	 0x5e, 0x90, 0x91, 0xb7, 0xba, 0x82, 0x67, 0x12, 0x2b, 0xcf, 0xca, 0x4a, 0xf0, 0xdb,
	 0xbe, 0xa1, 0x5a, 0xb3, 0x7b, 0x4f, 0x22, 0x84, 0xf1, 0x79, 0xac, 0x7e, 0x9c, 0xe6},
	{0xe6, 0x19, 0x7e, 0x2e, 0x41, 0xce, 0x04, 0xb8, 0x6a, 0x6c, 0x8d, 0xd8, 0x0b, 0x77,
	 0xce, 0xd1, 0x60, 0xbd, 0x4b, 0x03, 0x86, 0xa2, 0x54, 0x7b, 0x84, 0x17, 0x3c, 0x9d,
	 0x63, 0xb6, 0x6b, 0x1e, 0xf2, 0x57, 0x65, 0xdc, 0x8b, 0x07, 0x75, 0x1a, 0x50, 0x97,
	 0x0f, 0x82, 0x88, 0xe8, 0xf9, 0xf9, 0x20, 0x59, 0x09, 0xff, 0x76, 0xa1, 0x5e, 0xad},
};

static void
count_up(uint8_t *bytes, uint32_t len, uint32_t from)
{
	for (uint32_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(from + i);
}

/* Fills a batch with one packet, repeated: bytes 0 to 39 as text, or a copy of `from`. */
static void
fill(struct esp_batch *batch, uint8_t (*packet)[56], const uint8_t *from)
{
	batch->num = 0;
	for (uint32_t i = 0; i < ESP_BATCH; i++) {
		count_up(packet[i], 40, 0);
		if (from != NULL)
			memcpy(packet[i], from, 56);
		count_up(batch->nonce[i], 12, 0xa0);
		count_up(batch->header[i], 12, 0x50);
		esp_batch_add(batch, packet[i], 40, packet[i] + 40);
	}
}

/* Tests each core and the thread without one. Three packets of the batch to decrypt are not authentic. */
static void
check_key(uint32_t which)
{
	static uint8_t packet[ESP_BATCH][56];
	static struct esp_batch batch;
	uint8_t key[32], text[40];
	void *session[2];

	count_up(key, sizeof(key), 0);
	count_up(text, sizeof(text), 0);
	for (int i = 0; i < 2; i++)
		assert_non_null(session[i] = esp_crypto_session(i == 0, key, which == 0 ? 16 : 32));
	for (uint32_t core = 0; core <= CORES; core++) {
		fill(&batch, packet, NULL);
		esp_crypto_run(core, session[0], &batch);
		for (uint32_t i = 0; i < ESP_BATCH; i++) {
			assert_int_equal(batch.status[i], 0);
			assert_memory_equal(packet[i], sealed[which], 56);
		}
		fill(&batch, packet, sealed[which]);
		packet[0][1] ^= 1;              /* text */
		batch.header[7][3] ^= 1;        /* authenticated data */
		packet[ESP_BATCH - 1][55] ^= 1; /* ICV */
		esp_crypto_run(core, session[1], &batch);
		for (uint32_t i = 0; i < ESP_BATCH; i++) {
			bool altered = i == 0 || i == 7 || i == ESP_BATCH - 1;

			assert_int_equal(batch.status[i] != 0, altered);
			if (!altered)
				assert_memory_equal(packet[i], text, 40);
		}
	}
	esp_crypto_free(session[0]);
	esp_crypto_free(session[1]);
}

static void
check_gcm(void)
{
	check_key(0);
	check_key(1);
	check_key(0);
}

/* ---- devices ---- */

static void
test_aesni(void **state)
{
	need("crypto_aesni_gcm");
	open_device();
	assert_string_equal(esp_crypto_name(), "crypto_aesni_gcm_oneside");
	check_gcm();
	assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
	esp_crypto_close();
	assert_int_equal(rte_cryptodev_count(), 0);
}

/* No device from EAL, and a processor without AES: OpenSSL is used, and core dumps, which would have its
 * keys, are disabled. */
static void
test_openssl(void **state)
{
	need(OPENSSL);
	processor_is_old = true;
	for (int i = 0; i < 2; i++) {
		open_device();
		assert_string_equal(esp_crypto_name(), OPENSSL "_oneside");
		assert_int_equal(prctl(PR_GET_DUMPABLE), 0);
		check_gcm();
		esp_crypto_close();
		assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
		assert_int_equal(rte_cryptodev_count(), 0);
	}
	processor_is_old = false;
}

/* A device of EAL is used, and stays EAL's after the end. */
static void
test_given(void **state)
{
	need(OPENSSL);
	add("crypto_openssl7", "");
	open_device();
	assert_string_equal(esp_crypto_name(), "crypto_openssl7");
	check_gcm();
	esp_crypto_close();
	assert_int_equal(rte_cryptodev_count(), 1);
	open_device();
	check_gcm();
	esp_crypto_close();
	take_away("crypto_openssl7");
}

/* The first suitable device is used. If EAL has only unsuitable ones, none is created instead. */
static void
test_unfit(void **state)
{
	need(OPENSSL);
	need("crypto_null");
	add("crypto_null0", "");
	assert_refused("crypto_null0 has no AES-GCM");
	add("crypto_openssl0", "max_nb_queue_pairs=3");
	assert_refused("crypto_openssl0 has 3 queue pairs, and 4 are needed");
	assert_refused("give it max_nb_queue_pairs=4");
	take_away("crypto_openssl0");
	add("crypto_openssl1", "max_nb_queue_pairs=4");
	open_device();
	assert_string_equal(esp_crypto_name(), "crypto_openssl1");
	check_gcm();
	esp_crypto_close();
	take_away("crypto_openssl1");
	take_away("crypto_null0");
}

static void
test_late(void **state)
{
	need(OPENSSL);
	add("crypto_openssl0", "");
	device_is_late = true;
	assert_refused("crypto_openssl0 does not complete an operation at once");
	assert_int_equal(frees, 1);
	assert_int_equal(early_frees, 0);
	device_is_late = has_operation = false;
	open_device();
	check_gcm();
	esp_crypto_close();
	take_away("crypto_openssl0");
}

static void *shared_session;

/* Encrypts on one core; returns the number of wrong packets as a pointer. */
static void *
encrypt_many(void *core)
{
	uint8_t packet[ESP_BATCH][56];
	struct esp_batch batch;
	uint32_t wrong = 0;

	for (int round = 0; round < 500; round++) {
		fill(&batch, packet, NULL);
		esp_crypto_run((uint32_t)(uintptr_t)core, shared_session, &batch);
		for (uint32_t i = 0; i < ESP_BATCH; i++)
			wrong += batch.status[i] != 0 || memcmp(packet[i], sealed[0], 56) != 0;
	}
	return (void *)(uintptr_t)wrong;
}

/* Cores use a session concurrently, as for frames to one peer. */
static void
check_together(void)
{
	pthread_t thread[CORES];
	uint8_t key[16];
	void *wrong;

	count_up(key, sizeof(key), 0);
	shared_session = esp_crypto_session(true, key, sizeof(key));
	assert_non_null(shared_session);
	for (uint32_t i = 0; i < CORES; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, encrypt_many, (void *)(uintptr_t)i), 0);
	for (uint32_t i = 0; i < CORES; i++) {
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
	esp_crypto_free(shared_session);
}

static void
test_together(void **state)
{
	need(OPENSSL);
	add("crypto_openssl0", "");
	open_device();
	check_together();
	esp_crypto_close();
	take_away("crypto_openssl0");
	if (have("crypto_aesni_gcm")) {
		open_device();
		check_together();
		esp_crypto_close();
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aesni), cmocka_unit_test(test_openssl), cmocka_unit_test(test_given),
		cmocka_unit_test(test_unfit), cmocka_unit_test(test_late),    cmocka_unit_test(test_together),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}

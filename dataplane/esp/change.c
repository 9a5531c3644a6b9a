/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/route.h"
#include "dataplane/esp/change.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <rte_mbuf_dyn.h>

#include "config/secret.h"
#include "dataplane/esp/sa.h"
#include "dataplane/esp/table.h"

#define KEY_LEAST 16u
#define KEY_MOST 32u

struct esp_change {
	struct esp_table table; /* first: free() of the table frees all */
	struct esp_table *before;
	const struct config *config;
	bool trial;
	char *why;
	size_t why_len;
};

uint64_t esp_protected;
static uint32_t num_cores; /* also the index of the thread that makes keys, which follows the cores */

static int __attribute__((format(printf, 4, 5)))
refuse_section(const struct esp_change *change, const struct config_ipsec *ipsec, int error,
	       const char *format, ...)
{
	int len = snprintf(change->why, change->why_len, "ipsec %s: ", ipsec->name);
	va_list args;

	if (len < 0 || (size_t)len >= change->why_len)
		return error;
	va_start(args, format);
	vsnprintf(change->why + len, change->why_len - (size_t)len, format, args);
	va_end(args);
	return error;
}

/* Nanoseconds of the wall clock: a number that grows over restarts, even if files are lost. */
static uint64_t
wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Fingerprint of a key, which reveals nothing about it: the ICV of a constant under the IV 0. No packet has
 * that IV, since IVs of packets begin at the time of day. */
static int
check_value(const uint8_t *key, uint32_t len, const uint8_t *salt, uint8_t check[ESP_CHECK_LEN])
{
	void *session = esp_crypto_session(true, key, len);
	struct esp_batch batch = {.num = 0};
	uint8_t text[16] = {0};

	if (session == NULL)
		return -ENOMEM;
	memcpy(batch.nonce[0], salt, ESP_SALT_LEN);
	esp_batch_add(&batch, text, sizeof(text), check);
	esp_crypto_run(num_cores, session, &batch);
	esp_crypto_free(session);
	return batch.status[0] == 0 ? 0 : -EIO;
}

/* Key and salt are one string: RFC 4106 section 8.1. */
static int
take_key(struct esp_sa *sa, const uint8_t *bytes, size_t len)
{
	uint32_t key_len = (uint32_t)len - ESP_SALT_LEN;
	int error;

	memcpy(sa->salt, bytes + key_len, ESP_SALT_LEN);
	error = check_value(bytes, key_len, sa->salt, sa->check);
	if (error != 0)
		return error;
	sa->session = esp_crypto_session(sa->outbound, bytes, key_len);
	return sa->session != NULL ? 0 : -ENOMEM;
}

static int
read_key(const struct esp_change *change, const struct config_ipsec *ipsec, const char *file,
	 struct esp_sa *sa)
{
	struct config_secret *secret = NULL;
	char sentence[400];
	const uint8_t *bytes;
	size_t len;
	int error = config_secret_read(file, CONFIG_SECRET_HEX, KEY_LEAST + ESP_SALT_LEN,
				       KEY_MOST + ESP_SALT_LEN, &secret, sentence, sizeof(sentence));

	if (error != 0)
		return refuse_section(change, ipsec, error, "%s", sentence);
	bytes = config_secret_bytes(secret, &len);
	if (len != KEY_LEAST + ESP_SALT_LEN && len != KEY_MOST + ESP_SALT_LEN)
		error = refuse_section(
			change, ipsec, -EINVAL,
			"secret file %s: it has %zu bytes; write the 16 or 32 of an AES key and the 4 of a salt, in hexadecimal digits",
			file, len);
	else if (take_key(sa, bytes, len) != 0)
		error = refuse_section(change, ipsec, -ENOMEM,
				       "secret file %s: the crypto device %s does not take the key", file,
				       esp_crypto_name());
	config_secret_drop(secret);
	return error;
}

static struct esp_sa *
find_running(const struct esp_change *change, const struct esp_sa *sa)
{
	for (uint32_t i = 0; change->before != NULL && i < change->before->num_sas; i++)
		if (esp_sa_is_same(change->before->sa[i], sa))
			return change->before->sa[i];
	return NULL;
}

/* A key in two directions or SPIs would have two sequences of IVs. */
static int
check_alone(const struct esp_change *change, const struct config_ipsec *ipsec, const struct esp_sa *sa)
{
	for (uint32_t i = 0; i < change->table.num_sas; i++) {
		const struct esp_sa *other = change->table.sa[i];

		if (memcmp(other->check, sa->check, ESP_CHECK_LEN) == 0)
			return refuse_section(change, ipsec, -EEXIST,
					      "the key of SPI %#" PRIx32 " is that of SPI %#" PRIx32
					      " in [ipsec %s], too; give each SPI and direction its own",
					      sa->spi, other->spi, change->table.name[i]);
	}
	return 0;
}

/* A running SA with this key already uses the sequence numbers at which another would begin. */
static int
check_idle(const struct esp_change *change, const struct config_ipsec *ipsec, const struct esp_sa *sa)
{
	for (uint32_t i = 0; change->before != NULL && i < change->before->num_sas; i++)
		if (esp_sa_has_same_file(change->before->sa[i], sa))
			return refuse_section(
				change, ipsec, -EBUSY,
				"SPI %#" PRIx32
				" has a key that is in force in [ipsec %s] for another address, port or direction; give it another key, or restart the data plane",
				sa->spi, change->before->name[i]);
	return 0;
}

static int
begin_sa(const struct esp_change *change, const struct config_ipsec *ipsec, struct esp_sa *sa)
{
	char sentence[300];
	struct esp_saved saved;
	int error = check_idle(change, ipsec, sa);

	if (error != 0)
		return error;
	/* The process that serves may still write the file: esp_begin_rest() reads it. */
	if (esp_keeper_on_hold())
		return 0;
	error = esp_state_load(sa, &saved, sentence, sizeof(sentence));
	if (error != 0)
		return refuse_section(change, ipsec, error, "SPI %#" PRIx32 ": %s", sa->spi, sentence);
	esp_sa_begin(sa, &saved, wall_clock());
	error = change->trial ? 0 : esp_keeper_reserve(sa, ESP_BLOCK_FIRST);
	if (error != 0)
		return refuse_section(
			change, ipsec, error,
			"SPI %#" PRIx32
			": its sequence numbers cannot be saved in %s: %s; make room there, or name another directory by state = DIRECTORY",
			sa->spi, change->config->state, strerror(-error));
	return 0;
}

static void
set_limit(_Atomic uint64_t *limit, uint64_t value, _Atomic uint8_t *reported)
{
	/* Relaxed: cores compare limits with counters only. A report was for the previous limit: pairs with
	 * report_limit() in sa.c and is_news() in keeper.c. */
	if (atomic_exchange_explicit(limit, value, memory_order_relaxed) != value)
		atomic_store_explicit(reported, ESP_BELOW, memory_order_relaxed);
}

/* Also changes the limits of running SAs. */
static void
set_limits(struct esp_sa *sa, const struct config_ipsec *ipsec)
{
	set_limit(&sa->soft_packets, ipsec->soft_packets, &sa->soft);
	set_limit(&sa->soft_bytes, ipsec->soft_bytes, &sa->soft);
	set_limit(&sa->hard_packets, ipsec->hard_packets, &sa->hard);
	set_limit(&sa->hard_bytes, ipsec->hard_bytes, &sa->hard);
}

static struct esp_sa *
sa_new(const struct esp_change *change, const struct config_ipsec *ipsec, const struct config_sa *config,
       bool outbound, uint32_t port)
{
	int bits, source = config_source(&change->config->port[port], &ipsec->addr, &bits);
	const struct config_addr *local = &change->config->port[port].addr[RTE_MAX(source, 0)];
	struct esp_sa *sa =
		aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*sa), RTE_CACHE_LINE_SIZE));

	if (sa == NULL)
		return NULL;
	memset(sa, 0, sizeof(*sa));
	sa->spi = config->spi;
	sa->outbound = outbound;
	sa->port = (uint16_t)port;
	set_limits(sa, ipsec);
	sa->local = wire_addr_of(local->family == AF_INET, local->bytes);
	sa->peer = wire_addr_of(local->family == AF_INET, ipsec->addr.bytes);
	return sa;
}

/* *out: the SA in the table, new or running; NULL if the section has none. */
static int
add_sa(struct esp_change *change, const struct config_ipsec *ipsec, const struct config_sa *config,
       bool outbound, uint32_t port, struct esp_sa **out)
{
	struct esp_sa *sa, *running;
	int error;

	*out = NULL;
	if (config->spi == 0)
		return 0;
	sa = sa_new(change, ipsec, config, outbound, port);
	if (sa == NULL)
		return refuse_section(change, ipsec, -ENOMEM, "no memory for SPI %#" PRIx32, config->spi);
	error = read_key(change, ipsec, config->file, sa);
	if (error == 0)
		error = check_alone(change, ipsec, sa);
	running = error == 0 ? find_running(change, sa) : NULL;
	if (error == 0 && running == NULL)
		error = begin_sa(change, ipsec, sa);
	if (error != 0 || running != NULL) {
		esp_sa_free(sa);
		sa = running;
	}
	if (error == 0)
		esp_table_add_sa(&change->table, sa, ipsec->name);
	*out = sa;
	return error;
}

static int
add_section(struct esp_change *change, const struct config_ipsec *ipsec)
{
	int port = config_port_to(change->config, &ipsec->addr, ipsec->port);
	struct esp_sa *out, *in;
	struct esp_peer *peer;
	struct wire_addr addr;
	int error;

	if (port < 0)
		return refuse_section(change, ipsec, -ENETUNREACH, "no port reaches its address");
	error = add_sa(change, ipsec, &ipsec->out, true, (uint32_t)port, &out);
	if (error == 0)
		error = add_sa(change, ipsec, &ipsec->in, false, (uint32_t)port, &in);
	if (error == 0)
		error = add_sa(change, ipsec, &ipsec->in_next, false, (uint32_t)port, &in);
	if (error != 0)
		return error;
	addr = wire_addr_of(ipsec->addr.family == AF_INET, ipsec->addr.bytes);
	peer = esp_table_add_peer(&change->table, &addr);
	peer->encrypt = !ipsec->plain;
	peer->out = out;
	return 0;
}

static int
open_all(struct esp_change *change)
{
	char sentence[400];
	int error = esp_crypto_open(num_cores, sentence, sizeof(sentence));

	if (error == 0)
		error = esp_state_open(change->config->state, sentence, sizeof(sentence));
	if (error == 0)
		error = esp_keeper_start();
	else
		return refuse_section(change, &change->config->ipsec[0], error, "%s", sentence);
	return error == 0
		       ? 0
		       : refuse_section(change, &change->config->ipsec[0], error, "no thread can be started");
}

int
esp_change_prepare(const struct config *config, bool trial, struct esp_change **out, char *why,
		   size_t why_len)
{
	struct esp_change *change;
	int error = 0;

	*out = NULL;
	change = calloc(1, sizeof(*change));
	if (change == NULL)
		return config_refuse(why, why_len, -ENOMEM,
				     "no memory for a table of %u security associations", ESP_SAS_MAX);
	change->config = config;
	change->trial = trial;
	change->why = why;
	change->why_len = why_len;
	esp_keeper_quiesce();
	/* Relaxed: only the thread that prepares and commits writes it. */
	change->before = atomic_load_explicit(&esp_table, memory_order_relaxed);
	if (config->num_ipsec > 0)
		error = open_all(change);
	for (uint32_t i = 0; i < config->num_ipsec && error == 0; i++)
		error = add_section(change, &config->ipsec[i]);
	if (error == 0)
		*out = change;
	else
		engine_ipsec_abandon(change);
	return error;
}

static bool
has_others(const struct esp_table *table, const struct esp_table *than)
{
	for (uint32_t i = 0; table != NULL && i < table->num_sas; i++)
		if (!esp_table_has(than, table->sa[i]))
			return true;
	return false;
}

bool
engine_ipsec_renews(const struct esp_change *change)
{
	return change != NULL &&
	       (has_others(&change->table, change->before) || has_others(change->before, &change->table));
}

void
engine_ipsec_abandon(struct esp_change *change)
{
	if (change == NULL)
		return;
	/* Give back the numbers reserved for the change: the keeper writes the files, as if the table had
	 * been in force. */
	if (!change->trial && change->table.num_sas > 0) {
		change->table.successor = change->before;
		esp_keeper_retire(&change->table);
		return;
	}
	for (uint32_t i = 0; i < change->table.num_sas; i++)
		if (!esp_table_has(change->before, change->table.sa[i]))
			esp_sa_free(change->table.sa[i]);
	free(change);
}

bool
esp_change_commit(struct esp_change *change)
{
	struct esp_table *table = &change->table, *before;

	for (uint32_t i = 0; i < table->num_sas; i++)
		for (uint32_t j = 0; j < change->config->num_ipsec; j++)
			if (strcmp(change->config->ipsec[j].name, table->name[i]) == 0)
				set_limits(table->sa[i], &change->config->ipsec[j]);
	if (table->num_peers == 0) {
		free(change);
		table = NULL;
	}
	/* Pairs with the loads in esp_in() and esp_out(). */
	before = atomic_exchange_explicit(&esp_table, table, memory_order_acq_rel);
	if (before != NULL) {
		before->successor = table;
		esp_keeper_retire(before);
	}
	return table != NULL;
}

/* An SA that no record has continued. Its `next` is 0. */
int
esp_begin_rest(char *why, size_t why_len)
{
	/* Relaxed: the thread that puts tables in force. */
	const struct esp_table *table = atomic_load_explicit(&esp_table, memory_order_relaxed);
	char sentence[300];
	int error = 0;

	for (uint32_t i = 0; table != NULL && i < table->num_sas && error == 0; i++) {
		struct esp_sa *sa = table->sa[i];
		struct esp_saved saved;

		/* Relaxed: no core runs. */
		if (atomic_load_explicit(&sa->next, memory_order_relaxed) != 0)
			continue;
		error = esp_state_load(sa, &saved, sentence, sizeof(sentence));
		if (error != 0)
			return config_refuse(why, why_len, error, "ipsec %s: SPI %#" PRIx32 ": %s",
					     table->name[i], sa->spi, sentence);
		esp_sa_begin(sa, &saved, wall_clock());
	}
	return 0;
}

int
esp_init(uint32_t cores, char *why, size_t why_len)
{
	static const struct rte_mbuf_dynflag flag = {.name = "oneside_esp"};
	int bit = rte_mbuf_dynflag_register(&flag);

	if (bit < 0)
		return config_refuse(why, why_len, -ENOSPC, "DPDK has no flag of packet buffers left");
	esp_protected = 1ull << bit;
	num_cores = cores;
	return 0;
}

void
esp_fini(void)
{
	esp_keeper_free();
	esp_crypto_close();
	esp_state_close();
}

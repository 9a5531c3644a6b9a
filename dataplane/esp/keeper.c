/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_log.h>

#include "dataplane/esp/sa.h"
#include "dataplane/esp/table.h"

RTE_LOG_REGISTER(esp_logtype, oneside.esp, NOTICE);
#define log_warning(...) rte_log(RTE_LOG_WARNING, (uint32_t)esp_logtype, __VA_ARGS__)
#define log_error(...) rte_log(RTE_LOG_ERR, (uint32_t)esp_logtype, __VA_ARGS__)

enum { GRACE_MS = 10, RETRY_MS = 1000, QUIESCE_US = 1000 };

static struct {
	bool running;
	pthread_t thread;
	int fd;
	_Atomic bool stop;
	_Atomic(struct esp_table *) retired; /* pushed by the thread that makes tables, taken by the keeper */
	_Atomic uint32_t leaving;            /* tables retired and not yet freed */
	struct esp_table *waiting;           /* keeper only: tables waiting for their grace period */
	bool failed;                         /* a file could not be written */
	pthread_mutex_t round;               /* held by the keeper while it works */
	bool on_hold;                        /* under `round`: no file is written */
} keeper = {.fd = -1, .round = PTHREAD_MUTEX_INITIALIZER};

void
esp_keeper_wake(void)
{
	eventfd_write(keeper.fd, 1);
}

void
esp_sa_free(struct esp_sa *sa)
{
	esp_crypto_free(sa->session);
	explicit_bzero(sa, sizeof(*sa));
	free(sa);
}

int
esp_keeper_reserve(struct esp_sa *sa, uint64_t block)
{
	struct esp_saved saved;
	int error;

	block = esp_sa_block(sa, block);
	saved = esp_sa_saved(sa, block);
	error = esp_state_save(sa, &saved);
	if (error != 0)
		return error;
	/* Pairs with the exchange in watch_limits() of sa.c. Store before allowing the numbers: a core that
	 * had used them all by then would wake nobody. */
	atomic_store_explicit(&sa->wake_at,
			      (sa->outbound ? saved.number - block : saved.number + 1) + block / 2,
			      memory_order_release);
	esp_sa_allow(sa, &saved);
	return 0;
}

static void
report_unsaved(const struct esp_sa *sa, const char *name, int error)
{
	log_error(
		"event=esp_state_failed ipsec=%s spi=%#" PRIx32
		" text=\"its sequence numbers cannot be saved: %s\" remedy=\"make room in the directory of state = DIRECTORY, before the numbers saved so far are used up\"\n",
		name, sa->spi, strerror(-error));
}

static void
reserve_numbers(struct esp_sa *sa, const char *name)
{
	int error;

	/* Pairs with watch_limits() in sa.c. */
	if (atomic_load_explicit(&sa->wake_at, memory_order_acquire) != UINT64_MAX)
		return;
	error = esp_keeper_reserve(sa, sa->outbound ? ESP_BLOCK : ESP_BLOCK_FIRST);
	if (error == 0)
		return;
	keeper.failed = true;
	report_unsaved(sa, name, error);
}

/* True once after each change of the limit: the limit is reached and not reported. */
static bool
is_news(_Atomic uint8_t *reported)
{
	uint8_t reached = ESP_REACHED;

	/* Pairs with report_limit() in sa.c, and with set_limit() in change.c. */
	return atomic_compare_exchange_strong_explicit(reported, &reached, ESP_REPORTED, memory_order_relaxed,
						       memory_order_relaxed);
}

static void
report_limits(struct esp_sa *sa, const char *name)
{
	if (is_news(&sa->soft))
		log_warning(
			"event=esp_soft_limit ipsec=%s spi=%#" PRIx32
			" text=\"its key has reached the soft limit\" remedy=\"give both ends another key, and reload\"\n",
			name, sa->spi);
	if (is_news(&sa->hard))
		log_error(
			"event=esp_hard_limit ipsec=%s spi=%#" PRIx32
			" text=\"its key has reached the hard limit: its packets are dropped\" remedy=\"give both ends another key, and reload\"\n",
			name, sa->spi);
}

static void
serve_table(const struct esp_table *table)
{
	keeper.failed = false;
	for (uint32_t i = 0; table != NULL && i < table->num_sas; i++) {
		reserve_numbers(table->sa[i], table->name[i]);
		report_limits(table->sa[i], table->name[i]);
	}
}

/* An orderly end wastes no numbers, and records all that were received. On hold another process goes on from
 * the numbers of the files. */
static void
save_and_free(struct esp_sa *sa, const char *name)
{
	struct esp_saved saved = esp_sa_saved(sa, 0);
	int error = keeper.on_hold ? 0 : esp_state_save(sa, &saved);

	if (error != 0)
		report_unsaved(sa, name, error);
	esp_sa_free(sa);
}

/* Tables are retired in the order in which they were made: an SA absent from the next table is absent from
 * all later ones. */
static void
free_table(struct esp_table *table)
{
	for (uint32_t i = 0; i < table->num_sas; i++)
		if (!esp_table_has(table->successor, table->sa[i]))
			save_and_free(table->sa[i], table->name[i]);
	free(table);
}

/* Append retired tables to `waiting`, oldest first. */
static void
take_retired(void)
{
	/* Pairs with the push in esp_keeper_retire(). */
	struct esp_table *table = atomic_exchange_explicit(&keeper.retired, NULL, memory_order_acquire);
	struct esp_table *turned = NULL, **end = &keeper.waiting;

	while (table != NULL) {
		struct esp_table *older = table->next_retired;

		table->grace = engine_grace_start();
		table->next_retired = turned;
		turned = table;
		table = older;
	}
	while (*end != NULL)
		end = &(*end)->next_retired;
	*end = turned;
}

static void
reap_tables(bool all)
{
	struct esp_table *table;

	while ((table = keeper.waiting) != NULL && (all || engine_grace_over(table->grace))) {
		keeper.waiting = table->next_retired;
		free_table(table);
		/* Pairs with the load in esp_keeper_quiesce(): files are written before. */
		atomic_fetch_sub_explicit(&keeper.leaving, 1, memory_order_release);
	}
}

static void
work_a_round(void)
{
	pthread_mutex_lock(&keeper.round);
	if (!keeper.on_hold) {
		/* Pairs with the exchange in esp_change_commit(). */
		serve_table(atomic_load_explicit(&esp_table, memory_order_acquire));
		take_retired();
		reap_tables(false);
	}
	pthread_mutex_unlock(&keeper.round);
}

bool
esp_keeper_hold(void)
{
	bool idle = pthread_mutex_trylock(&keeper.round) == 0;

	if (!idle)
		return false;
	/* Pairs with the release in reap_tables(). */
	keeper.on_hold = atomic_load_explicit(&keeper.leaving, memory_order_acquire) == 0;
	idle = keeper.on_hold;
	pthread_mutex_unlock(&keeper.round);
	return idle;
}

void
esp_keeper_release(void)
{
	pthread_mutex_lock(&keeper.round);
	keeper.on_hold = false;
	pthread_mutex_unlock(&keeper.round);
	/* Cores may have asked for numbers meanwhile. */
	if (keeper.running)
		esp_keeper_wake();
}

bool
esp_keeper_on_hold(void)
{
	bool on_hold;

	pthread_mutex_lock(&keeper.round);
	on_hold = keeper.on_hold;
	pthread_mutex_unlock(&keeper.round);
	return on_hold;
}

static void *
keeper_loop(void *unused)
{
	struct pollfd ready = {.fd = keeper.fd, .events = POLLIN};
	eventfd_t value;

	(void)unused;
	/* Pairs with the store in esp_keeper_stop(). */
	while (!atomic_load_explicit(&keeper.stop, memory_order_acquire)) {
		int timeout = keeper.waiting != NULL ? GRACE_MS : keeper.failed ? RETRY_MS : -1;

		if (poll(&ready, 1, timeout) > 0)
			eventfd_read(keeper.fd, &value);
		work_a_round();
	}
	return NULL;
}

int
esp_keeper_start(void)
{
	int error;

	if (keeper.running)
		return 0;
	keeper.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (keeper.fd < 0)
		return -errno;
	atomic_init(&keeper.stop, false);
	error = pthread_create(&keeper.thread, NULL, keeper_loop, NULL);
	keeper.running = error == 0;
	if (error != 0) {
		close(keeper.fd);
		keeper.fd = -1;
	}
	return -error;
}

void
esp_keeper_retire(struct esp_table *table)
{
	/* Relaxed: read by the thread that prepares the next change, which the committing thread starts. */
	atomic_fetch_add_explicit(&keeper.leaving, 1, memory_order_relaxed);
	/* Relaxed: only one thread makes tables, so no other push is concurrent. */
	table->next_retired = atomic_load_explicit(&keeper.retired, memory_order_relaxed);
	/* Pairs with the exchange in take_retired(). */
	while (!atomic_compare_exchange_weak_explicit(&keeper.retired, &table->next_retired, table,
						      memory_order_release, memory_order_relaxed))
		;
	esp_keeper_wake();
}

void
esp_keeper_quiesce(void)
{
	/* Pairs with the release in reap_tables(). */
	while (atomic_load_explicit(&keeper.leaving, memory_order_acquire) != 0)
		usleep(QUIESCE_US);
}

void
esp_keeper_stop(void)
{
	if (!keeper.running)
		return;
	/* Pairs with the load in keeper_loop(). */
	atomic_store_explicit(&keeper.stop, true, memory_order_release);
	esp_keeper_wake();
	pthread_join(keeper.thread, NULL);
	keeper.running = false;
	take_retired();
}

void
esp_keeper_free(void)
{
	struct esp_table *table;

	if (keeper.fd < 0)
		return;
	reap_tables(true);
	table = atomic_exchange_explicit(&esp_table, NULL, memory_order_acq_rel); /* no core runs */
	if (table != NULL)
		free_table(table);
	close(keeper.fd);
	keeper.fd = -1;
	keeper.on_hold = false;
}

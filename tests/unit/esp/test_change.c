/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys change while frames pass. Over restarts no number and no IV is used again, whatever is lost. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <linux/mman.h>

#include <rte_log.h>
#include <rte_memory.h>

#include "peer.h"

#include "dataplane/engine/takeover.h"
#include "dataplane/esp/esp.h"
#include "dataplane/esp/sa.h"
#include "dataplane/esp/table.h"
#include "dataplane/wire/bytes.h"

#define US 0xc0000201u
#define PEER 0xc0000202u

static char directory[] = "/tmp/oneside-esp.XXXXXX";
static struct peer_key key[4];
static struct config config;
static const char *device; /* the program's argument */

static void
set_sa(struct config_sa *sa, uint32_t spi, uint32_t number)
{
	char name[8];

	snprintf(name, sizeof(name), "%u", number);
	sa->spi = spi;
	snprintf(sa->file, sizeof(sa->file), "%s", peer_key_file(directory, name, &key[number]));
}

/* Starts a data plane with two SAs to one peer. */
static void
begin(void)
{
	struct config_ipsec *ipsec = &config.ipsec[0];

	fixture_start(1, ONE_IDLE_SPIN);
	peer_device(device);
	config = fixture_config;
	snprintf(config.state, sizeof(config.state), "%s/state", directory);
	config.num_ipsec = 1;
	strcpy(ipsec->name, "peer");
	ipsec->addr.family = AF_INET;
	memcpy(ipsec->addr.bytes, (uint8_t[]){192, 0, 2, 2}, 4);
	set_sa(&ipsec->out, 0x1001, 0);
	set_sa(&ipsec->in, 0x1002, 1);
}

static int
setup(void **state)
{
	static bool made;

	if (!made)
		assert_non_null(mkdtemp(directory));
	made = true;
	for (uint32_t i = 0; i < RTE_DIM(key); i++)
		peer_key_random(&key[i], i % 2 == 0 ? 36 : 20);
	begin();
	return 0;
}

static int
teardown(void **state)
{
	char line[128];

	fixture_stop();
	snprintf(line, sizeof(line), "rm -rf %s/*", directory);
	return system(line);
}

static int
group_end(void **state)
{
	return rmdir(directory);
}

static void
put_in_force(const struct config *next)
{
	struct esp_change *change;
	char why[512] = "";

	if (engine_ipsec_prepare(next, false, &change, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	engine_ipsec_commit(change);
}

/* The configuration is refused with this text in the message, and the table is unchanged. */
static void
assert_refused(const struct config *next, const char *sentence)
{
	const struct esp_table *before = atomic_load(&esp_table);
	struct esp_change *change;
	char why[512] = "";

	assert_true(engine_ipsec_prepare(next, false, &change, why, sizeof(why)) < 0);
	assert_null(change);
	if (strstr(why, sentence) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, sentence);
	assert_ptr_equal(atomic_load(&esp_table), before);
}

/* Sends a frame and decrypts it. */
static struct peer_packet
sent(const struct peer_key *with)
{
	uint8_t payload[64] = {1}, inside[128];
	struct rte_mbuf *m = peer_plain(US, PEER, 17, payload, sizeof(payload));
	struct peer_packet packet;

	assert_int_equal(esp_out(engine.core[0], 0, 1500, &m, 1), 1);
	assert_true(peer_open(m, with, 0, &packet, inside));
	rte_pktmbuf_free(m);
	return packet;
}

static bool
received(const struct peer_key *with, uint32_t spi, uint64_t number)
{
	uint8_t payload[64] = {2};
	struct peer_packet packet = {.spi = spi,
				     .src = PEER,
				     .dst = US,
				     .number = number,
				     .iv = number,
				     .key = with,
				     .proto = 17,
				     .payload = payload,
				     .len = sizeof(payload),
				     .pad = 0xff};
	struct rte_mbuf *m = peer_frame(&packet);
	bool taken = esp_in(engine.core[0], 0, &m, 1) == 1;

	if (taken)
		rte_pktmbuf_free(m);
	return taken;
}

static void
assert_spi(const struct peer_key *with, uint32_t spi)
{
	assert_int_equal(sent(with).spi, spi);
}

/* Path of the state file of an SPI. */
static const char *
state_file(uint32_t spi)
{
	static char path[256];
	char line[256];
	FILE *found;

	snprintf(line, sizeof(line), "ls %s/state/%08x-*[0-9a-f]", directory, spi);
	found = popen(line, "r");
	assert_non_null(found);
	assert_non_null(fgets(path, sizeof(path), found));
	assert_int_equal(pclose(found), 0);
	path[strcspn(path, "\n")] = '\0';
	return path;
}

/* ---- tests ---- */

/* SAs that stay continue, and use no number twice; new SAs begin; removed SAs are no longer accepted. */
static void
test_rotation(void **state)
{
	struct esp_sa *kept;
	uint64_t last;

	assert_int_equal(fixture_config.num_ipsec, 0);
	put_in_force(&config);
	last = sent(&key[0]).number;
	kept = atomic_load(&esp_table)->peer[0].out;
	assert_true(received(&key[1], 0x1002, 5));
	set_sa(&config.ipsec[0].in_next, 0x2002, 3);
	put_in_force(&config);
	assert_ptr_equal(atomic_load(&esp_table)->peer[0].out, kept);
	assert_int_equal(sent(&key[0]).number, last + 1);
	assert_false(received(&key[1], 0x1002, 5));
	assert_true(received(&key[1], 0x1002, 6));
	assert_true(received(&key[3], 0x2002, 1));
	set_sa(&config.ipsec[0].out, 0x2001, 2);
	config.ipsec[0].in = config.ipsec[0].in_next;
	config.ipsec[0].in_next.spi = 0;
	put_in_force(&config);
	assert_spi(&key[2], 0x2001);
	assert_true(received(&key[3], 0x2002, 2));
	assert_false(received(&key[3], 0x2002, 1));
	assert_false(received(&key[1], 0x1002, 7));
	/* No SA at all. */
	config.num_ipsec = 0;
	put_in_force(&config);
	assert_null(atomic_load(&esp_table));
	assert_int_equal(atomic_load(&ports[0].flags), 0);
}

static void
test_refused(void **state)
{
	struct config wrong;

	put_in_force(&config);
	wrong = config;
	set_sa(&wrong.ipsec[0].in, 0x1002, 0); /* the key of the other direction */
	assert_refused(&wrong, "give each SPI and direction its own");
	wrong = config;
	strcpy(wrong.ipsec[0].out.file, "/nowhere/at.all");
	assert_refused(&wrong, "/nowhere/at.all");
	wrong = config;
	key[2].len = 28;
	set_sa(&wrong.ipsec[0].out, 0x3001, 2);
	assert_refused(&wrong, "it has 28 bytes");
	key[2].len = 36;
	set_sa(&wrong.ipsec[0].out, 0x3001, 2);
	assert_int_equal(chmod(wrong.ipsec[0].out.file, 0640), 0);
	assert_refused(&wrong, "chmod 600");
	assert_spi(&key[0], 0x1001);
}

/* A refusal after numbers were reserved gives the numbers back. */
static void
test_refused_late(void **state)
{
	struct config wrong = config;

	strcpy(wrong.ipsec[0].in.file, "/nowhere/at.all");
	for (int i = 0; i < 3; i++)
		assert_refused(&wrong, "/nowhere/at.all");
	put_in_force(&config);
	assert_int_equal(sent(&key[0]).number, 1);
	for (int i = 0; i < 3; i++)
		assert_refused(&wrong, "/nowhere/at.all");
	assert_int_equal(sent(&key[0]).number, 2);
}

static bool
renews(const struct config *next)
{
	struct esp_change *change;
	char why[512] = "";
	bool any;

	if (engine_ipsec_prepare(next, true, &change, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	any = engine_ipsec_renews(change);
	engine_ipsec_abandon(change);
	return any;
}

/* A file may have another key under the same path. */
static void
test_renews(void **state)
{
	struct config none = config, other = config;

	assert_true(renews(&config));
	put_in_force(&config);
	assert_false(renews(&config));
	set_sa(&other.ipsec[0].out, 0x1001, 2);
	assert_true(renews(&other));
	none.num_ipsec = 0;
	assert_true(renews(&none));
	put_in_force(&none);
	assert_false(renews(&none));
}

/* A renamed section continues its SAs; a section removed and added again continues where it ended. */
static void
test_return(void **state)
{
	struct config moved;
	struct esp_sa *kept;
	uint64_t last;

	put_in_force(&config);
	kept = atomic_load(&esp_table)->peer[0].out;
	last = sent(&key[0]).number;
	assert_true(received(&key[1], 0x1002, 40));
	strcpy(config.ipsec[0].name, "other");
	put_in_force(&config);
	assert_ptr_equal(atomic_load(&esp_table)->peer[0].out, kept);
	assert_string_equal(atomic_load(&esp_table)->name[0], "other");
	assert_int_equal(sent(&key[0]).number, last + 1);
	assert_false(received(&key[1], 0x1002, 40));
	/* For another peer the sequence would continue above numbers that the old one still uses. */
	moved = config;
	moved.ipsec[0].addr.bytes[3] = 3;
	assert_refused(&moved, "give it another key");
	moved.num_ipsec = 0;
	put_in_force(&moved);
	put_in_force(&config);
	assert_int_equal(sent(&key[0]).number, last + 2);
	assert_false(received(&key[1], 0x1002, 40));
	assert_false(received(&key[1], 0x1002, 39));
	assert_true(received(&key[1], 0x1002, 41));
}

/* Keys mostly lie in huge pages, of which madvise() takes whole pages only. No page is touched here: none
 * need exist. */
static void
test_huge_pages(void **state)
{
	const size_t page = 2u << 20;
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB | MAP_NORESERVE, -1, 0);
	char line[256];
	bool within = false, hidden = false;
	FILE *maps;

	if (memory == MAP_FAILED)
		skip();
	assert_int_equal(rte_extmem_register(memory, 2 * page, NULL, 0, page), 0);
	assert_true(esp_crypto_hide(memory + page + 4096 + 64, 8192));
	maps = fopen("/proc/self/smaps", "re");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps) != NULL) {
		uintptr_t from, to;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			within = from == (uintptr_t)memory + page;
		else if (within && strncmp(line, "VmFlags:", 8) == 0)
			hidden = strstr(line, " dd") != NULL;
	}
	fclose(maps);
	assert_true(hidden);
	assert_int_equal(rte_extmem_unregister(memory, 2 * page), 0);
	munmap(memory, 2 * page);
}

/* With the same keys, after an orderly end and after a crash: numbers and IVs continue above those used. */
static void
test_restart(void **state)
{
	struct peer_packet before, after;
	static struct esp_sa crashed;
	struct esp_saved saved;
	struct esp_sa *sa;

	put_in_force(&config);
	for (int i = 0; i < 10; i++)
		before = sent(&key[0]);
	assert_true(received(&key[1], 0x1002, 40));
	fixture_stop();
	begin();
	put_in_force(&config);
	after = sent(&key[0]);
	assert_int_equal(after.number, before.number + 1);
	assert_true(after.iv > before.iv);
	/* Numbers that the window covered are refused. */
	assert_false(received(&key[1], 0x1002, 40));
	assert_false(received(&key[1], 0x1002, 39));
	assert_true(received(&key[1], 0x1002, 41));

	/* After a crash the file has the state that was written before the numbers were used. */
	sa = atomic_load(&esp_table)->peer[0].out;
	crashed.spi = sa->spi;
	memcpy(crashed.check, sa->check, sizeof(crashed.check));
	assert_int_equal(esp_state_load(sa, &saved, NULL, 0), 0);
	assert_true(saved.number > after.number);
	before = sent(&key[0]);
	fixture_stop();
	assert_int_equal(esp_state_open(config.state, NULL, 0), 0);
	assert_int_equal(esp_state_save(&crashed, &saved), 0);
	esp_state_close();
	begin();
	put_in_force(&config);
	after = sent(&key[0]);
	assert_int_equal(after.number, saved.number);
	assert_true(after.number > before.number && after.iv > before.iv);
}

static void
copy_file(const char *from, const char *to)
{
	char line[2 * PATH_MAX + 8];

	snprintf(line, sizeof(line), "cp %s %s", from, to);
	assert_int_equal(system(line), 0);
}

/* Restarts without the state that an orderly end writes, for the SPI of each direction. */
static void
crash(uint32_t out, uint32_t in)
{
	const struct config in_force = config;
	const uint32_t spi[] = {out, in};
	char path[2][256], kept[2][300];

	for (int i = 0; i < 2; i++) {
		strcpy(path[i], state_file(spi[i]));
		snprintf(kept[i], sizeof(kept[i]), "%s/kept%d", directory, i);
		copy_file(path[i], kept[i]);
	}
	fixture_stop();
	for (int i = 0; i < 2; i++)
		copy_file(kept[i], path[i]);
	begin();
	config = in_force;
}

/* Takes numbers for outbound packets in batches, until `most` or until the key is used up; returns their
 * count. */
static uint64_t
serve(uint64_t most)
{
	struct esp_sa *sa = atomic_load(&esp_table)->peer[0].out;
	uint64_t done = 0;

	while (done < most && atomic_load(&sa->hard) == ESP_BELOW) {
		if (esp_sa_take(sa, 32, 32 * 4096) != 0)
			done += 32;
		else
			usleep(100); /* the keeper is writing the state */
	}
	return done;
}

/* Serves over four crashes, with the limits in `config`, and receives one packet each time; returns packets
 * served. */
static uint64_t
serve_with_crashes(uint32_t out, uint32_t in, const struct peer_key *with)
{
	uint64_t packets = 0;

	for (uint64_t i = 0; i < 4; i++) {
		put_in_force(&config);
		packets += serve(1024);
		assert_true(received(with, in, 1 + i * 2 * ESP_BLOCK_LEAST));
		crash(out, in);
	}
	put_in_force(&config);
	assert_true(atomic_load(&atomic_load(&esp_table)->sa[1]->packets) >= 4);
	packets += serve(UINT64_MAX);
	crash(out, in);
	put_in_force(&config);
	assert_int_equal(serve(UINT64_MAX), 0);
	return packets;
}

/* Limits of a key hold over crashes, too. Each crash wastes a part of the limit. */
static void
test_limits_over_crashes(void **state)
{
	config.ipsec[0].hard_packets = 16 * ESP_BLOCK_LEAST;
	assert_in_range(serve_with_crashes(0x1001, 0x1002, &key[1]), 5 * 1024, 16 * ESP_BLOCK_LEAST);
	fixture_stop();
	begin();
	set_sa(&config.ipsec[0].out, 0x2001, 2);
	set_sa(&config.ipsec[0].in, 0x2002, 3);
	config.ipsec[0].hard_packets = 0;
	config.ipsec[0].hard_bytes = 16ull * ESP_BLOCK_LEAST * ESP_BLOCK_BYTES;
	assert_in_range(serve_with_crashes(0x2001, 0x2002, &key[3]), 5 * 1024,
			config.ipsec[0].hard_bytes / 4096);
}

static uint32_t
times_in(const char *path, const char *words)
{
	FILE *file = fopen(path, "r");
	char line[512];
	uint32_t n = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL)
		n += strstr(line, words) != NULL;
	fclose(file);
	return n;
}

static _Atomic bool serving;

static void *
serve_on(void *sa)
{
	cpu_set_t any;

	memset(&any, 0xff, sizeof(any)); /* not only on the polling core's CPU */
	pthread_setaffinity_np(pthread_self(), sizeof(any), &any);
	while (atomic_load(&serving))
		esp_sa_take(sa, 1, 64);
	return NULL;
}

/* Each soft limit is logged once, also if it replaces a limit already reached, and is itself reached at
 * once. */
static void
test_soft_limits(void **state)
{
	pthread_t thread;
	char path[64];
	FILE *log;

	put_in_force(&config);
	snprintf(path, sizeof(path), "%s/log", directory);
	log = fopen(path, "w");
	assert_non_null(log);
	rte_openlog_stream(log);
	rte_log_set_global_level(RTE_LOG_WARNING);
	atomic_store(&serving, true);
	assert_int_equal(pthread_create(&thread, NULL, serve_on, atomic_load(&esp_table)->peer[0].out), 0);
	for (uint32_t i = 1; i <= 50; i++) {
		config.ipsec[0].soft_packets = i;
		put_in_force(&config);
		TURN_UNTIL(times_in(path, "event=esp_soft_limit") >= i);
	}
	atomic_store(&serving, false);
	pthread_join(thread, NULL);
	config.num_ipsec = 0;
	put_in_force(&config);
	esp_keeper_quiesce();
	assert_int_equal(times_in(path, "event=esp_soft_limit"), 50);
	rte_openlog_stream(NULL);
	rte_log_set_global_level(RTE_LOG_ERR);
	fclose(log);
}

/* IVs grow: the file's counts if the clock was set back, the clock's if the file is lost. */
static void
test_iv(void **state)
{
	struct timespec now;
	struct peer_packet packet;
	FILE *file;
	uint64_t clock;

	put_in_force(&config);
	packet = sent(&key[0]);
	clock_gettime(CLOCK_REALTIME, &now);
	clock = (uint64_t)now.tv_sec * 1000000000u;
	assert_true(packet.iv > clock - 3600 * 1000000000ull && packet.iv < clock + 3600 * 1000000000ull);
	fixture_stop();
	/* Moves the file's IV ahead of the clock. */
	file = fopen(state_file(0x1001), "w");
	assert_non_null(file);
	fprintf(file, "number 777\niv %llu\npackets 776\nbytes 1000\n",
		(unsigned long long)clock + 10000000000000ull);
	fclose(file);
	begin();
	put_in_force(&config);
	packet = sent(&key[0]);
	assert_int_equal(packet.number, 777);
	assert_true(packet.iv == clock + 10000000000000ull);
	fixture_stop();
	assert_int_equal(unlink(state_file(0x1001)), 0);
	begin();
	put_in_force(&config);
	packet = sent(&key[0]);
	assert_int_equal(packet.number, 1);
	assert_true(packet.iv > clock);
}

static void
write_state(const char *text)
{
	FILE *file = fopen(state_file(0x1001), "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* Refused: malformed and incomplete files, and a directory that others can write to, or that another process
 * uses. */
static void
test_state(void **state)
{
	static const char *const wrong[] = {"number 5\niv 7\n", "number -5\niv 7\npackets 1\nbytes 1\n",
					    "number 18446744073709551615\niv 7\npackets 1\nbytes 1\n",
					    "number 5\niv 99999999999999999999\npackets 1\nbytes 1\n",
					    "number 5\niv 7\npackets 1\nbytes 1\n\n"};
	char path[64];

	put_in_force(&config);
	fixture_stop();
	begin();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		write_state(wrong[i]);
		assert_refused(&config, "replace the key");
	}
	assert_int_equal(unlink(state_file(0x1001)), 0);
	fixture_stop();
	begin();
	snprintf(path, sizeof(path), "%s/state", directory);
	assert_int_equal(chmod(path, 0770), 0);
	assert_refused(&config, "chmod 700");
	assert_int_equal(chmod(path, 0700), 0);
	put_in_force(&config);
	assert_spi(&key[0], 0x1001);
}

/* Numbers end at the ceiling in the file. The keeper raises the ceiling before numbers run out, and wastes
 * none. */
static void
test_block(void **state)
{
	struct esp_saved saved;
	struct esp_sa *sa;
	uint64_t ceiling, first;
	char why[256];

	put_in_force(&config);
	sa = atomic_load(&esp_table)->peer[0].out;
	ceiling = atomic_load(&sa->ceiling);
	assert_int_equal(ceiling, 1 + ESP_BLOCK_FIRST);
	/* Below half of a block the ceiling stays. */
	first = esp_sa_take(sa, ESP_BLOCK_FIRST / 2 - 1, 0);
	assert_int_equal(first, 1);
	assert_int_equal(atomic_load(&sa->ceiling), ceiling);
	assert_int_equal(esp_sa_take(sa, 1, 0), ESP_BLOCK_FIRST / 2);
	TURN_UNTIL(atomic_load(&sa->ceiling) > ceiling);
	assert_int_equal(esp_state_load(sa, &saved, why, sizeof(why)), 0);
	assert_int_equal(saved.number, atomic_load(&sa->ceiling));
	ceiling = saved.number;
	assert_int_equal(ceiling, ESP_BLOCK_FIRST / 2 + 1 + ESP_BLOCK);
	/* More than the block has left: none are taken. */
	assert_int_equal(esp_sa_take(sa, ESP_BLOCK + 1, 0), 0);
	assert_int_equal(esp_sa_take(sa, 1, 0), ESP_BLOCK_FIRST / 2 + 1);
}

/* ---- take-overs ---- */

static struct record_out passed;

/* The old process writes its state, and ends without another word. */
static void
pass_on(void)
{
	record_out_free(&passed);
	passed = (struct record_out){.bytes = NULL};
	TURN_UNTIL(engine_ipsec_hold()); /* the keeper may be at work */
	engine_ipsec_write(&passed);
	assert_false(passed.failed);
	fixture_stop();
	begin();
	assert_true(engine_ipsec_hold());
	put_in_force(&config);
}

static int
read_passed(void)
{
	struct record_in in = {.bytes = passed.bytes, .length = passed.length};
	struct record record;
	int error = 0;

	while (error == 0 && record_take(&in, &record) > 0)
		error = engine_ipsec_read(&record);
	return error;
}

static struct esp_sa *
outbound(void)
{
	return atomic_load(&esp_table)->peer[0].out;
}

static uint64_t
number_in_file(const struct esp_sa *sa)
{
	struct esp_saved saved;
	char why[300];

	assert_int_equal(esp_state_load(sa, &saved, why, sizeof(why)), 0);
	return saved.number;
}

static void
begin_rest(void)
{
	char why[300] = "";

	if (engine_ipsec_begin(why, sizeof(why)) != 0)
		fail_msg("%s", why);
	engine_ipsec_release();
}

/* Numbers, IVs and the window go on as if nothing had happened; no number of the file is left out. */
static void
test_taken_over(void **state)
{
	struct peer_packet before, after;
	uint64_t saved;

	put_in_force(&config);
	for (int i = 0; i < 3; i++) {
		before = sent(&key[0]);
		assert_true(received(&key[1], 0x1002, 40 + 2 * (uint64_t)i));
		saved = number_in_file(outbound());
		if (i == 2) /* its owner is a core that the new process lacks */
			atomic_store(&atomic_load(&esp_table)->sa[1]->owner, CORE_MAX - 1);
		pass_on();
		assert_int_equal(read_passed(), 0);
		assert_int_equal(number_in_file(outbound()), saved);
		begin_rest();
		after = sent(&key[0]);
		assert_int_equal(after.number, before.number + 1);
		assert_int_equal(after.iv, before.iv + 1);
		for (int j = 0; j <= i; j++)
			assert_false(received(&key[1], 0x1002, 40 + 2 * (uint64_t)j));
		assert_true(received(&key[1], 0x1002, 39 + 2 * (uint64_t)i));
	}
	record_out_free(&passed);
}

/* An association that only the new configuration has begins at its file, once the keeper has reserved more;
 * one that only the old one had is left out. */
static void
test_taken_over_with_changes(void **state)
{
	const uint8_t payload[64] = {1};
	struct rte_mbuf *m;
	uint64_t number;

	put_in_force(&config);
	number = sent(&key[0]).number;
	set_sa(&config.ipsec[0].out, 0x2001, 2);
	TURN_UNTIL(engine_ipsec_hold()); /* the keeper may be at work */
	engine_ipsec_write(&passed);
	fixture_stop();
	begin();
	set_sa(&config.ipsec[0].out, 0x2001, 2);
	assert_true(engine_ipsec_hold());
	put_in_force(&config);
	assert_int_equal(read_passed(), 0);
	assert_int_equal(number_in_file(outbound()), 0);
	m = peer_plain(US, PEER, 17, payload, sizeof(payload));
	assert_int_equal(esp_out(engine.core[0], 0, 1500, &m, 1), 0);
	begin_rest();
	TURN_UNTIL(number_in_file(outbound()) > 0);
	TURN_UNTIL(atomic_load(&outbound()->ceiling) > 1);
	assert_int_equal(sent(&key[2]).spi, 0x2001);
	assert_true(received(&key[1], 0x1002, number));
	/* Nor does one without sections have a directory. */
	TURN_UNTIL(engine_ipsec_hold());
	record_out_free(&passed);
	passed = (struct record_out){.bytes = NULL};
	engine_ipsec_write(&passed);
	assert_true(passed.length > 0);
	fixture_stop();
	begin();
	config.num_ipsec = 0;
	assert_true(engine_ipsec_hold());
	put_in_force(&config);
	assert_int_equal(read_passed(), 0);
	begin_rest();
	record_out_free(&passed);
	passed = (struct record_out){.bytes = NULL};
}

/* Records are refused that lead nowhere, or would let a number be used twice. */
static void
test_record_refused(void **state)
{
	struct esp_saved saved;
	struct esp_sa *sa;
	char why[300];

	put_in_force(&config);
	sent(&key[0]);
	pass_on();
	sa = outbound();
	assert_int_equal(esp_state_load(sa, &saved, why, sizeof(why)), 0);
	saved.number++;
	assert_int_equal(esp_state_save(sa, &saved), 0);
	assert_int_equal(read_passed(), -EINVAL);
	saved.number--;
	saved.iv++;
	assert_int_equal(esp_state_save(sa, &saved), 0);
	assert_int_equal(read_passed(), -EINVAL);
	saved.iv--;
	assert_int_equal(esp_state_save(sa, &saved), 0);
	assert_int_equal(read_passed(), 0);
	begin_rest();

	atomic_store(&outbound()->ceiling, atomic_load(&outbound()->next) - 1);
	pass_on();
	assert_int_equal(read_passed(), -EINVAL);
	begin_rest();
	atomic_store(&atomic_load(&esp_table)->sa[1]->owner, CORE_MAX);
	pass_on();
	assert_int_equal(read_passed(), -EINVAL);
	begin_rest();
	atomic_load(&esp_table)->sa[1]->window.highest++;
	pass_on();
	assert_int_equal(read_passed(), -EINVAL);
	begin_rest();
	record_out_free(&passed);
	passed = (struct record_out){.bytes = NULL};
}

/* The directory's lock passes to the successor, and to nobody else. */
static void
test_directory_passed_on(void **state)
{
	char other[300];
	int lock;

	put_in_force(&config);
	lock = dup(engine_ipsec_directory());
	assert_true(lock >= 0);
	fixture_stop();
	begin();
	assert_refused(&config, "another data plane uses it");
	engine_ipsec_inherit(dup(lock));
	snprintf(other, sizeof(other), "%s/other", directory);
	strcpy(config.state, other);
	assert_refused(&config, "write the same state = DIRECTORY");
	snprintf(config.state, sizeof(config.state), "%s/state", directory);
	put_in_force(&config);
	assert_spi(&key[0], 0x1001);
	close(lock);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rotation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_renews, setup, teardown),
		cmocka_unit_test_setup_teardown(test_return, setup, teardown),
		cmocka_unit_test_setup_teardown(test_huge_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits_over_crashes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_soft_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_iv, setup, teardown),
		cmocka_unit_test_setup_teardown(test_state, setup, teardown),
		cmocka_unit_test_setup_teardown(test_block, setup, teardown),
		cmocka_unit_test_setup_teardown(test_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_taken_over_with_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_record_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory_passed_on, setup, teardown),
	};

	device = argc > 1 ? argv[1] : NULL;
	return cmocka_run_group_tests(tests, NULL, group_end);
}

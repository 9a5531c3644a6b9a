/* SPDX-License-Identifier: BSD-3-Clause */
#include "chaos.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ull
#define TICK_NS 20000000ull
#define ATTACH_NS (10 * SECOND) /* how long the library waits for an answer */

struct chaos_board *chaos_board;
uint32_t chaos_self;
bool chaos_control;

static uint64_t random_state;
static uint32_t doom_phase, doom_count, doom_us;
static _Atomic uint32_t
	attached_life; /* life of the own data plane; 0: not attached. Read by the watch thread, too. */
static uint64_t attach_begun_ns;

uint64_t
chaos_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

_Noreturn void
chaos_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	/* An application that is being killed may fail in any way. */
	if (atomic_load(&chaos_slot()->killed) & 1)
		_exit(0);
	fprintf(stderr, "FAILED: slot %u (%s), pid %d, %s:%d: ", chaos_self,
		chaos_api(chaos_self) ? "rsm" : "dat", (int)getpid(), file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	atomic_fetch_add(&chaos_board->failures, 1);
	_exit(3);
}

bool
chaos_stops(void)
{
	return atomic_load(&chaos_board->stop) > chaos_control;
}

uint64_t
chaos_number(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

/* ---- an application's end in the middle of a call ---- */

static void
end_after(uint32_t microseconds)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	struct itimerspec when = {.it_value = {.tv_sec = microseconds / 1000000,
					       .tv_nsec = 1 + (long)(microseconds % 1000000) * 1000}};
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, NULL) != 0)
		chaos_fail(__FILE__, __LINE__, "timer: %s", strerror(errno));
}

void
chaos_enter(enum chaos_phase phase)
{
	if (doom_count == 0 || phase != (enum chaos_phase)doom_phase || --doom_count > 0)
		return;
	/* Change the counters before arming the timer: see chaos.h. A slot that does not listen counts as
	 * dead. */
	chaos_listening(false);
	atomic_store(&chaos_slot()->doomed, phase + 1u);
	end_after(doom_us);
}

void
chaos_listening(bool listening)
{
	uint32_t life = atomic_load(&chaos_slot()->life);

	if ((life & 1) != listening && (!listening || atomic_load(&chaos_slot()->doomed) == 0))
		atomic_store(&chaos_slot()->life, life + 1);
}

/* ---- which processes live ---- */

uint32_t
chaos_choose(void)
{
	uint32_t first = chaos_control ? 0 : CHAOS_CONTROLS;
	uint32_t last = chaos_control ? CHAOS_CONTROLS : atomic_load(&chaos_board->slots), slot;

	do
		slot = first + (uint32_t)chaos_number(last - first);
	while (chaos_api(slot) != chaos_api(chaos_self));
	return slot;
}

bool
chaos_lives_begin(struct chaos_lives *lives, uint32_t slot)
{
	*lives = (struct chaos_lives){.slot = slot,
				      .own = atomic_load(&chaos_plane_of(chaos_self)->life),
				      .plane = atomic_load(&chaos_plane_of(slot)->life),
				      .life = atomic_load(&chaos_board->slot[slot].life),
				      .killed = atomic_load(&chaos_board->slot[slot].killed)};
	return lives->own == atomic_load(&attached_life) && !(lives->plane & 1) && (lives->life & 1) &&
	       !(lives->killed & 1);
}

void
chaos_lives_take(struct chaos_lives *lives, const struct chaos_lives *reported)
{
	*lives = *reported;
	lives->own = atomic_load(&attached_life);
}

bool
chaos_excused(const struct chaos_lives *lives)
{
	const struct chaos_slot *slot = &chaos_board->slot[lives->slot];

	return atomic_load(&chaos_plane_of(chaos_self)->life) != lives->own ||
	       atomic_load(&chaos_plane_of(lives->slot)->life) != lives->plane ||
	       atomic_load(&slot->life) != lives->life || atomic_load(&slot->killed) != lives->killed;
}

uint32_t
chaos_attached(void)
{
	uint32_t life;

	while ((life = atomic_load(&chaos_plane_of(chaos_self)->life)) & 1) {
		if (chaos_stops())
			_exit(0);
		usleep(2000);
	}
	attach_begun_ns = chaos_now_ns();
	return life;
}

void
chaos_attach_done(uint32_t life)
{
	atomic_store(&attached_life, life);
}

bool
chaos_plane_lives(void)
{
	return atomic_load(&chaos_plane_of(chaos_self)->life) == atomic_load(&attached_life);
}

bool
chaos_attach_excused(uint32_t life)
{
	return atomic_load(&chaos_plane_of(chaos_self)->life) != life ||
	       chaos_now_ns() - attach_begun_ns >= ATTACH_NS;
}

static void
note_longest(_Atomic uint32_t *longest_ms, uint64_t since_ns)
{
	uint64_t now = chaos_now_ns();

	if (since_ns != 0 && now > since_ns && (now - since_ns) / 1000000 > atomic_load(longest_ms))
		atomic_store(longest_ms, (uint32_t)((now - since_ns) / 1000000));
}

void
chaos_reported(void)
{
	struct chaos_plane *plane = chaos_plane_of(chaos_self);
	uint64_t killed = atomic_load(&plane->killed_ns), gone = atomic_load(&plane->gone_ns);
	uint32_t life = atomic_exchange(&attached_life, 0);

	/* The data plane was killed again meanwhile: the times belong to the last kill, and prove nothing. */
	if (atomic_load(&plane->life) - life > 2)
		return;
	atomic_fetch_add(&chaos_slot()->reported, 1);
	note_longest(&chaos_slot()->reported_ms, killed);
	note_longest(&chaos_slot()->late_ms, gone);
}

/* Sums the time that threads of this process were runnable without a processor, ns. */
static uint64_t
kept_waiting(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	uint64_t sum = 0, waited;

	while (tasks != NULL && (task = readdir(tasks)) != NULL) {
		char path[300];
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", task->d_name);
		file = fopen(path, "re");
		if (file == NULL)
			continue;
		if (fscanf(file, "%*u %lu", &waited) == 1)
			sum += waited;
		fclose(file);
	}
	if (tasks != NULL)
		closedir(tasks);
	return sum;
}

static void
show_stack(int number)
{
	void *stack[40];

	(void)number;
	backtrace_symbols_fd(stack, backtrace(stack, 40), STDERR_FILENO);
}

static bool
is_owed(uint32_t life)
{
	return life != 0 && atomic_load(&attached_life) == life &&
	       atomic_load(&chaos_plane_of(chaos_self)->life) != life;
}

/* Fails the process if it does not notice the death of its data plane within a second from the moment at
 * which the kernel had released the dead process. A busy machine extends the limit by the time that this
 * process's threads had no processor, and in proportion to the lateness of the watch thread's ticks. */
static void *
watch(void *main_thread)
{
	uint64_t before = chaos_now_ns(), latest = 0, waited = 0;

	for (;;) {
		struct timespec tick = {.tv_nsec = TICK_NS};
		uint32_t life = atomic_load(&attached_life);
		uint64_t now, gone;

		nanosleep(&tick, NULL);
		now = chaos_now_ns();
		if (!is_owed(life)) {
			latest = waited = 0;
			before = now;
			continue;
		}
		if (now - before > latest + TICK_NS)
			latest = now - before - TICK_NS;
		before = now;
		if (waited == 0)
			waited = kept_waiting();
		gone = atomic_load(&chaos_plane_of(chaos_self)->gone_ns);
		if (gone == 0 || now <= gone + SECOND + SECOND / TICK_NS * latest ||
		    now <= gone + SECOND + SECOND / TICK_NS * latest + kept_waiting() - waited ||
		    !is_owed(life))
			continue;
		pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
		usleep(500000);
		chaos_fail(
			__FILE__, __LINE__,
			"its data plane is gone for %u ms, and it was not noticed (its threads had no processor for %u ms, its own clock is late by %u ms)",
			(unsigned)((now - gone) / 1000000), (unsigned)((kept_waiting() - waited) / 1000000),
			(unsigned)(latest / 1000000));
	}
	return NULL;
}

/* ---- blocks ---- */

struct header {
	uint64_t magic, sum;
	struct chaos_origin origin;
	uint32_t len;
};

_Static_assert(offsetof(struct header, len) == CHAOS_LENGTH_AT && sizeof(struct header) < CHAOS_BLOCK_MIN,
	       "see chaos.h");

#define MAGIC 0x6368616f73626c6bull

static uint64_t
next(uint64_t *x)
{
	*x = *x * 6364136223846793005ull + 1442695040888963407ull;
	return *x >> 32;
}

static uint64_t
seed_of(struct chaos_origin origin)
{
	return (uint64_t)origin.stream << 32 ^ (uint64_t)origin.sequence << 5 ^ origin.slot;
}

/* Checksum of the payload. */
static uint64_t
sum_of(const uint8_t *data, uint32_t len)
{
	uint64_t sum = 14695981039346656037ull, word;
	uint32_t at = 0;

	for (; at + 8 <= len; at += 8) {
		memcpy(&word, data + at, 8);
		sum = (sum ^ word) * 1099511628211ull;
		sum ^= sum >> 29;
	}
	for (; at < len; at++)
		sum = (sum ^ data[at]) * 1099511628211ull;
	return sum;
}

void
chaos_block_fill(void *block, uint32_t len, struct chaos_origin origin)
{
	struct header header = {.magic = MAGIC, .origin = origin, .len = len};
	uint8_t *data = (uint8_t *)block + sizeof(header);
	uint64_t x = seed_of(origin);

	for (uint32_t at = 0; at < len - sizeof(header); at++)
		data[at] = (uint8_t)next(&x);
	header.sum = sum_of(data, len - (uint32_t)sizeof(header));
	memcpy(block, &header, sizeof(header));
}

const char *
chaos_block_wrong(const void *block, uint32_t len, struct chaos_origin origin)
{
	const uint8_t *data = (const uint8_t *)block + sizeof(struct header);
	uint64_t x = seed_of(origin);
	struct header header;

	memcpy(&header, block, sizeof(header));
	if (header.magic != MAGIC)
		return "there is no block";
	if (memcmp(&header.origin, &origin, sizeof(origin)) != 0)
		return "the block is another one";
	if (header.len != len)
		return "the block has another length";
	if (header.sum != sum_of(data, len - (uint32_t)sizeof(header)))
		return "the checksum is wrong";
	for (uint32_t at = 0; at < len - sizeof(header); at++)
		if (data[at] != (uint8_t)next(&x))
			return "the checksum is right, the data is not";
	return NULL;
}

/* ---- the process ---- */

static void
take_board(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	chaos_board = fd < 0 ? MAP_FAILED
			     : mmap(NULL, sizeof(*chaos_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (chaos_board == MAP_FAILED) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	close(fd);
}

void
chaos_start(int argc, char **argv)
{
	uint32_t uid;
	static pthread_t own;
	pthread_t thread;

	if (argc != 9) {
		fprintf(stderr,
			"usage: %s BOARD SLOT SEED SOCKET UID DOOM-PHASE DOOM-COUNT DOOM-MICROSECONDS\n",
			argv[0]);
		exit(2);
	}
	take_board(argv[1]);
	chaos_self = (uint32_t)atoi(argv[2]);
	chaos_control = chaos_self < CHAOS_CONTROLS;
	random_state = (strtoull(argv[3], NULL, 0) + 1) * 0x9E3779B97F4A7C15ull | 1;
	for (int k = 0; k < 8; k++)
		chaos_number(2);
	setenv("ONESIDE_SOCKET", argv[4], 1);
	uid = (uint32_t)atoi(argv[5]);
	doom_phase = (uint32_t)atoi(argv[6]);
	doom_count = (uint32_t)atoi(argv[7]);
	doom_us = (uint32_t)atoi(argv[8]);
	if (uid != getuid() && (setgroups(0, NULL) != 0 || setgid(uid) != 0 || setuid(uid) != 0))
		chaos_fail(__FILE__, __LINE__, "uid %u: %s", uid, strerror(errno));
	umask(0); /* segments are for all users */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGUSR1, show_stack);
	own = pthread_self();
	if (pthread_create(&thread, NULL, watch, &own) != 0)
		chaos_fail(__FILE__, __LINE__, "no thread");
}

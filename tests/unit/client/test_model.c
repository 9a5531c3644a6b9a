/* SPDX-License-Identifier: BSD-3-Clause */
/* The wake-up protocols of api/abi, as small programs on a model of the machine, in every possible order of
 * execution. The model has two processors with store buffers, as x86 does, the weakest machine that the full
 * fences are for: a store enters the processor's own buffer and reaches memory later, in order; loads check
 * the own buffer first; fences, atomic read-modify-writes and system calls wait until the buffer is empty.
 * Each protocol is shown to lose nothing, and to lose something without any one of its fences: so the model
 * can tell the difference. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit.h"

enum op {
	END,
	STORE, /* var = value */
	LOAD,  /* reg = var */
	ADD,   /* atomic: var += value */
	XCHG,  /* atomic: reg = var, var = value */
	FENCE,
	IF_EQ, /* reg == value: jump */
	JUMP,
	SLEEP,  /* futex: unless var != reg */
	WAKE,   /* the sleeper on var */
	NOTHING /* replaces an instruction that a variant omits */
};

struct instruction {
	enum op op;
	uint8_t var, reg;
	int8_t value;
	uint8_t target;
};

#define VARS 6
#define REGS 4
#define BUFFER 4

struct cpu {
	uint8_t pc, asleep, buffered, loops;
	int8_t reg[REGS];
	struct {
		uint8_t var;
		int8_t value;
	} buffer[BUFFER];
};

struct machine {
	int8_t var[VARS];
	struct cpu cpu[2];
};

/* Called in a final state; returns false if the protocol has failed. */
typedef bool (*verdict)(const struct machine *m, const struct instruction *const *program);

struct search {
	const struct instruction *program[2];
	verdict good;
	struct machine *seen;
	size_t count, room;
	size_t ends, failures;
};

#define MAX_LOOPS 3 /* backward jumps of one processor: bounds the search */

static bool
known(struct search *s, const struct machine *m)
{
	size_t at = 14695981039346656037u;

	for (size_t i = 0; i < sizeof(*m); i++)
		at = (at ^ ((const uint8_t *)m)[i]) * 1099511628211u;
	for (at %= s->room; s->seen[at].cpu[0].pc != 0xff; at = (at + 1) % s->room) {
		if (memcmp(&s->seen[at], m, sizeof(*m)) == 0)
			return true;
	}
	s->seen[at] = *m;
	s->count++;
	assert_true(s->count < s->room / 2);
	return false;
}

static void
drain_one(struct machine *m, struct cpu *c)
{
	m->var[c->buffer[0].var] = c->buffer[0].value;
	c->buffered--;
	memmove(&c->buffer[0], &c->buffer[1], sizeof(c->buffer) - sizeof(c->buffer[0]));
	memset(&c->buffer[BUFFER - 1], 0, sizeof(c->buffer[0]));
}

static int8_t
load(const struct machine *m, const struct cpu *c, uint8_t var)
{
	for (int i = c->buffered - 1; i >= 0; i--) {
		if (c->buffer[i].var == var)
			return c->buffer[i].value;
	}
	return m->var[var];
}

static void
jump(struct cpu *c, uint8_t target)
{
	if (target <= c->pc)
		c->loops++;
	c->pc = target;
}

/* Run an instruction of processor n; returns false if it cannot run. */
static bool
step(struct machine *m, int n, const struct instruction *program)
{
	struct cpu *c = &m->cpu[n], *other = &m->cpu[1 - n];
	const struct instruction *i = &program[c->pc];

	if (i->op == END || c->asleep || c->loops > MAX_LOOPS)
		return false;
	if ((i->op == ADD || i->op == XCHG || i->op == FENCE || i->op == SLEEP || i->op == WAKE) &&
	    c->buffered > 0)
		return false;
	if (i->op == STORE && c->buffered == BUFFER)
		return false;
	switch (i->op) {
	case STORE:
		c->buffer[c->buffered].var = i->var;
		c->buffer[c->buffered].value = i->value;
		c->buffered++;
		break;
	case LOAD:
		c->reg[i->reg] = load(m, c, i->var);
		break;
	case ADD:
		m->var[i->var] = (int8_t)(m->var[i->var] + i->value);
		break;
	case XCHG:
		c->reg[i->reg] = m->var[i->var];
		m->var[i->var] = i->value;
		break;
	case IF_EQ:
		if (c->reg[i->reg] == i->value) {
			jump(c, i->target);
			return true;
		}
		break;
	case JUMP:
		jump(c, i->target);
		return true;
	case SLEEP:
		if (m->var[i->var] == c->reg[i->reg])
			c->asleep = 1;
		break;
	case WAKE:
		other->asleep = 0;
		break;
	default:
		break;
	}
	c->pc++;
	return true;
}

static void
explore(struct search *s, const struct machine *m)
{
	bool moved = false;

	if (known(s, m))
		return;
	for (int n = 0; n < 2; n++) {
		struct machine next = *m;

		if (step(&next, n, s->program[n])) {
			moved = true;
			explore(s, &next);
		}
		if (m->cpu[n].buffered > 0) {
			next = *m;
			drain_one(&next, &next.cpu[n]);
			moved = true;
			explore(s, &next);
		}
	}
	if (!moved) {
		s->ends++;
		s->failures += !s->good(m, s->program);
	}
}

/* Count the final states in which the protocol has failed. */
static size_t
failures(const struct instruction *a, const struct instruction *b, verdict good)
{
	struct search s = {.program = {a, b}, .good = good, .room = 1 << 16};
	struct machine start;

	memset(&start, 0, sizeof(start));
	s.seen = malloc(s.room * sizeof(*s.seen));
	for (size_t i = 0; i < s.room; i++)
		s.seen[i].cpu[0].pc = 0xff;
	explore(&s, &start);
	free(s.seen);
	assert_true(s.ends > 0);
	return s.failures;
}

static bool
nobody_sleeps(const struct machine *m, const struct instruction *const *program)
{
	return !m->cpu[0].asleep && !m->cpu[1].asleep;
}

/* ---- waiting for completions: wait.c against the core ---- */

enum { WORD, ARM, ENTRY, SLEEPERS };

enum { WAITER_FENCE = 2, WAITER_COUNT = 5 };
static const struct instruction waiter[] = {
	{LOAD, WORD, 0, 0, 0},     /* 0: one_wait_begin */
	{STORE, ARM, 0, 1, 0},     /* 1: one_wait_arm */
	{FENCE, 0, 0, 0, 0},       /* 2 */
	{LOAD, ENTRY, 1, 0, 0},    /* 3: poll again */
	{IF_EQ, 0, 1, 1, 9},       /* 4 */
	{ADD, SLEEPERS, 0, 1, 0},  /* 5: one_wait_sleep */
	{SLEEP, WORD, 0, 0, 0},    /* 6 */
	{ADD, SLEEPERS, 0, -1, 0}, /* 7 */
	{JUMP, 0, 0, 0, 0},        /* 8 */
	{END, 0, 0, 0, 0},
};

enum { ENGINE_FENCE = 1, ENGINE_ADD = 4, ENGINE_SLEEPERS = 5 };
static const struct instruction engine[] = {
	{STORE, ENTRY, 0, 1, 0},   /* 0: the phase of an entry */
	{FENCE, 0, 0, 0, 0},       /* 1: once per loop */
	{LOAD, ARM, 0, 0, 0},      /* 2 */
	{IF_EQ, 0, 0, 0, 8},       /* 3: not armed */
	{ADD, WORD, 0, 1, 0},      /* 4 */
	{LOAD, SLEEPERS, 1, 0, 0}, /* 5 */
	{IF_EQ, 0, 1, 0, 8},       /* 6: spinning: the word is enough */
	{WAKE, WORD, 0, 0, 0},     /* 7 */
	{END, 0, 0, 0, 0},
};

#define LENGTH(program) (sizeof(program) / sizeof((program)[0]))

static size_t
without(const struct instruction *a, size_t length, int left_out, const struct instruction *b, verdict good)
{
	struct instruction copy[16];

	memcpy(copy, a, length * sizeof(*a));
	copy[left_out] = (struct instruction){.op = NOTHING};
	return failures(copy, b, good);
}

static void
test_wait(void **state)
{
	struct instruction early[LENGTH(engine)];

	assert_int_equal(failures(waiter, engine, nobody_sleeps), 0);
	assert_true(without(waiter, LENGTH(waiter), WAITER_FENCE, engine, nobody_sleeps) > 0);
	assert_true(without(waiter, LENGTH(waiter), WAITER_COUNT, engine, nobody_sleeps) > 0);
	assert_true(without(engine, LENGTH(engine), ENGINE_FENCE, waiter, nobody_sleeps) > 0);
	/* asking for sleepers before the word has changed */
	memcpy(early, engine, sizeof(engine));
	early[ENGINE_ADD] = engine[ENGINE_SLEEPERS];
	early[ENGINE_SLEEPERS] = engine[ENGINE_ADD];
	assert_true(failures(waiter, early, nobody_sleeps) > 0);
}

/* ---- a bundle of completion rings: two cores, or the waiter and a core with its own ring ---- */

enum { CLAIM, RING_ARM, BUNDLE_ENTRY, NEXT_ENTRY, EVENTS };

/* one_wait_arm() arms the bundle, then the ring. The waiter must see the last entry or get an event. */
enum { ARM_BUNDLE = 0, ARM_RING = 1, ARM_FENCE = 2 };
static const struct instruction arms[] = {
	{STORE, CLAIM, 0, 1, 0},     /* 0 */
	{STORE, RING_ARM, 0, 1, 0},  /* 1 */
	{FENCE, 0, 0, 0, 0},         /* 2 */
	{LOAD, NEXT_ENTRY, 1, 0, 0}, /* 3: poll again */
	{END, 0, 0, 0, 0},
};

/* Two entries, in two loops: a core that found the arm claimed in the first loop does not check it in the
 * second. */
enum { ANSWER_FENCE = 6 };
static const struct instruction answers[] = {
	{STORE, BUNDLE_ENTRY, 0, 1, 0}, /* 0 */
	{LOAD, RING_ARM, 0, 0, 0},      /* 1 */
	{IF_EQ, 0, 0, 0, 5},            /* 2: not armed */
	{XCHG, CLAIM, 1, 0, 0},         /* 3 */
	{IF_EQ, 0, 1, 1, 10},           /* 4: this core answers */
	{STORE, NEXT_ENTRY, 0, 1, 0},   /* 5: the next loop */
	{FENCE, 0, 0, 0, 0},            /* 6 */
	{IF_EQ, 0, 0, 1, 11},           /* 7: that arm was checked */
	{LOAD, RING_ARM, 0, 0, 0},      /* 8 */
	{IF_EQ, 0, 0, 0, 11},           /* 9 */
	{ADD, EVENTS, 0, 1, 0},         /* 10 */
	{END, 0, 0, 0, 0},              /* 11 */
};

static bool
entry_seen_or_event(const struct machine *m, const struct instruction *const *program)
{
	int core = program[0][0].op == STORE && program[0][0].var == BUNDLE_ENTRY ? 0 : 1;

	return m->cpu[1 - core].reg[1] == 1 || m->var[EVENTS] == 1;
}

/* Both cores find the arm due; exactly one of them answers. */
static const struct instruction claims[] = {
	{XCHG, CLAIM, 0, 2, 0}, /* 0: 0 if no core has claimed the arm */
	{IF_EQ, 0, 0, 2, 3},    /* 1: another core has */
	{ADD, EVENTS, 0, 1, 0}, /* 2 */
	{END, 0, 0, 0, 0},
};

static bool
one_event(const struct machine *m, const struct instruction *const *program)
{
	return m->var[EVENTS] == 1;
}

static void
test_bundle(void **state)
{
	struct instruction wrong[LENGTH(arms)];

	assert_int_equal(failures(arms, answers, entry_seen_or_event), 0);
	assert_true(without(arms, LENGTH(arms), ARM_FENCE, answers, entry_seen_or_event) > 0);
	assert_true(without(answers, LENGTH(answers), ANSWER_FENCE, arms, entry_seen_or_event) > 0);
	assert_int_equal(failures(claims, claims, one_event), 0);
	/* With the ring armed before the bundle, a core that sees the ring's arm finds the bundle claimed,
	 * and does not retry. */
	memcpy(wrong, arms, sizeof(arms));
	wrong[ARM_BUNDLE] = arms[ARM_RING];
	wrong[ARM_RING] = arms[ARM_BUNDLE];
	assert_true(failures(wrong, answers, entry_seen_or_event) > 0);
}

/* ---- a core that sleeps: one_qp_wake ---- */

enum { PHASE, DOORBELL, ASLEEP, EVENTFD };

static const struct instruction poster[] = {
	{STORE, PHASE, 0, 1, 0},    /* 0: one_ring_commit */
	{STORE, DOORBELL, 0, 1, 0}, /* 1: one_doorbell_ring */
	{FENCE, 0, 0, 0, 0},        /* 2: one_qp_wake */
	{LOAD, ASLEEP, 0, 0, 0},    /* 3 */
	{IF_EQ, 0, 0, 0, 7},        /* 4 */
	{ADD, EVENTFD, 0, 1, 0},    /* 5: write(2) */
	{WAKE, EVENTFD, 0, 0, 0},   /* 6 */
	{END, 0, 0, 0, 0},
};

static const struct instruction sleeper[] = {
	{STORE, ASLEEP, 0, 1, 0},  /* 0 */
	{FENCE, 0, 0, 0, 0},       /* 1 */
	{LOAD, DOORBELL, 0, 0, 0}, /* 2: poll again */
	{IF_EQ, 0, 0, 1, 5},       /* 3 */
	{SLEEP, EVENTFD, 1, 0, 0}, /* 4: epoll on the eventfd, which is readable once written */
	{END, 0, 0, 0, 0},
};

static void
test_sleeping_engine(void **state)
{
	assert_int_equal(failures(poster, sleeper, nobody_sleeps), 0);
	assert_true(without(poster, LENGTH(poster), 2, sleeper, nobody_sleeps) > 0);
	assert_true(without(sleeper, LENGTH(sleeper), 1, poster, nobody_sleeps) > 0);
}

/* ---- doorbells: no fence on either side ---- */

enum { FIRST, SECOND, BELL, GROUP };

static const struct instruction posts_twice[] = {
	{STORE, FIRST, 0, 1, 0}, {STORE, BELL, 0, 1, 0},  {STORE, GROUP, 0, 1, 0}, {STORE, SECOND, 0, 1, 0},
	{STORE, BELL, 0, 1, 0},  {STORE, GROUP, 0, 1, 0}, {END, 0, 0, 0, 0},
};

static const struct instruction scans[] = {
	{XCHG, GROUP, 0, 0, 0},  /* 0 */
	{IF_EQ, 0, 0, 0, 6},     /* 1: quiet group */
	{XCHG, BELL, 1, 0, 0},   /* 2 */
	{IF_EQ, 0, 1, 0, 6},     /* 3 */
	{LOAD, FIRST, 2, 0, 0},  /* 4: poll the ring */
	{LOAD, SECOND, 3, 0, 0}, /* 5 */
	{JUMP, 0, 0, 0, 0},      /* 6: next loop of the core */
	{END, 0, 0, 0, 0},
};

/* In any state in which the core stops, a doorbell is rung for each request not yet seen. */
static bool
rung_or_seen(const struct machine *m, const struct instruction *const *program)
{
	const struct cpu *scanner = &m->cpu[program[0] == scans ? 0 : 1];
	bool rung = m->var[GROUP] == 1 && m->var[BELL] == 1;
	/* Between the core's exchanges and loads, the poll of the ring is still to come. */
	bool looking = scanner->pc > 0 && scanner->pc < 6;

	return rung || looking || (scanner->reg[2] == 1 && scanner->reg[3] == 1);
}

static void
test_doorbells(void **state)
{
	struct instruction wrong[LENGTH(posts_twice)];

	assert_int_equal(failures(posts_twice, scans, rung_or_seen), 0);
	/* The group is rung before the doorbell. */
	memcpy(wrong, posts_twice, sizeof(wrong));
	wrong[4] = posts_twice[5];
	wrong[5] = posts_twice[4];
	assert_true(failures(wrong, scans, rung_or_seen) > 0);
	/* The doorbell is rung before the phase is stored. */
	memcpy(wrong, posts_twice, sizeof(wrong));
	wrong[3] = posts_twice[5];
	wrong[5] = posts_twice[3];
	assert_true(failures(wrong, scans, rung_or_seen) > 0);
}

/* ---- moves of queue pairs, and requests for keys: dataplane/qp/move.c against keys.c ---- */

enum { MOVING, KEYS_BUSY, BETWEEN };

enum { MOVE_MARK = 0 };
static const struct instruction moves[] = {
	{ADD, MOVING, 0, 1, 0},     /* 0: begin_without_keys */
	{LOAD, KEYS_BUSY, 0, 0, 0}, /* 1 */
	{IF_EQ, 0, 0, 1, 5},        /* 2: gives way */
	{ADD, BETWEEN, 0, 1, 0},    /* 3: in no lane's lists */
	{ADD, BETWEEN, 0, -1, 0},   /* 4 */
	{ADD, MOVING, 0, -1, 0},    /* 5: end_without_keys */
	{END, 0, 0, 0, 0},
};

enum { KEYS_FENCE = 1 };
static const struct instruction revokes[] = {
	{STORE, KEYS_BUSY, 0, 1, 0}, /* 0: exclude_moves */
	{FENCE, 0, 0, 0, 0},         /* 1 */
	{LOAD, MOVING, 0, 0, 0},     /* 2 */
	{IF_EQ, 0, 0, 0, 5},         /* 3 */
	{JUMP, 0, 0, 0, 0},          /* 4: the next scan */
	{LOAD, BETWEEN, 1, 0, 0},    /* 5: visits the lanes' lists */
	{LOAD, BETWEEN, 2, 0, 0},    /* 6 */
	{STORE, KEYS_BUSY, 0, 0, 0}, /* 7: answer_request */
	{END, 0, 0, 0, 0},
};

static bool
all_in_lists(const struct machine *m, const struct instruction *const *program)
{
	const struct cpu *home = &m->cpu[program[0][0].var == KEYS_BUSY ? 0 : 1];

	return home->reg[1] == 0 && home->reg[2] == 0;
}

static void
test_moves_and_keys(void **state)
{
	struct instruction wrong[LENGTH(moves)];

	assert_int_equal(failures(moves, revokes, all_in_lists), 0);
	assert_true(without(revokes, LENGTH(revokes), KEYS_FENCE, moves, all_in_lists) > 0);
	/* The mark of a move is no atomic addition, but a plain store. */
	memcpy(wrong, moves, sizeof(moves));
	wrong[MOVE_MARK] = (struct instruction){STORE, MOVING, 0, 1, 0};
	assert_true(failures(wrong, revokes, all_in_lists) > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_bundle),
		cmocka_unit_test(test_sleeping_engine),
		cmocka_unit_test(test_doorbells),
		cmocka_unit_test(test_moves_and_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

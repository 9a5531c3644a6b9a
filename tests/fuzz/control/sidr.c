/* SPDX-License-Identifier: BSD-3-Clause */
/* Service ID resolution: our questions, and answers and questions of others, genuine and invented. */
#include <string.h>

#include "control/cm/sidr.h"
#include "tests/fuzz/base/records.h"

#define KEPT_MAX 8
#define ASKED_MAX 16u
#define TIME_LOG2_MAX 36u

static struct sidr *sidr;
static uint64_t now, random_next;
static struct sidr_query *kept[KEPT_MAX]; /* asked by others, to be answered */
static uint32_t num_kept, num_open, num_asked;
static uint8_t last[CM_MAD_LEN]; /* the MAD sent last */
static struct cm_path last_path;
static bool listens;

static void
on_send(struct sidr_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	memcpy(last, mad, CM_MAD_LEN);
	last_path = *path;
}

static bool
on_event(struct sidr_env *env, enum sidr_event_type type, struct sidr_query *query,
	 const struct sidr_remote *remote)
{
	if (type != SIDR_REQUESTED) {
		if (sidr_user(query) != &num_open || num_open-- == 0)
			fuzz_fail("the end of a question that was not ours");
		return true;
	}
	if (!listens || num_kept == KEPT_MAX)
		return false;
	kept[num_kept++] = query;
	return true;
}

static uint64_t
on_random(struct sidr_env *env)
{
	return random_next = random_next * 6364136223846793005ull + 1442695040888963407ull;
}

static struct cm_path
path_to(uint8_t host)
{
	return (struct cm_path){.src = {{[10] = 0xff, 0xff, 192, 0, 2, 1}},
				.dst = {{[10] = 0xff, 0xff, 192, 0, 2, host}},
				.hop_limit = 64};
}

static void
ask(struct bytes *record)
{
	struct cm_path path = path_to((uint8_t)record_number(record, 1));
	uint32_t len = (uint32_t)record_number(record, 1) % (SIDR_PRIVATE_REQ + 1);
	uint8_t data[SIDR_PRIVATE_REQ];

	record_fill(record, data, sizeof(data));
	if (num_asked++ < ASKED_MAX &&
	    sidr_ask(sidr, &path, SIDR_SERVICE_UDP(7174), 4321, data, len, &num_open, now) != NULL)
		num_open++;
}

static void
answer(struct bytes *record)
{
	uint32_t len = (uint32_t)record_number(record, 1) % (SIDR_PRIVATE_REP + 1);
	uint8_t data[SIDR_PRIVATE_REP], status = (uint8_t)record_number(record, 1) % 4;

	record_fill(record, data, sizeof(data));
	if (num_kept > 0)
		sidr_answer(kept[--num_kept], (enum sidr_status)status, 0x1234, 0x11111111, data, len, now);
}

/* Inputs any bytes, or the MAD sent last with some bytes changed, back from its destination. */
static void
input(struct bytes *record, bool echo)
{
	uint8_t mad[CM_MAD_LEN];
	struct cm_path path = path_to((uint8_t)record_number(record, 1));

	if (echo) {
		memcpy(mad, last, sizeof(mad));
		path = last_path;
		mad[17] ^= 0x17 ^ 0x18; /* swaps question and answer */
		while (record->left >= 2) {
			uint8_t at = (uint8_t)record_number(record, 1);

			mad[at] = (uint8_t)record_number(record, 1);
		}
	} else {
		record_fill(record, mad, sizeof(mad));
	}
	sidr_input(sidr, &path, mad, now);
}

static void
pass(uint64_t ns)
{
	uint64_t until = now + ns, next;

	while ((next = sidr_deadline(sidr)) <= until) {
		if (next > now)
			now = next;
		sidr_timeout(sidr, now);
	}
	now = until;
}

static void
step(struct bytes *record)
{
	switch (record_number(record, 1) % 6) {
	case 0:
		ask(record);
		break;
	case 1:
		answer(record);
		break;
	case 2:
		input(record, false);
		break;
	case 3:
		input(record, true);
		break;
	case 4:
		pass(1ull << record_number(record, 1) % TIME_LOG2_MAX);
		break;
	default:
		listens = record_number(record, 1) % 2 != 0;
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sidr_env env = {.send = on_send,
			       .event = on_event,
			       .random = on_random,
			       .retry_interval = 1000000,
			       .max_retries = 8,
			       .max_requests = 16};
	struct bytes in = {data, size}, record;

	random_next = 1;
	num_kept = num_open = num_asked = 0;
	now = 1000000000;
	listens = true;
	memset(last, 0, sizeof(last));
	last_path = path_to(2);
	sidr = sidr_new(&env);
	while (record_next(&in, &record))
		step(&record);
	while (num_kept > 0)
		sidr_answer(kept[--num_kept], SIDR_REJECT, 0, 0, NULL, 0, now);
	pass(3600ull * 1000000000);
	if (num_open != 0)
		fuzz_fail("a question without an end");
	sidr_free(sidr);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "attach.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dataplane/base/state.h"

struct config config;
uint32_t base_fds;

static pthread_mutex_t edges_lock = PTHREAD_MUTEX_INITIALIZER;
static char transitions[1024], transitions_copy[sizeof(transitions)];

static void
take_transition(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to, const char *why,
		bool allowed)
{
	size_t len;

	if (!allowed)
		abort();
	if (strcmp(machine->object, "attachment") != 0)
		return;
	pthread_mutex_lock(&edges_lock);
	len = strlen(transitions);
	snprintf(transitions + len, sizeof(transitions) - len, "%s -> %s: %s\n", machine->name[from],
		 machine->name[to], why);
	pthread_mutex_unlock(&edges_lock);
}

void
attach_transitions_trace(void)
{
	state_trace = take_transition;
}

void
attach_transitions_clear(void)
{
	pthread_mutex_lock(&edges_lock);
	transitions[0] = '\0';
	pthread_mutex_unlock(&edges_lock);
}

const char *
attach_transitions(void)
{
	pthread_mutex_lock(&edges_lock);
	memcpy(transitions_copy, transitions, sizeof(transitions));
	pthread_mutex_unlock(&edges_lock);
	return transitions_copy;
}

void
pause_ms(unsigned int ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

void
assert_clean(void)
{
	while (fake_objects() != 0 || count_fds() != base_fds)
		pause_ms(1);
	if (fake_mistake() != NULL)
		fail_msg("%s", fake_mistake());
	/* Unread entries belong to removed objects, whose ids will be reused. */
	forget_events();
}

static struct fake_event seen[FAKE_EVENTS];
static uint32_t num_seen;

static void
collect(void)
{
	num_seen += fake_events(&seen[num_seen], FAKE_EVENTS - num_seen);
}

struct fake_event
await(uint8_t type, uint32_t object)
{
	for (;;) {
		collect();
		for (uint32_t n = 0; n < num_seen; n++) {
			struct fake_event event = seen[n];

			if (event.type != type || (object != 0 && event.object != object))
				continue;
			memmove(&seen[n], &seen[n + 1], (--num_seen - n) * sizeof(seen[0]));
			return event;
		}
		pause_ms(1);
	}
}

void
assert_no_event(void)
{
	pause_ms(20);
	collect();
	if (num_seen != 0)
		fail_msg("an entry too many: type %u, status %u", seen[0].type, seen[0].status);
}

void
assert_ended(struct app *app)
{
	assert_int_equal(app_receive(app), 0);
	app_close(app);
}

void
forget_events(void)
{
	collect();
	num_seen = 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines that applications and other hosts can bring about as often as they like.  Each user has a budget of
 * its own, so that the lines of one do not hide those of another; what no user can be named for shares one.
 */
#include "control/loop/log.h"

#include <inttypes.h>

#include "control/loop/loop.h"

/* So many lines at once, and then one for each interval: 4 MB a day. */
#define LOG_LINES 50u
#define LOG_INTERVAL (4 * NS_PER_S)
#define LOG_LEFT_OUT (60 * NS_PER_S) /* interval of the line that says how many are missing */
/* Users with a budget of their own at one time; further ones share that of nobody, which bounds the log of
 * who has many uids. */
#define LOG_USERS 16u
#define LOG_NOBODY UINT32_MAX

struct log_budget {
	uint32_t uid;
	uint32_t left_out;
	uint64_t used_until; /* each line uses an interval; not above control.now: all of it is left */
	uint64_t report_at;  /* when lines that were left out are reported */
};

uint64_t log_suppressed;

/* The last one is that of nobody. */
static struct log_budget budgets[LOG_USERS + 1];

static bool
budget_is_idle(const struct log_budget *budget)
{
	return budget->used_until <= control.now && budget->left_out == 0;
}

static void
report_left_out(struct log_budget *budget)
{
	char whose[24] = "";

	if (budget->left_out == 0 || control.now < budget->report_at)
		return;
	if (budget->uid != LOG_NOBODY)
		snprintf(whose, sizeof(whose), " uid=%" PRIu32, budget->uid);
	log_notice("event=lines_left_out%s lines=%u text=\"they were like the last ones\"\n", whose,
		   budget->left_out);
	budget->left_out = 0;
}

static struct log_budget *
budget_of(uint32_t uid)
{
	struct log_budget *nobody = &budgets[LOG_USERS], *idle = NULL;

	nobody->uid = LOG_NOBODY;
	for (struct log_budget *budget = budgets; budget < nobody; budget++) {
		if (budget->uid == uid && !budget_is_idle(budget))
			return budget;
		if (budget_is_idle(budget))
			idle = budget;
	}
	if (uid == LOG_NOBODY || idle == NULL)
		return nobody;
	idle->uid = uid;
	return idle;
}

static bool
budget_spend(struct log_budget *budget)
{
	if (budget->used_until < control.now)
		budget->used_until = control.now;
	if (budget->used_until - control.now >= LOG_LINES * LOG_INTERVAL) {
		if (budget->left_out++ == 0)
			budget->report_at = control.now + LOG_LEFT_OUT;
		log_suppressed++;
		return false;
	}
	budget->used_until += LOG_INTERVAL;
	return true;
}

bool
log_allowed_to(uint32_t uid)
{
	for (uint32_t i = 0; i <= LOG_USERS; i++)
		report_left_out(&budgets[i]);
	return budget_spend(budget_of(uid));
}

bool
log_allowed(void)
{
	return log_allowed_to(LOG_NOBODY);
}

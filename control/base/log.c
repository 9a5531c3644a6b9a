/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines that applications and other hosts can cause at any rate.  Each user has a budget, so that one
 * user's lines do not displace another's.  Lines without a user share one budget. */
#include "control/base/log.h"

#include <inttypes.h>

#include "control/base/loop.h"

/* A budget allows LOG_LINES at once, then one line per LOG_INTERVAL: 4 MB a day. */
#define LOG_LINES 50u
#define LOG_INTERVAL (4 * NS_PER_S)
#define LOG_LEFT_OUT (60 * NS_PER_S) /* interval of the line that reports the number left out */
/* Limit of users with a budget of their own at one time; further users share LOG_NOBODY's.  The limit bounds
 * the lines of someone with many uids. */
#define LOG_USERS 16u
#define LOG_NOBODY UINT32_MAX

struct log_budget {
	uint32_t uid;
	uint32_t left_out;
	uint64_t used_until; /* each line adds an interval; at most control.now: the budget is full */
	uint64_t report_at;  /* time of the report of lines left out */
};

uint64_t log_suppressed;

/* The last budget is LOG_NOBODY's. */
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
	log_notice("event=lines_left_out%s lines=%u text=\"more lines like the last ones were left out\"\n",
		   whose, budget->left_out);
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

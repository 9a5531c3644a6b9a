/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONTROL_LOG_H
#define CONTROL_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_log.h>

extern int control_logtype;

#define log_error(...) rte_log(RTE_LOG_ERR, (uint32_t)control_logtype, "control: " __VA_ARGS__)
#define log_warning(...) rte_log(RTE_LOG_WARNING, (uint32_t)control_logtype, "control: " __VA_ARGS__)
#define log_notice(...) rte_log(RTE_LOG_NOTICE, (uint32_t)control_logtype, "control: " __VA_ARGS__)
#define log_info(...) rte_log(RTE_LOG_INFO, (uint32_t)control_logtype, "control: " __VA_ARGS__)
#define log_debug(...) rte_log(RTE_LOG_DEBUG, (uint32_t)control_logtype, "control: " __VA_ARGS__)

/* log.c: limits the lines that applications (log_of_user) and other hosts (log_of_others) can cause: some at
 * once, few after that, and once a minute the number of lines left out. */
bool log_allowed_to(uint32_t uid);
bool log_allowed(void);
extern uint64_t log_suppressed; /* lines left out so far */
#define log_of_user(uid, level, ...)              \
	do {                                      \
		if (log_allowed_to(uid))          \
			log_##level(__VA_ARGS__); \
	} while (0)
#define log_of_others(level, ...)                 \
	do {                                      \
		if (log_allowed())                \
			log_##level(__VA_ARGS__); \
	} while (0)

#endif

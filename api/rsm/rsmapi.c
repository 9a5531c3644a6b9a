/* SPDX-License-Identifier: BSD-3-Clause */
/* Exported calls: each calls rsm_do_NAME, and with ONESIDE_DEBUG prints a refusal. */
#include "client/explain.h"
#include "rsm/calls.h"

#define DEFINE(name, ...)                                                            \
	int rsm_##name(ONE_PARAMETERS(__VA_ARGS__))                                  \
	{                                                                            \
		int result = rsm_do_##name(ONE_NAMES(__VA_ARGS__));                  \
                                                                                     \
		return __builtin_expect(!one_explaining, 1)                          \
			       ? result                                              \
			       : rsm_refused_##name(result, ONE_NAMES(__VA_ARGS__)); \
	}
#define DEFINED_ELSEWHERE(name, ...)
RSM_CALLS(DEFINE, DEFINED_ELSEWHERE)

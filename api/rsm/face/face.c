/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported calls: each does it, and with ONESIDE_DEBUG says what is refused. */
#include "client/tell.h"
#include "rsm/base/calls.h"

#define DEFINE(name, ...)                                                            \
	int rsm_##name(ONE_PARAMETERS(__VA_ARGS__))                                  \
	{                                                                            \
		int result = rsm_do_##name(ONE_NAMES(__VA_ARGS__));                  \
                                                                                     \
		return __builtin_expect(!one_telling, 1)                             \
			       ? result                                              \
			       : rsm_refused_##name(result, ONE_NAMES(__VA_ARGS__)); \
	}
#define DEFINED_ELSEWHERE(name, ...)
RSM_CALLS(DEFINE, DEFINED_ELSEWHERE)

/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported calls: each does it, and with ONESIDE_DEBUG says what is refused. */
#include "client/tell.h"
#include "rsm/base/calls.h"

#define DEFINE(name, parameters, arguments)                                               \
	int rsm_##name parameters                                                         \
	{                                                                                 \
		if (__builtin_expect(!one_telling, 1))                                    \
			return rsm_do_##name arguments;                                   \
		return rsm_refused_##name(rsm_do_##name arguments, RSM_SPREAD arguments); \
	}
#define DEFINED_ELSEWHERE(name, parameters, arguments)
RSM_CALLS(DEFINE, DEFINED_ELSEWHERE)

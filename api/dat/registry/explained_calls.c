/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of 1.2 that print their refusals, for ONESIDE_DEBUG (explain.c). */
#include "dat/registry/registry.h"

#define DEFINE(name, handle, version2, ...)                                                         \
	DAT_RETURN refused_##name(DAT_RETURN ret, ONE_PARAMETERS(__VA_ARGS__))                      \
	{                                                                                           \
		return TELL("dat_" #name, ret, ONE_ARGUMENTS(ONE_NAMES(__VA_ARGS__)));              \
	}                                                                                           \
	DAT_RETURN telling_##name(ONE_PARAMETERS(__VA_ARGS__))                                      \
	{                                                                                           \
		return refused_##name(dapl_##name(ONE_NAMES(__VA_ARGS__)), ONE_NAMES(__VA_ARGS__)); \
	}
DAT_CALLS(DEFINE, DEFINE, DAT_OF)

/* SPDX-License-Identifier: BSD-3-Clause */
/* With ONESIDE_DEBUG: the calls of 1.2, which print what they refuse (tell.c). */
#include "dat/registry/registry.h"

#define DEFINE(name, handle, version2, parameters, arguments)                   \
	DAT_RETURN refused_##name(DAT_RETURN ret, SPREAD parameters)            \
	{                                                                       \
		return TELL("dat_" #name, ret, ONE_ARGUMENTS arguments);        \
	}                                                                       \
	DAT_RETURN telling_##name parameters                                    \
	{                                                                       \
		return refused_##name(dapl_##name arguments, SPREAD arguments); \
	}
DAT_CALLS(DEFINE, DEFINE)

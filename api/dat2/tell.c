/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With ONESIDE_DEBUG (client/tell.h): a table whose calls print what they refuse, as libdat does for 1.2.
 * Codes are told as 1.2 has them, whose names 2.0 kept.
 */
#include "dat2.h"
#include "dat/registry/registry.h"

/* What can be shown of an argument list: not a va_list. */
#define SHOWN_ALIKE(name, ...) __VA_ARGS__
#define SHOWN_LAYOUTS(name, ...) __VA_ARGS__
#define SHOWN_UNSUPPORTED(name, ...) __VA_ARGS__
#define SHOWN_DIFFERS(name, ...) FACE_PARAMETERS_##name
#define SHOWN_EXTENDED(name, handle, op, args) handle, op

/* An outcome that is no error has the same code in both versions. */
static DAT_RETURN
code_of(DAT_RETURN ret)
{
	return (ret & DAT_CLASS_ERROR) != 0 ? face_refused : ret;
}

#define DEFINE(name, handle, version2, ...)                                                   \
	static DAT_RETURN telling2_##name(ONE_PARAMETERS(FACE_##version2(name, __VA_ARGS__))) \
	{                                                                                     \
		DAT_RETURN ret = face_##name(ONE_NAMES(FACE_##version2(name, __VA_ARGS__)));  \
                                                                                              \
		TELL("dat_" #name, ret == DAT_SUCCESS ? DAT_SUCCESS : code_of(ret),           \
		     ONE_ARGUMENTS(ONE_NAMES(SHOWN_##version2(name, __VA_ARGS__))));          \
		return ret;                                                                   \
	}
FACE_CALLS(DEFINE)

#define ENTRY(name, handle, version2, ...) .name##_func = telling2_##name,
const DAT2_PROVIDER face_telling = {FACE_CALLS(ENTRY)};

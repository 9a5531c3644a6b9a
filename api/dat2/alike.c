/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with equal arguments in both versions, and calls of 2.0 that oneside does not support. */
#include "dat2.h"

/* EVD flag of the InfiniBand extension.  Replaced by the DTO flag: any DTO EVD reports completions of the
 * extension.
 */
#define EVD_EXTENSION 0x200u

DAT_RETURN
dat2_evd_create(DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags,
		DAT_EVD_HANDLE *evd)
{
	if (((uint32_t)flags & EVD_EXTENSION) != 0)
		flags = (DAT_EVD_FLAGS)(((uint32_t)flags & ~EVD_EXTENSION) | DAT_EVD_DTO_FLAG);
	return dat2_return(dapl_evd_create(ia, qlen, cno, flags, evd));
}

#define DEFINE_ALIKE(name, ...)                                          \
	DAT_RETURN dat2_##name(ONE_PARAMETERS(__VA_ARGS__))              \
	{                                                                \
		return dat2_return(dapl_##name(ONE_NAMES(__VA_ARGS__))); \
	}
#define DEFINE_UNSUPPORTED(name, ...)                                                   \
	DAT_RETURN dat2_##name(ONE_PARAMETERS(__VA_ARGS__))                             \
	{                                                                               \
		return dat2_return(DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)); \
	}
#define DEFINE_LAYOUTS(name, ...)
#define DEFINE_DIFFERS(name, ...)
#define DEFINE_EXTENDED(name, ...)
#define DEFINE(name, handle, version2, ...) DEFINE_##version2(name, __VA_ARGS__)
DAT2_CALLS(DEFINE)

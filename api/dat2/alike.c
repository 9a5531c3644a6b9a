/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls whose arguments are the same in both versions, and those that 2.0 has but oneside does not. */
#include "dat2.h"

/* Flags of the extension: its completions come on any DTO EVD. */
#define EVD_EXTENSION 0x200u

DAT_RETURN
face_evd_create(DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno, uint32_t flags, DAT_EVD_HANDLE *evd)
{
	if ((flags & EVD_EXTENSION) != 0)
		flags = (flags & ~EVD_EXTENSION) | DAT_EVD_DTO_FLAG;
	return face_return(dapl_evd_create(ia, qlen, cno, (DAT_EVD_FLAGS)flags, evd));
}

#define DEFINE_ALIKE(name, parameters, arguments)          \
	DAT_RETURN face_##name parameters                  \
	{                                                  \
		return face_return(dapl_##name arguments); \
	}
#define DEFINE_UNSUPPORTED(name, parameters, arguments)                                 \
	DAT_RETURN face_##name parameters                                               \
	{                                                                               \
		return face_return(DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)); \
	}
#define DEFINE_DIFFERS(name, parameters, arguments)
#define DEFINE_EXTENDED(name, parameters, arguments)
#define DEFINE(name, handle, version2, parameters, arguments) DEFINE_##version2(name, parameters, arguments)
FACE_CALLS(DEFINE)

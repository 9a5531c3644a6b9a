/* SPDX-License-Identifier: BSD-3-Clause */
/* uDAPL 2.0 as the headers of a 2.0 installation define it. */
#include <netinet/in.h>

#include <dat2/udat.h>
#include <dat2/udat_redirection.h>
#include <dat2/dat_ib_extensions.h>

#include "layout.h"

/* In these headers DAT_IB_EXTENSION is a number, and the type of the extension's data has a longer name. */
#undef DAT_IB_EXTENSION
#define DAT_IB_EXTENSION DAT_IB_EXTENSION_EVENT_DATA

#define NAME(name) DAT_##name
#define SUBTYPE(name) {#name, DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_##name},
#define RENAMED(type, ours, theirs) {#type "." #ours, offsetof(DAT_##type, theirs)},

const struct layout layout_theirs[] = {
#include "layout.inc"
	{"NOT_IMPLEMENTED", DAT_CLASS_ERROR | DAT_NOT_IMPLEMENTED},
	{"QUEUE_EMPTY", DAT_QUEUE_EMPTY},
	{"TIMEOUT_EXPIRED", DAT_TIMEOUT_EXPIRED},
	{0, 0},
};

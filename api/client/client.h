/* SPDX-License-Identifier: BSD-3-Clause */
/* Includes all of the client core: for libibverbs, which uses all of it, and for tests. */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "client/cq.h"
#include "client/mem.h"
#include "client/post.h"
#include "client/srq.h"
#include "client/wait.h"

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread, with a fake engine below and a clock of its own, which goes on only as far as it is
 * told to: it runs until it would sleep, and then the target goes on.  Its workers and reapers are threads as
 * ever, and are waited for.
 */
#ifndef TESTS_FUZZ_STAGE_H
#define TESTS_FUZZ_STAGE_H

#include "control/attach/client.h"
#include "control/path/path.h"
#include "tests/fuzz/base/records.h"
#include "tests/unit/control/fake_engine.h"

extern struct config stage_config;
extern char stage_ctl[CONFIG_PATH_MAX]; /* the control socket */

/* Starts it, once. */
void stage_start(void);
/* Until it has nothing to do but to wait. */
void stage_run(void);
/* The same, when so much time has passed. */
void stage_pass(uint64_t ns);
/* Runs until nothing is left of attachments and connections, which it makes sure of. */
void stage_clear(void);
/* A connection to the socket `path`. */
int stage_connect(const char *path);

#endif

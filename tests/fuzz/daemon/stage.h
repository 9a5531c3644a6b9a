/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread, on a fake engine and with a clock that only the target advances. The thread runs until
 * it would sleep; then the target continues. Workers and reapers are real threads, which the stage waits
 * for. */
#ifndef TESTS_FUZZ_STAGE_H
#define TESTS_FUZZ_STAGE_H

#include "control/attach/client.h"
#include "control/path/path.h"
#include "tests/fuzz/base/records.h"
#include "tests/unit/control/fake_engine.h"

extern struct config stage_config;
extern char stage_ctl[CONFIG_PATH_MAX]; /* the control socket */

/* Starts the control thread, once. */
void stage_start(void);
/* Runs the control thread until nothing but waiting is left. */
void stage_run(void);
/* Advances the clock by `ns`, and runs the control thread. */
void stage_pass(uint64_t ns);
/* Ends all attachments and connections, and runs the control thread until none is left. */
void stage_clear(void);
/* Connects to the socket `path`. */
int stage_connect(const char *path);

#endif

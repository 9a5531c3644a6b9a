/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A data plane starts the process that takes over from it (`onesidectl upgrade`).
 *
 * The new process gets the arguments, environment, user, capabilities, cgroup and working directory that the
 * old one was started with, --take-over, and another file prefix. So it is right for a service, in a
 * container and for a user without privileges. It inherits standard input, output and error, and a pipe for
 * the reason why it ends.
 */
#ifndef CONTROL_TAKEOVER_LAUNCH_H
#define CONTROL_TAKEOVER_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#define LAUNCH_WHY 1024 /* bytes of a reason */

/* ---- any process ---- */

/* Call first in main(): EAL changes arguments and processors. */
void takeover_remember(int argc, char **argv);
/* Reports to the process that started this one why it does not take over. */
void takeover_explain(const char *why);
void takeover_explain_end(void);
/* True if a data plane has started this process to take over from it, until takeover_explain_end(). */
bool takeover_is_launched(void);

/* ---- the old process ---- */

/* True if the file that this process was started from is another one now. */
bool takeover_is_replaced(void);
/* Starts `binary`; NULL: the file that this process was started from, as it is now. Writes to the eventfd
 * `done_fd` when the new process has ended. Returns 0, or -errno and a sentence. */
int takeover_launch(const char *binary, int done_fd, char *why, size_t why_len);
/* Call when `done_fd` is readable. */
void takeover_launch_join(char why[LAUNCH_WHY]);
/* Ends the new process, if there is one. */
void takeover_launch_end(void);

/* Returns the arguments for `binary` to take over from a process started with `argv`, as one allocation;
 * NULL: no memory. */
char **takeover_arguments(int argc, char **argv, const char *binary);

#endif

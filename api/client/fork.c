/* SPDX-License-Identifier: BSD-3-Clause */
/* What fork does to attachments and to adopted memory. */
#include "internal.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int install_error;

static void
prepare(void)
{
	watcher_fork_prepare();
}

static void
parent(void)
{
	watcher_fork_parent();
}

static void
child(void)
{
	watcher_fork_child();
}

static void
install(void)
{
	install_error = -pthread_atfork(prepare, parent, child);
}

int
fork_install(void)
{
	pthread_once(&once, install);
	return install_error;
}

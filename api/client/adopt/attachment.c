/* SPDX-License-Identifier: BSD-3-Clause */
/* Beginning and end of an attachment, including fork handlers and registered memory. */
#include "client/internal.h"

int
one_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	int error = fork_install();

	return error != 0 ? error : -pthread_atfork(prepare, parent, child);
}

int
one_attach(const struct one_attach *args, struct one_client **out)
{
	int error = fork_install();

	return error != 0 ? error : client_attach(args, out);
}

void
one_detach(struct one_client *client)
{
	if (!client_foreign(client))
		mem_release_all(client);
	client_detach(client);
}

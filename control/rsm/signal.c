/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals from an exporter to its importers. Signals from importers are work requests, which bypass the
 * control thread.
 */
#include "control/rsm/rsm.h"

/*
 * Replies when the core has taken the last signal, hence all. This bounds an application's signals in flight.
 */
static void
signals_sent(struct engine_command *command, void *object)
{
	client_reply(object, 0);
}

int
rsm_signal(struct client *client, const struct one_msg *msg)
{
	const struct one_rsm_signal *args = &msg->rsm_signal;
	struct segment *segment = segment_find(args->segment);
	struct qp *qp, *next;

	if (segment == NULL || segment->client != client)
		return client_refuse(client, RSM_SEG_NOT_PUBLISHED, ONE_SUBJECT_SEGMENT, args->segment);
	if ((args->flags & ~ONE_RSM_ONCE) != 0)
		return client_refuse(client, RSM_BAD_ARGS_ERRORS, ONE_SUBJECT_NONE, args->flags);
	qp = LIST_FIRST(&segment->exports);
	if (qp == NULL)
		return 0;
	for (; qp != NULL; qp = next) {
		struct engine_command *command;

		next = LIST_NEXT(qp, segment_link);
		command = qp_command(qp, ENGINE_QP_SIGNAL, next == NULL ? signals_sent : NULL, client);
		command->event.imm = one_signal(1, (args->flags & ONE_RSM_ONCE) != 0);
		command_send(command);
	}
	return REQUEST_LATER;
}

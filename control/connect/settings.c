/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of a queue pair in use: the peer's access rights, the RNR timer, and whether requests are started.
 */
#include <errno.h>

#include "control/connect/connect.h"

#define REMOTE (ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)
#define GIVEN (ONE_QP_SET_ACCESS | ONE_QP_SET_MIN_RNR_TIMER | ONE_QP_SET_STOPPED)

/* Returns 0, or the refusal. */
static int
settings_check(struct client *client, const struct qp *qp, const struct one_qp_set *args)
{
	const struct one_qp_settings *to = &args->to;

	if (qp == NULL || !qp->kind->created)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, args->qp);
	if (qp->state != ONE_QP_CONNECTING && qp->state != ONE_QP_CONNECTED)
		return client_refuse(client, -ENOTCONN, ONE_SUBJECT_QP, qp->state);
	if ((to->given & ~(qp->config.ud ? ONE_QP_SET_STOPPED : GIVEN)) != 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_NONE, to->given);
	if ((to->access & ~REMOTE) != 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ACCESS, to->access);
	if (to->min_rnr_timer > 31)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, 31);
	return 0;
}

static void
settings_done(struct engine_command *command, void *object)
{
	qp_answer(object, command->status);
}

int
qp_set(struct client *client, const struct one_msg *msg)
{
	const struct one_qp_set *args = &msg->qp_set;
	struct qp *qp = object_get(client, OBJECT_QP, args->qp);
	struct engine_command *command;
	int error = settings_check(client, qp, args);

	if (error != 0)
		return error;
	qp->object.busy = true;
	command = qp_command(qp, ENGINE_QP_SET, settings_done, qp);
	command->settings = args->to;
	command_send(command);
	return REQUEST_LATER;
}

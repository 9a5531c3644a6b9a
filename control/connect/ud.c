/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UD queue pairs: their states, and the Q_Key that protects them.
 *
 * A Q_Key with the highest bit set is privileged (IBTA vol. 1, 10.2.5): management datagrams use one, which
 * the data plane sends itself.  No application may use one.
 *
 *   RTR: receives, ONE_QP_CONNECTING        RTS: sends as well, ONE_QP_CONNECTED
 */
#include <errno.h>

#include "control/connect/ah.h"
#include "control/connect/connect.h"

#define PSN_MAX 0xffffffu

/* Returns 0, or the refusal. */
static int
datagram_check(struct client *client, const struct qp *qp, const struct one_qp_datagram *args)
{
	if (qp == NULL || !qp->kind->created || !qp->config.ud)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, args->qp);
	if (qp->pz == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, 0);
	if (args->state != ONE_DATAGRAM_RTR && args->state != ONE_DATAGRAM_RTS)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_NONE, args->state);
	if (args->state == ONE_DATAGRAM_RTR ? qp->state > ONE_QP_CONNECTING
					    : qp->state != ONE_QP_CONNECTING && qp->state != ONE_QP_CONNECTED)
		return client_refuse(client, -ENOTCONN, ONE_SUBJECT_QP, qp->state);
	if ((args->qkey & ONE_UD_OWN_QKEY) != 0)
		return client_refuse(client, -EPERM, ONE_SUBJECT_ACCESS, args->qkey);
	if (args->send_psn > PSN_MAX)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, args->send_psn);
	return 0;
}

static void
datagram_done(struct engine_command *command, void *object)
{
	struct qp *qp = object;
	enum one_qp_state to = command->datagram.state == RC_RTS ? ONE_QP_CONNECTED : ONE_QP_CONNECTING;

	if (command->status == 0) {
		qp->qkey = command->datagram.qkey;
		if (qp->state < to)
			qp_state_set(qp, to, "datagrams");
	}
	qp_answer(qp, command->status);
}

int
qp_datagram(struct client *client, const struct one_msg *msg)
{
	const struct one_qp_datagram *args = &msg->qp_datagram;
	struct qp *qp = object_get(client, OBJECT_QP, args->qp);
	struct engine_command *command;
	int error = datagram_check(client, qp, args);

	if (error != 0)
		return error;
	qp->object.busy = true;
	command = qp_command(qp, ENGINE_QP_DATAGRAM, datagram_done, qp);
	command->datagram = (struct engine_datagram){
		.state = args->state == ONE_DATAGRAM_RTS ? RC_RTS : RC_RTR,
		.qkey = args->qkey,
		.send_psn = args->send_psn,
	};
	command_send(command);
	return REQUEST_LATER;
}

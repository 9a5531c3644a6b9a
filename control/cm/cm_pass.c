/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections in a take-over. */
#include <errno.h>
#include <stdlib.h>

#include "cm_internal.h"
#include "dataplane/base/record.h"
#include "dataplane/base/record_type.h"

#define VALUE(member) RECORD_FIELD(cm_conn, member, RECORD_VALUE, 0, NULL)
#define FLAG(member) RECORD_FIELD(cm_conn, member, RECORD_VALUE, 2, NULL)
#define TIME(member) RECORD_FIELD(cm_conn, member, RECORD_TIME, 0, NULL)

static const struct record_field fields[] = {
	RECORD_FIELD(cm_conn, state, RECORD_VALUE, CM_STATE_TIMEWAIT + 1, NULL),
	FLAG(announced),
	FLAG(half_open),
	FLAG(active),
	FLAG(refused),
	FLAG(owed),
	VALUE(refusal),
	VALUE(local_id),
	VALUE(remote_id),
	VALUE(local_qpn),
	VALUE(remote_qpn),
	VALUE(remote_guid),
	VALUE(tid),
	VALUE(path),
	VALUE(path_mtu),
	VALUE(retries),
	VALUE(extensions),
	TIME(connect_deadline),
	VALUE(interval_max),
	VALUE(timewait),
	VALUE(mad),
	/* in these indexes; and the timer, if it is set */
	FLAG(by_remote.linked),
	FLAG(by_qpn.linked),
	VALUE(timer.place),
	TIME(timer.deadline),
};
static RECORD_FORM(form, RECORD_CM, 1, fields);

void
cm_conn_write(const struct cm_conn *conn, struct record_out *out, uint64_t now)
{
	record_put(out, &form, conn->path.port, conn, &(struct record_context){.now = now});
}

void
cm_rest_write(const struct cm *cm, struct record_out *out, uint64_t now)
{
	const struct cm_conn *conn;

	LIST_FOREACH(conn, &cm->conns, all)
		if (conn->user == NULL)
			cm_conn_write(conn, out, now);
}

static void
enter_indexes(struct cm_conn *conn, bool by_remote, bool by_qpn)
{
	struct cm *cm = conn->cm;

	if (!by_remote && !by_qpn)
		return;
	cm_conn_set_remote(conn, conn->remote_id, conn->remote_qpn, conn->remote_guid);
	if (!by_remote)
		cm_table_remove(&cm->by_remote, &conn->by_remote);
	if (!by_qpn)
		cm_table_remove(&cm->by_qpn, &conn->by_qpn);
}

struct cm_conn *
cm_conn_read(struct cm *cm, const struct record *record, void *user, uint64_t now)
{
	struct cm_conn *conn = calloc(1, sizeof(*conn));
	bool by_remote, by_qpn, has_timer;

	if (conn == NULL)
		return NULL;
	if (record_get(record, &form, conn, &(struct record_context){.now = now}) != 0) {
		free(conn);
		return NULL;
	}
	by_remote = conn->by_remote.linked;
	by_qpn = conn->by_qpn.linked;
	has_timer = conn->timer.place != 0;
	conn->by_remote.linked = conn->by_qpn.linked = false;
	conn->timer.place = 0;
	conn->user = user;
	if (!cm_conn_enter(cm, conn)) {
		free(conn);
		return NULL;
	}
	cm->half_open += conn->half_open;
	enter_indexes(conn, by_remote, by_qpn);
	if (has_timer)
		cm_conn_timer(conn, conn->timer.deadline);
	return conn;
}

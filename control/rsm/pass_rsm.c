/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RSM in a take-over: segments, and what imports and exports have beyond other queue pairs.
 *
 * Peers notice nothing, for ids, keys and this data plane's incarnation stay.  Open challenges are lost:
 * their importers begin again (import_prove()).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/attach/passing.h"
#include "control/rsm/rsm.h"

#define VALUE(of, member) RECORD_FIELD(of, member, RECORD_VALUE, 0, NULL)
#define FLAG(of, member) RECORD_FIELD(of, member, RECORD_VALUE, 2, NULL)
#define OBJECT(of, member, kind) RECORD_FIELD(of, member, RECORD_NAME, 0, &pass_object[OBJECT_##kind])

/* ---- names and forms ---- */

static uint64_t
name_segment(const void *pointer, const struct record_context *context)
{
	return ((const struct segment *)pointer)->id;
}

/* Finds only segments of the attachment that is read. */
static void *
find_segment(uint64_t name, const struct record_context *context)
{
	struct segment *segment = name > UINT32_MAX ? NULL : segment_find((uint32_t)name);

	return segment != NULL && segment->client == context->owner ? segment : NULL;
}

static const struct record_naming segment_naming = {name_segment, find_segment};

static const struct record_field rsm_fields[] = {
	VALUE(control, incarnation),
	RECORD_FIELD(control, next_segment, RECORD_VALUE, UINT32_MAX + 2ull, NULL),
};
static RECORD_FORM(rsm_form, RECORD_RSM, 1, rsm_fields);

static const struct record_field segment_fields[] = {
	OBJECT(segment, mr, MR),
	OBJECT(segment, signal_cq, CQ),
	RECORD_FIELD(segment, acl.default_permission, RECORD_VALUE, 01000, NULL),
	RECORD_FIELD(segment, acl.num, RECORD_VALUE, ONE_RSM_ACL_MAX + 1, NULL),
	VALUE(segment, acl.entry),
	FLAG(segment, mappable),
	FLAG(segment, given),
};
static RECORD_FORM(segment_form, RECORD_SEGMENT, 1, segment_fields);

struct export
{
	struct segment *segment;
	uint32_t pz, key; /* of its own */
};
static const struct record_field export_fields[] = {
	RECORD_FIELD(export, segment, RECORD_NAME, 0, &segment_naming),
	VALUE(export, pz),
	VALUE(export, key),
};
static RECORD_FORM(export_form, RECORD_EXPORT, 1, export_fields);

/* ---- the data plane ---- */

void
rsm_write(struct pass_out *out)
{
	record_put(&out->records, &rsm_form, 0, &control, &out->context);
}

int
rsm_read(struct pass_in *in)
{
	uint64_t id;

	if (pass_get(in, &rsm_form, &control, &id) != 0)
		return -EINVAL;
	return control.incarnation != 0 && control.next_segment >= RSM_ASSIGNED_FIRST
		       ? 0
		       : pass_refuse(in, "RSM's numbers are not valid");
}

/* ---- segments ---- */

void
rsm_segments_write(struct client *client, struct pass_out *out)
{
	const struct segment *segment;

	LIST_FOREACH(segment, &client->segment_list, client_link)
		record_put(&out->records, &segment_form, segment->id, segment, &out->context);
}

/* Checks an id as RSM_PUBLISH does, or that it was assigned. */
static bool
id_is_valid(uint64_t id)
{
	return id <= UINT32_MAX && (acl_segment_id((uint32_t)id) == RSM_OK ||
				    (id >= RSM_ASSIGNED_FIRST && id < control.next_segment));
}

static bool
segment_is_valid(const struct segment *read, uint64_t id)
{
	return id_is_valid(id) && segment_find((uint32_t)id) == NULL && read->mr != NULL &&
	       read->mr->segment == NULL && read->mr->entry->renewable == NULL &&
	       acl_valid(read->acl.entry, read->acl.num) == RSM_OK;
}

static int
segment_read(struct client *client, struct pass_in *in)
{
	struct segment read = {.id = 0}, *segment;
	uint64_t id;

	if (pass_get(in, &segment_form, &read, &id) != 0)
		return -EINVAL;
	if (!segment_is_valid(&read, id))
		return pass_refuse(in, "segment %#llx is not valid", (unsigned long long)id);
	if (client->segments >= control.config->limits.max_segments)
		return pass_refuse(in, "max_segments = %u is less than %s has published; raise it",
				   control.config->limits.max_segments, client->program);
	segment = segment_new(read.mr, (uint32_t)id, read.signal_cq);
	if (segment == NULL)
		return pass_refuse(in, "no memory");
	segment->acl.default_permission = read.acl.default_permission;
	segment->acl.num = read.acl.num;
	memcpy(segment->acl.entry, read.acl.entry, sizeof(segment->acl.entry));
	segment->mappable = read.mappable;
	segment->given = read.given;
	return 0;
}

int
rsm_segments_read(struct client *client, struct pass_in *in)
{
	return pass_each(client, in, RECORD_SEGMENT, segment_read);
}

/* ---- imports and exports ---- */

static bool
permission_is_valid(const struct qp *qp)
{
	return (qp->permission & ~(ACL_READ | ACL_WRITE)) == 0;
}

int
import_read(struct qp *qp, struct pass_in *in)
{
	if (permission_is_valid(qp) && !qp->config.ud && qp->pz != NULL && qp->srq == NULL &&
	    qp->send_cq != NULL && qp->conn_cq == qp->send_cq && qp->recv_cq != qp->send_cq)
		return 0;
	return pass_refuse(in, "import %#x is not valid", qp->object.id);
}

void
export_write(const struct qp *qp, struct pass_out *out)
{
	const struct export export = {qp->segment, qp->config.pz, qp->window->key};

	record_put(&out->records, &export_form, qp->object.id, &export, &out->context);
}

/* An export has neither rings nor objects of the application. */
static bool
export_is_valid(const struct qp *qp, const struct export *export, uint64_t id)
{
	return id == qp->object.id && export->segment != NULL && permission_is_valid(qp) && !qp->config.ud &&
	       qp->config.sq == 0 && qp->config.rq == 0 && qp->block_size == 0 && qp->pz == NULL &&
	       qp->srq == NULL && qp->send_cq == NULL && qp->conn_cq == NULL &&
	       qp->recv_cq == export->segment->signal_cq;
}

/* Takes zone and key as export_qp_new() does, but those of the record. */
static int
numbers_take(struct qp *qp, const struct export *export, struct pass_in *in)
{
	struct quota_account *account = qp->object.client->account;
	struct quota_limit limit;

	if (!export_has_room(qp->object.client) ||
	    quota_take(&control.quota, account, QUOTA_ZONES, 1, &limit) != 0 ||
	    quota_take(&control.quota, account, QUOTA_KEYS, 1, &limit) != 0)
		return pass_refuse(in, "export %#x: a limit is too low", qp->object.id);
	if (export->key == 0 || !mem_slot_is_free(engine_mem_table(), export->key) ||
	    table_put(&control.pz_numbers, export->pz, qp) != 0)
		return pass_refuse(in, "export %#x: its key or zone is taken", qp->object.id);
	qp->config.pz = export->pz;
	qp->object.client->exports++;
	return 0;
}

int
export_read(struct qp *qp, struct pass_in *in)
{
	struct mem_region *window;
	struct export export;
	uint64_t id;

	if (pass_get(in, &export_form, &export, &id) != 0)
		return -EINVAL;
	if (!export_is_valid(qp, &export, id))
		return pass_refuse(in, "export %#x is not valid", qp->object.id);
	if (numbers_take(qp, &export, in) != 0)
		return -EINVAL;
	window = calloc(1, sizeof(*window));
	if (window == NULL)
		return pass_refuse(in, "no memory");
	qp->segment = export.segment;
	export_open(qp, window, export.key);
	return 0;
}

int
rsm_resumed(struct conn *conn)
{
	return host_watch(conn, conn->incarnation);
}

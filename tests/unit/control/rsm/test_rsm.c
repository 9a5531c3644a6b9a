/* SPDX-License-Identifier: BSD-3-Clause */
/* RSM segments and imports within one data plane. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach.h"
#include "control/attach/passing.h"
#include "control/base/acl.h"
#include "control/objects/pass.h"
#include "control/rsm/rsm.h"

static int
publish(struct app *app, enum one_msg_type type, uint32_t mr, uint32_t segment, uint32_t mode, uint32_t node)
{
	app->msg.rsm_publish = (struct one_rsm_publish){.mr = mr,
							.segment = segment,
							.default_permission = mode,
							.num_access = node != 0,
							.access = {{node, mode}}};
	return app_call(app, type);
}

static int
import(struct app *app, uint32_t node, uint32_t segment, uint32_t permission, uint32_t cq, uint32_t pz)
{
	app->msg.rsm_connect = (struct one_rsm_connect){.node = node,
							.segment = segment,
							.permission = permission,
							.cq = cq,
							.max_send_wr = 8,
							.pz = pz};
	return app_call(app, ONE_MSG_RSM_CONNECT);
}

static void
test_rsm(void **state)
{
	struct app exporter, importer;
	struct one_mr_created mr;
	const struct one_qp_shm *shm;
	struct mem_region *window;
	uint32_t pz, cq, qp, second, segment;

	app_hello(&exporter, ONE_KIND_RSM);
	app_hello(&importer, ONE_KIND_RSM);
	mr = app_mr(&exporter, app_pz(&exporter), app_region(&exporter, SIZE), VA, SIZE);
	pz = app_pz(&importer);
	cq = app_cq(&importer, 20);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, 77, 0, 0600, 0), RSM_BAD_SEG_HNDL);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0x300000, 0600, 0),
			 RSM_RESERVED_SEGID);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0x400000, 0777, 1), RSM_BAD_ACL);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_REPUBLISH, 0, 0x400000, 0600, 1),
			 RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_UNPUBLISH, 0, 0x400000, 0, 0), RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0, 0400, 0), 0);
	segment = exporter.reply.rsm.segment;
	assert_true(segment >= 0x80000000);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0x400000, 0600, 0),
			 RSM_SEG_ALREADY_PUBLISHED);
	/* An importer cannot change a segment. */
	assert_int_equal(publish(&importer, ONE_MSG_RSM_UNPUBLISH, 0, segment, 0, 0), RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(publish(&importer, ONE_MSG_RSM_REPUBLISH, 0, segment, 0666, 0),
			 RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(app_call_id(&exporter, ONE_MSG_MR_FREE, mr.mr), -EBUSY);

	assert_int_equal(import(&importer, 1, segment, 0700, cq, pz), RSM_PERM_DENIED);
	assert_int_equal(import(&importer, 9, segment, 0400, cq, pz), RSM_REMOTE_NODE_UNREACHABLE);
	importer.msg.rsm_connect.flags = ONE_RSM_LOOPBACK;
	assert_int_equal(app_call(&importer, ONE_MSG_RSM_CONNECT), RSM_CTLR_NOT_PRESENT);
	assert_int_equal(import(&importer, 1, segment, 0600, cq, pz), 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, RSM_PERM_DENIED);
	assert_int_equal(import(&importer, 1, 0x400000, 0400, cq, pz), 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, RSM_SEG_NOT_PUBLISHED);
	assert_int_equal(app_call_id(&importer, ONE_MSG_RSM_DISCONNECT, importer.reply.qp.qp), 0);

	assert_int_equal(import(&importer, 1, segment, 0400, cq, pz), 0);
	qp = importer.reply.qp.qp;
	shm = (const struct one_qp_shm *)(importer.arena + importer.reply.qp.shm);
	assert_int_equal(await(ONE_CQE_RSM, qp).status, 0);
	assert_int_equal(shm->rsm_addr, VA);
	assert_int_equal(shm->rsm_size, SIZE);
	assert_int_equal(shm->rsm_flags, 0);
	window = mem_lookup(engine_mem_table(), shm->rsm_key);
	assert_non_null(window);
	/* The window has only the requested right, for that queue pair alone, in a zone of its own. */
	assert_int_equal(window->access, ONE_ACCESS_REMOTE_READ);
	assert_int_equal(window->length, SIZE);
	assert_int_not_equal(window->qpn, 0);
	assert_int_not_equal(window->pz, mem_lookup(engine_mem_table(), mr.lkey)->pz);
	/* A queue pair of RSM takes no requests of uDAPL. */
	importer.msg.qp_disconnect = (struct one_qp_disconnect){.qp = qp};
	assert_int_equal(app_call(&importer, ONE_MSG_QP_DISCONNECT), -EINVAL);
	assert_int_equal(app_call_id(&importer, ONE_MSG_QP_RESET, qp), -EINVAL);
	/* New access lists apply to new imports only. */
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_REPUBLISH, 0, segment, 0666, 50), 0);
	assert_int_equal(import(&importer, 1, segment, 0400, cq, pz), 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, RSM_SEG_NOT_PUBLISHED_TO_NODE);
	assert_non_null(mem_lookup(engine_mem_table(), shm->rsm_key));
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_REPUBLISH, 0, segment, 0666, 1), 0);
	assert_int_equal(import(&importer, 1, segment, 0600, cq, pz), 0);
	second = importer.reply.qp.qp;
	assert_int_equal(await(ONE_CQE_RSM, second).status, 0);
	/* The second importer disconnects; then the segment is unpublished. */
	assert_int_equal(app_call_id(&importer, ONE_MSG_RSM_DISCONNECT, second), 0);
	pause_ms(20);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_UNPUBLISH, 0, segment, 0, 0), 0);
	assert_null(mem_lookup(engine_mem_table(), shm->rsm_key));
	assert_int_equal(await(ONE_CQE_RSM, qp).status, RSM_CONN_ABORTED);
	assert_int_equal(app_call_id(&importer, ONE_MSG_RSM_DISCONNECT, qp), 0);
	assert_no_event();
	/* The exporter dies. */
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_PUBLISH, mr.mr, 0x400000, 0600, 0), 0);
	assert_int_equal(import(&importer, 1, 0x400000, 0600, cq, pz), 0);
	qp = importer.reply.qp.qp;
	assert_int_equal(await(ONE_CQE_RSM, qp).status, 0);
	app_close(&exporter);
	assert_int_equal(await(ONE_CQE_RSM, qp).status, RSM_CONN_ABORTED);
	assert_int_equal(import(&importer, 1, 0x400000, 0600, cq, pz), 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, RSM_SEG_NOT_PUBLISHED);
	app_close(&importer);
	assert_clean();
}

/* Makes a region that importers may map. */
static uint32_t
mappable_region(struct app *app)
{
	int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(fallocate(fd, 0, 0, SIZE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	app->msg.region_add =
		(struct one_region_add){.size = SIZE, .flags = ONE_REGION_SEALED | ONE_REGION_MAPPABLE};
	assert_int_equal(app_call_fd(app, ONE_MSG_REGION_ADD, fd), 0);
	close(fd);
	return app->reply.id.id;
}

static int
map(struct app *app, uint32_t qp, uint32_t permission)
{
	app->msg.rsm_map = (struct one_rsm_map){.qp = qp, .permission = permission};
	return app_call(app, ONE_MSG_RSM_MAP);
}

/* Writes the memory of a segment's exporter for a take-over, and returns the reason against it; "": none. */
static const char *
pass_memory(uint32_t id, uint32_t *num_fds)
{
	static struct pass_out out;

	memset(&out, 0, sizeof(out));
	memory_write(segment_find(id)->client, &out);
	*num_fds = out.num_fds;
	pass_out_end(&out);
	return out.why;
}

static int
seals_of(uint32_t id)
{
	return fcntl(segment_find(id)->mr->region[0]->mapping->fd, F_GET_SEALS);
}

/* Publishes a segment that nobody may write. */
static int
publish_for_reading(struct app *app, uint32_t mr, uint64_t copy_at)
{
	app->msg.rsm_publish = (struct one_rsm_publish){.mr = mr,
							.segment = 0x400000,
							.default_permission = 0400,
							.flags = ONE_RSM_MAPPABLE,
							.copy_at = copy_at};
	return app_call(app, ONE_MSG_RSM_PUBLISH);
}

/* The first importer that gets the file of a segment closes it to new writable mappings. A data plane that
 * takes over then needs the exporter's copy thread. */
static void
pass_sealed(uint64_t copy_at, const char *why)
{
	struct app exporter, importer;
	struct one_mr_created mr;
	uint32_t num_fds;

	app_hello(&exporter, ONE_KIND_RSM);
	app_hello(&importer, ONE_KIND_RSM);
	mr = app_mr(&exporter, app_pz(&exporter), mappable_region(&exporter), VA, SIZE);
	assert_int_equal(publish_for_reading(&exporter, mr.mr, 1ull << 63), -EINVAL); /* no copy thread */
	if (copy_at != 0) {
		assert_int_equal(app_call(&exporter, ONE_MSG_COPIES), 0);
		assert_int_equal(publish_for_reading(&exporter, mr.mr, -4096ull), -EINVAL); /* wraps */
	}
	assert_int_equal(publish_for_reading(&exporter, mr.mr, copy_at), 0);
	assert_int_equal(import(&importer, 1, 0x400000, ACL_READ, app_cq(&importer, 20), app_pz(&importer)),
			 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, 0);
	assert_int_equal(seals_of(0x400000) & F_SEAL_FUTURE_WRITE, 0);
	/* The file crosses twice, to be mapped and for importers. */
	assert_string_equal(pass_memory(0x400000, &num_fds), "");
	assert_int_equal(num_fds, 2);
	assert_int_equal(map(&importer, importer.reply.qp.qp, ACL_READ), 0);
	assert_int_equal(seals_of(0x400000) & (F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
			 F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
	if (why == NULL) {
		assert_string_equal(pass_memory(0x400000, &num_fds), "");
		assert_int_equal(num_fds, 1); /* for importers alone */
	} else {
		assert_non_null(strstr(pass_memory(0x400000, &num_fds), why));
	}
	app_close(&exporter);
	app_close(&importer);
	assert_clean();
}

static void
test_sealed(void **state)
{
	pass_sealed(0, "its file is sealed");
	pass_sealed(1ull << 63, NULL);
}

/* An importer on the same host can map a segment with the rights that it was granted, and no others. */
static void
test_map(void **state)
{
	struct app exporter, importer;
	struct one_mr_created mr;
	uint32_t pz, cq, reader, writer;

	app_hello(&exporter, ONE_KIND_RSM);
	app_hello(&importer, ONE_KIND_RSM);
	mr = app_mr(&exporter, app_pz(&exporter), mappable_region(&exporter), VA, SIZE);
	pz = app_pz(&importer);
	cq = app_cq(&importer, 20);
	exporter.msg.rsm_publish = (struct one_rsm_publish){
		.mr = mr.mr, .segment = 0x400000, .default_permission = 0600, .flags = ONE_RSM_MAPPABLE};
	assert_int_equal(app_call(&exporter, ONE_MSG_RSM_PUBLISH), 0);
	assert_int_equal(import(&importer, 1, 0x400000, ACL_READ, cq, pz), 0);
	reader = importer.reply.qp.qp;
	assert_int_equal(await(ONE_CQE_RSM, reader).status, 0);
	assert_int_equal(import(&importer, 1, 0x400000, ACL_READ | ACL_WRITE, cq, pz), 0);
	writer = importer.reply.qp.qp;
	assert_int_equal(await(ONE_CQE_RSM, writer).status, 0);
	assert_int_equal(map(&importer, reader, ACL_READ | ACL_WRITE), RSM_BAD_PERMS);
	assert_int_equal(map(&importer, reader, ACL_WRITE), RSM_BAD_PERMS);
	assert_int_equal(map(&importer, reader, 0), RSM_BAD_PERMS);
	assert_int_equal(map(&exporter, reader, ACL_READ), RSM_BAD_SEG_HNDL);
	assert_int_equal(map(&importer, reader, ACL_READ), 0);
	assert_int_equal(importer.reply.rsm_mapped.length, SIZE);
	assert_int_equal(map(&importer, writer, ACL_READ | ACL_WRITE), 0);
	app_close(&exporter);
	app_close(&importer);
	assert_clean();
}

/* The maximum of segments of a process: each is found in a short bucket, and unpublishing makes room. */
static void
test_many(void **state)
{
	const uint32_t many = config.limits.max_segments;
	const struct cm_table *table = &control.segment_ids;
	uint32_t longest = 0, pz, region, mr = 0;
	struct app app;

	app_hello(&app, ONE_KIND_RSM);
	pz = app_pz(&app);
	region = app_region(&app, SIZE);
	for (uint32_t i = 0; i < many; i++) {
		mr = app_mr(&app, pz, region, VA, SIZE).mr;
		assert_int_equal(publish(&app, ONE_MSG_RSM_PUBLISH, mr, 0x500000 + i, 0600, 0), 0);
	}
	assert_int_equal(publish(&app, ONE_MSG_RSM_PUBLISH, mr, 0x400000, 0600, 0),
			 RSM_SEG_ALREADY_PUBLISHED);
	mr = app_mr(&app, pz, region, VA, SIZE).mr;
	assert_int_equal(publish(&app, ONE_MSG_RSM_PUBLISH, mr, 0x500000, 0600, 0), RSM_SEGID_IN_USE);
	assert_int_equal(publish(&app, ONE_MSG_RSM_PUBLISH, mr, 0x400000, 0600, 0),
			 RSM_INSUFFICIENT_RESOURCES);
	assert_int_equal(app.reply.value, many);
	/* The table can be read here: the control thread is idle. */
	assert_int_equal(table->count, many);
	for (uint32_t i = 0; i < 1u << table->log2; i++) {
		uint32_t length = 0;

		for (const struct cm_node *node = table->bucket[i]; node != NULL; node = node->next)
			length++;
		if (length > longest)
			longest = length;
	}
	assert_in_range(longest, 1, 16);
	assert_int_equal(publish(&app, ONE_MSG_RSM_UNPUBLISH, 0, 0x500000, 0, 0), 0);
	assert_int_equal(publish(&app, ONE_MSG_RSM_PUBLISH, mr, 0x500000, 0600, 0), 0);
	app_close(&app);
	assert_clean();
	assert_int_equal(table->count, 0);
}

static void
test_topology(void **state)
{
	struct app app;

	app_hello(&app, ONE_KIND_RSM);
	app.msg.rsm_topology = (struct one_rsm_topology){0};
	assert_int_equal(app_call(&app, ONE_MSG_RSM_TOPOLOGY), 0);
	assert_int_equal(app.reply.rsm_port.num_ports, 1);
	assert_int_equal(app.reply.rsm_port.num_peers, 1);
	assert_int_equal(app.reply.rsm_port.hwaddr, 0x020000000001);
	assert_int_equal(app.reply.rsm_port.peer[0].node, 2);
	assert_int_equal(app.reply.rsm_port.peer[0].state, ONE_RSM_PATH_UP);
	app.msg.rsm_topology.first = 1;
	assert_int_equal(app_call(&app, ONE_MSG_RSM_TOPOLOGY), 0);
	assert_int_equal(app.reply.rsm_port.peer[0].node, 0);
	app.msg.rsm_topology.port = 1;
	assert_int_equal(app_call(&app, ONE_MSG_RSM_TOPOLOGY), -ENODEV);
	app_close(&app);
	assert_clean();
}

/* ---- take-over: the control thread is idle meanwhile ---- */

#define ID_AT 8u /* of a record's id */
#define AT(bytes) (sizeof(struct record_head) + (bytes))

static void
begin_reading(struct pass_in *in, const struct pass_out *out, struct client *client)
{
	memset(in, 0, sizeof(*in));
	in->context.owner = client;
	in->records = (struct record_in){.bytes = out->records.bytes, .length = out->records.length};
	pass_in_begin(in);
}

/* Reads segments of which one number is another one. */
static void
assert_segment_refused(struct pass_out *out, struct client *client, size_t at, uint32_t number)
{
	struct pass_in in;
	uint32_t before;

	memcpy(&before, out->records.bytes + at, sizeof(before));
	memcpy(out->records.bytes + at, &number, sizeof(number));
	begin_reading(&in, out, client);
	assert_int_equal(rsm_segments_read(client, &in), -EINVAL);
	assert_int_not_equal(in.why[0], '\0');
	assert_int_equal(client->segments, 0);
	memcpy(out->records.bytes + at, &before, sizeof(before));
}

/* Makes an export of a record, in the place of the one that was written. */
static int
read_export(struct pass_out *out, struct client *client, uint32_t id, uint32_t permission, struct qp **made)
{
	struct qp *qp = qp_new_as(client, id);
	struct pass_in in;
	int error;

	assert_non_null(qp);
	qp->kind = &export_kind;
	qp->permission = permission;
	qp->config.qpn = 77;
	begin_reading(&in, out, client);
	error = export_kind.read(qp, &in);
	if (error != 0)
		object_free(qp);
	table_relink(&client->table[OBJECT_QP]);
	table_relink(&control.pz_numbers);
	*made = qp;
	return error;
}

static void
check_segment(struct pass_out *out, struct client *client, const struct acl *acl)
{
	struct segment *segment;
	struct pass_in in;

	assert_segment_refused(out, client, ID_AT, 0x300000);
	assert_segment_refused(out, client, ID_AT, (uint32_t)control.next_segment);
	assert_segment_refused(out, client, AT(0), 77);                   /* its memory */
	assert_segment_refused(out, client, AT(8), 77);                   /* its queue for signals */
	assert_segment_refused(out, client, AT(16), 01000);               /* permission */
	assert_segment_refused(out, client, AT(20), ONE_RSM_ACL_MAX + 1); /* entries of the list */
	assert_segment_refused(out, client, AT(24), ACL_NODE_MAX + 1);    /* node of the first entry */
	begin_reading(&in, out, client);
	assert_int_equal(rsm_segments_read(client, &in), 0);
	segment = segment_find(0x400000);
	assert_non_null(segment);
	assert_memory_equal(&segment->acl, acl, sizeof(*acl));
	assert_true(segment->mappable);
	assert_int_equal(segment->mr->object.users, 1);
	begin_reading(&in, out, client); /* its id is taken */
	assert_int_equal(rsm_segments_read(client, &in), -EINVAL);
}

static void
check_export(struct pass_out *out, struct client *client, uint32_t id, const struct mem_region *before)
{
	struct mem_region *window;
	struct client other = {.number = 1};
	struct pass_in in;
	struct qp *qp;

	assert_int_equal(read_export(out, client, id, 0700, &qp), -EINVAL);
	assert_int_equal(read_export(out, client, id + 1, ACL_READ, &qp), -EINVAL); /* another one's record */
	assert_int_equal(client->exports, 0);
	assert_int_equal(read_export(out, client, id, ACL_READ, &qp), 0);
	window = mem_lookup(engine_mem_table(), before->key);
	assert_non_null(window);
	assert_int_equal(window->pz, before->pz);
	assert_int_equal(window->qpn, 77);
	assert_int_equal(window->access, before->access);
	assert_ptr_equal(window->base, before->base);
	assert_int_equal(window->length, before->length);
	assert_int_equal(client->exports, 1);
	assert_ptr_equal(LIST_FIRST(&qp->segment->exports), qp);
	/* Neither the key nor another attachment's segment can be had again. */
	begin_reading(&in, out, client);
	assert_int_equal(export_kind.read(qp, &in), -EINVAL);
	begin_reading(&in, out, &other);
	assert_int_equal(export_kind.read(qp, &in), -EINVAL);
	/* The second reading has taken a key and a zone of the quota. */
	quota_give(&control.quota, client->account, QUOTA_KEYS, 1);
	quota_give(&control.quota, client->account, QUOTA_ZONES, 1);
	export_kind.unhook(qp);
	export_kind.destroy(qp);
	object_free(qp);
	fake_quiescent();
}

/* A segment and an export are written, end, and are read as by another process. */
static void
test_passed(void **state)
{
	struct pass_out segments = {.why = ""}, exports = {.why = ""};
	struct app exporter, importer;
	struct one_mr_created mr;
	struct mem_region window;
	struct client *client;
	struct segment *segment;
	struct acl acl;
	uint32_t import_id, export_id;

	app_hello(&exporter, ONE_KIND_RSM);
	app_hello(&importer, ONE_KIND_RSM);
	mr = app_mr(&exporter, app_pz(&exporter), mappable_region(&exporter), VA, SIZE);
	exporter.msg.rsm_publish = (struct one_rsm_publish){.mr = mr.mr,
							    .segment = 0x400000,
							    .num_access = 2,
							    .access = {{1, 0600}, {2, 0444}},
							    .flags = ONE_RSM_MAPPABLE};
	assert_int_equal(app_call(&exporter, ONE_MSG_RSM_PUBLISH), 0);
	assert_int_equal(import(&importer, 1, 0x400000, ACL_READ, app_cq(&importer, 20), app_pz(&importer)),
			 0);
	import_id = importer.reply.qp.qp;
	assert_int_equal(await(ONE_CQE_RSM, import_id).status, 0);
	fake_stop(true);
	segment = segment_find(0x400000);
	client = segment->client;
	acl = segment->acl;
	window = *LIST_FIRST(&segment->exports)->window;
	export_id = LIST_FIRST(&segment->exports)->object.id;
	rsm_segments_write(client, &segments);
	export_kind.write(LIST_FIRST(&segment->exports), &exports);
	fake_stop(false);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_UNPUBLISH, 0, 0x400000, 0, 0), 0);
	assert_int_equal(await(ONE_CQE_RSM, import_id).status, RSM_CONN_ABORTED);
	pause_ms(20);
	fake_stop(true);
	check_segment(&segments, client, &acl);
	check_export(&exports, client, export_id, &window);
	fake_stop(false);
	record_out_free(&segments.records);
	record_out_free(&exports.records);
	/* The segment is published. */
	assert_int_equal(import(&importer, 1, 0x400000, ACL_READ, app_cq(&importer, 20), app_pz(&importer)),
			 0);
	assert_int_equal(await(ONE_CQE_RSM, importer.reply.qp.qp).status, 0);
	assert_int_equal(publish(&exporter, ONE_MSG_RSM_UNPUBLISH, 0, 0x400000, 0, 0), 0);
	app_close(&exporter);
	app_close(&importer);
	assert_clean();
}

/* Peers know the data plane's incarnation, and programs the ids that it has assigned. */
static void
test_numbers_passed(void **state)
{
	struct pass_out out = {.why = ""};
	uint64_t incarnation, next, zero = 0;
	struct pass_in in;

	fake_stop(true);
	incarnation = control.incarnation;
	next = control.next_segment;
	rsm_write(&out);
	control.next_segment++;
	control.incarnation++;
	begin_reading(&in, &out, NULL);
	assert_int_equal(rsm_read(&in), 0);
	assert_int_equal(control.incarnation, incarnation);
	assert_int_equal(control.next_segment, next);
	memcpy(out.records.bytes + AT(0), &zero, sizeof(zero));
	begin_reading(&in, &out, NULL);
	assert_int_equal(rsm_read(&in), -EINVAL);
	memcpy(out.records.bytes + AT(0), &incarnation, sizeof(incarnation));
	memcpy(out.records.bytes + AT(8), &zero, sizeof(zero));
	begin_reading(&in, &out, NULL);
	assert_int_equal(rsm_read(&in), -EINVAL);
	control.next_segment = next;
	fake_stop(false);
	record_out_free(&out.records);
}

int
rsm_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rsm),
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_topology),
		cmocka_unit_test(test_passed),
		cmocka_unit_test(test_numbers_passed),
	};

	return cmocka_run_group_tests_name("control: RSM", tests, NULL, NULL);
}

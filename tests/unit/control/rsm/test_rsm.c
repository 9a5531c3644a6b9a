/* SPDX-License-Identifier: BSD-3-Clause */
/* RSM segments and imports within one data plane. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach.h"
#include "control/base/acl.h"
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

int
rsm_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rsm),
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_topology),
	};

	return cmocka_run_group_tests_name("control: RSM", tests, NULL, NULL);
}

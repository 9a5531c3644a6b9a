/* SPDX-License-Identifier: BSD-3-Clause */
/* Export segments: arguments, the order of checks, and messages. */
#include <sys/resource.h>
#include <sys/stat.h>

#include "fixture.h"

static void
test_create_arguments(void **state)
{
	rsm_memseg_export_handle_t seg = GARBAGE(rsm_memseg_export_handle_t);
	uint8_t *memory = pages(4);
	uint64_t limit = 1ull << 40;

	/* Each wrong argument in the order of checks, with all later ones wrong, too. */
	assert_int_equal(rsm_memseg_export_create(NULL, NULL, NULL, 0, 0), RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_memseg_export_create(GARBAGE(rsmapi_controller_handle_t), &seg, memory, PAGE, 0),
			 RSMERR_BAD_CTLR_HNDL);
	assert_int_equal(rsm_memseg_export_create(controller, NULL, NULL, 0, 0), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, NULL, 0, 0), RSMERR_BAD_ADDR);
	assert_null(seg);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory + 1, 0, 0), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory + 8, PAGE, 0),
			 RSMERR_BAD_MEM_ALIGNMENT);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE + 8, 0),
			 RSMERR_BAD_MEM_ALIGNMENT);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE / 2, 0),
			 RSMERR_BAD_MEM_ALIGNMENT);
	if (mock_welcome(peer->mock)->limits.max_mr_bytes < limit)
		assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, limit, 0),
				 RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, ~0u), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_destroy(NULL), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_destroy(GARBAGE(rsm_memseg_export_handle_t)), RSMERR_BAD_SEG_HNDL);
	munmap(memory, 4 * PAGE);
}

static void
test_create_memory(void **state)
{
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = lonely_pages(4), *map;
	char path[] = "rsm-objects-XXXXXX";
	int fd;

	assert_int_equal(munmap(memory + 3 * PAGE, PAGE), 0);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 4 * PAGE, 0), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory + 3 * PAGE, PAGE, 0),
			 RSMERR_BAD_ADDR);
	assert_int_equal(mprotect(memory + 2 * PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 3 * PAGE, 0), RSMERR_PERM_DENIED);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 2 * PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, 3 * PAGE);

	/* A shared mapping of a file on a disk is refused, shared memory is accepted. The build directory is
	 * on a disk, or on tmpfs, where a file is memory. */
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	unlink(path); /* no filesystem can be asked by name now: treated as a file on a disk */
	assert_int_equal(rsm_memseg_export_create(controller, &seg, map, PAGE, 0), RSMERR_BAD_ADDR);
	munmap(map, PAGE);
	close(fd);
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, map, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(map, PAGE);
}

static void
test_create_refused(void **state)
{
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(1);

	mock_refuse(peer->mock, ONE_MSG_MR_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 1);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0),
			 RSMERR_INSUFFICIENT_MEM);
	assert_null(seg);
	/* process_memory = no */
	mock_refuse(peer->mock, ONE_MSG_MR_CREATE, -EOPNOTSUPP, ONE_SUBJECT_MEMORY, 0, 1);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0), RSMERR_BAD_ADDR);
	assert_null(seg);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, PAGE);
}

static void
test_publish_arguments(void **state)
{
	rsmapi_access_entry_t list[65] = {{.ae_node = 1, .ae_permission = 0666}};
	rsm_memseg_id_t id = 0x100, none = 0, good = 0x400000;
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(1);

	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_republish(seg, NULL, 1), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_publish(NULL, NULL, NULL, 1), RSMERR_BAD_SEGID);
	assert_int_equal(rsm_memseg_export_publish(NULL, &id, NULL, 1), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 1), RSMERR_BAD_ACL);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, list, 65), RSMERR_RESERVED_SEGID);
	assert_int_equal(rsm_memseg_export_publish(seg, &none, list, 65), RSMERR_BAD_ACL);
	list[1].ae_node = 65;
	assert_int_equal(rsm_memseg_export_publish(seg, &none, list, 2), RSMERR_BAD_ACL);
	list[1].ae_node = 64;
	list[1].ae_permission = 0667;
	assert_int_equal(rsm_memseg_export_publish(seg, &none, list, 2), RSMERR_BAD_ACL);
	assert_int_equal(rsm_memseg_export_publish(seg, &none, GARBAGE(rsmapi_access_entry_t *), 1),
			 RSMERR_BAD_ADDR);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_PUBLISH), 0);

	list[1].ae_permission = 0;
	assert_int_equal(rsm_memseg_export_publish(seg, &good, list, 2), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSMERR_SEG_ALREADY_PUBLISHED);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 1), RSMERR_BAD_ACL);
	assert_int_equal(rsm_memseg_export_republish(seg, NULL, 1), RSMERR_BAD_ACL);
	list[0].ae_permission = 0700;
	assert_int_equal(rsm_memseg_export_republish(seg, list, 1), RSMERR_BAD_ACL);
	assert_int_equal(rsm_memseg_export_republish(NULL, list, 1), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_unpublish(NULL), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, PAGE);
}

static void
test_publish_ids(void **state)
{
	static const struct {
		rsm_memseg_id_t id;
		int result;
	} cases[] = {
		{1, RSMERR_RESERVED_SEGID},
		{0x0fffff, RSMERR_RESERVED_SEGID},
		{0x100000, RSMERR_RESERVED_SEGID},
		{0x200000, RSMERR_RESERVED_SEGID},
		{0x3fffff, RSMERR_RESERVED_SEGID},
		{0x400000, RSM_SUCCESS},
		{0x5fffff, RSM_SUCCESS},
		{0x7fffffff, RSM_SUCCESS},
		{0x80000000, RSMERR_RESERVED_SEGID},
		{0xffffffff, RSMERR_RESERVED_SEGID},
	};
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(1);
	rsm_memseg_id_t id;

	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0), RSM_SUCCESS);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		id = cases[i].id;
		assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), cases[i].result);
		assert_int_equal(id, cases[i].id);
		if (cases[i].result == RSM_SUCCESS)
			assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	}
	id = 0;
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_int_equal(id, mock_newest(peer->mock, ONE_MSG_RSM_PUBLISH));
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	id = 0x400000;
	mock_refuse(peer->mock, ONE_MSG_RSM_PUBLISH, RSMERR_SEGID_IN_USE, ONE_SUBJECT_SEGMENT, id, 1);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSMERR_SEGID_IN_USE);
	mock_refuse(peer->mock, ONE_MSG_RSM_PUBLISH, -EDQUOT, ONE_SUBJECT_QUOTA, 1, 1);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSMERR_INSUFFICIENT_RESOURCES);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, PAGE);
}

static void
test_publish_messages(void **state)
{
	rsmapi_access_entry_t list[2] = {{.ae_node = 1, .ae_permission = 0624},
					 {.ae_node = 9, .ae_permission = 0}};
	rsm_memseg_id_t id = PEER_SEGMENT;
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(2);
	struct one_mr_create mr;
	struct one_msg msg;
	mode_t mask = umask(027);

	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 2 * PAGE, 0), RSM_SUCCESS);
	umask(mask); /* the mode is the one at creation */
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_PUBLISH, &msg));
	assert_int_equal(msg.rsm_publish.num_access, 0);
	assert_int_equal(msg.rsm_publish.default_permission, 0750);
	assert_int_equal(msg.rsm_publish.segment, PEER_SEGMENT);
	assert_true(mock_mr(peer->mock, msg.rsm_publish.mr, &mr));
	assert_int_equal(mr.va, (uintptr_t)memory);
	assert_int_equal(mr.length, 2 * PAGE);
	assert_int_equal(mr.access, ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE);
	assert_int_equal(rsm_memseg_export_republish(seg, list, 2), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_REPUBLISH, &msg));
	assert_int_equal(msg.rsm_publish.segment, PEER_SEGMENT);
	assert_int_equal(msg.rsm_publish.num_access, 2);
	assert_int_equal(msg.rsm_publish.access[0].node, 1);
	assert_int_equal(msg.rsm_publish.access[0].permission, 0624);
	assert_int_equal(msg.rsm_publish.access[1].node, 9);
	/* Destroying unpublishes. */
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_UNPUBLISH, &msg));
	assert_int_equal(msg.rsm_publish.segment, PEER_SEGMENT);
	munmap(memory, 2 * PAGE);
}

/* ---- memory that importers may have mapped ---- */

static bool
is_shared(const void *address)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512], perms[5];
	bool shared = false;

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%lx-%lx %4s", &start, &end, perms) == 3 && start <= (uintptr_t)address &&
		    (uintptr_t)address < end)
			shared = perms[3] == 's';
	assert_non_null(maps);
	fclose(maps);
	return shared;
}

/* Reports that the data plane has given the file to an importer. */
static bool
on_unpublish(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	     struct one_reply *reply, void *user)
{
	reply->rsm.given = 1;
	return true;
}

/* Makes moving pages impossible by leaving no free descriptor. */
static void
starve(bool on)
{
	static struct rlimit before;
	struct rlimit none;
	int lowest = dup(STDERR_FILENO);

	if (on) {
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
		assert_true(lowest > 0);
		none = (struct rlimit){.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
	}
	close(lowest);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, on ? &none : &before), 0);
}

static void
test_rebind(void **state)
{
	rsm_memseg_export_handle_t seg, fixed;
	rsm_memseg_id_t id = PEER_SEGMENT;
	uint8_t *memory = lonely_pages(8), *other = memory + 4 * PAGE;
	void *shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(rsm_memseg_export_create(controller, &fixed, memory, 2 * PAGE, 0), RSM_SUCCESS);
	/* Each wrong argument in the order of checks, with later ones wrong, too. */
	assert_int_equal(rsm_memseg_export_rebind(NULL, NULL, 0, 0), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_rebind(fixed, NULL, 0, 0), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_export_rebind(fixed, other + 8, 0, 0), RSMERR_REBIND_NOT_ALLOWED);
	assert_int_equal(rsm_memseg_export_destroy(fixed), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 2 * PAGE, RSM_ALLOW_REBIND),
			 RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_rebind(fixed, other, 0, 2 * PAGE), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_rebind(seg, other + 8, 0, PAGE), RSMERR_BAD_LENGTH);
	assert_int_equal(rsm_memseg_export_rebind(seg, other + 8, 0, 2 * PAGE), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_memseg_export_rebind(seg, memory, 99, 2 * PAGE), RSM_SUCCESS);
	assert_int_equal(mprotect(other, PAGE, PROT_READ), 0);
	assert_int_equal(rsm_memseg_export_rebind(seg, other, 0, 2 * PAGE), RSMERR_PERM_DENIED);
	assert_int_equal(munmap(other, PAGE), 0);
	assert_int_equal(rsm_memseg_export_rebind(seg, other, 0, 2 * PAGE), RSMERR_BAD_ADDR);
	/* Bound and published, with contents. */
	other += PAGE;
	memset(memory, 1, 2 * PAGE);
	memset(other, 2, 2 * PAGE);
	assert_int_equal(rsm_memseg_export_rebind(seg, other, 0, 2 * PAGE), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_rebind(seg, memory, 0, 2 * PAGE), RSM_SUCCESS);
	assert_true(is_shared(memory));
	assert_false(is_shared(other));
	assert_int_equal(memory[0], 1);
	assert_int_equal(other[2 * PAGE - 1], 2);
	/* A published segment cannot be bound to memory of another kind. */
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_int_equal(rsm_memseg_export_rebind(seg, shared, 0, 2 * PAGE), RSMERR_BAD_ADDR);
	munmap(shared, 2 * PAGE);
	starve(true);
	assert_int_equal(rsm_memseg_export_rebind(seg, other, 0, 2 * PAGE), RSMERR_INSUFFICIENT_RESOURCES);
	starve(false);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, 4 * PAGE);
	munmap(memory + 5 * PAGE, 3 * PAGE);
}

static void
test_republish_refused(void **state)
{
	rsmapi_access_entry_t list = {.ae_node = 1, .ae_permission = 0666};
	rsm_memseg_id_t id = PEER_SEGMENT;
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = lonely_pages(2);

	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, PAGE, 0), RSM_SUCCESS);
	munmap(memory + PAGE, PAGE);
	assert_int_equal(rsm_memseg_export_republish(NULL, NULL, 1), RSMERR_BAD_SEG_HNDL);
	assert_int_equal(rsm_memseg_export_republish(seg, NULL, 1), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_republish(seg, NULL, 1), RSMERR_BAD_ACL);
	assert_int_equal(rsm_memseg_export_republish(seg, &list, 65), RSMERR_BAD_ACL);
	assert_int_equal(
		rsm_memseg_export_republish(seg, (rsmapi_access_entry_t *)(void *)(memory + PAGE), 1),
		RSMERR_BAD_ADDR);
	list.ae_node = 65;
	assert_int_equal(rsm_memseg_export_republish(seg, &list, 1), RSMERR_BAD_ACL);
	list.ae_node = 1;
	mock_refuse(peer->mock, ONE_MSG_RSM_REPUBLISH, -ENOMEM, ONE_SUBJECT_MEMORY, 0, 1);
	assert_int_equal(rsm_memseg_export_republish(seg, &list, 1), RSMERR_INSUFFICIENT_MEM);
	mock_refuse(peer->mock, ONE_MSG_RSM_REPUBLISH, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 1);
	assert_int_equal(rsm_memseg_export_republish(seg, &list, 1), RSMERR_INSUFFICIENT_RESOURCES);
	assert_int_equal(rsm_memseg_export_republish(seg, &list, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, PAGE);
}

static void
test_pages_leave(void **state)
{
	rsm_memseg_id_t id = PEER_SEGMENT, other = PEER_SEGMENT + 1;
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(4);

	memset(memory, 0x5c, 4 * PAGE);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 4 * PAGE, RSM_ALLOW_REBIND),
			 RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_true(is_shared(memory));
	/* no importer has the file: the memory stays shared */
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	assert_true(is_shared(memory));
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	mock_on(peer->mock, ONE_MSG_RSM_UNPUBLISH, on_unpublish, NULL);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	assert_false(is_shared(memory));
	assert_int_equal(memory[4 * PAGE - 1], 0x5c);

	/* An unpublish that cannot be completed fails, and succeeds when repeated. */
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_true(is_shared(memory));
	starve(true);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSMERR_INSUFFICIENT_MEM);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSMERR_INSUFFICIENT_MEM);
	assert_int_equal(rsm_memseg_export_republish(seg, NULL, 0), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_publish(seg, &other, NULL, 0), RSMERR_INSUFFICIENT_MEM);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSMERR_INSUFFICIENT_MEM);
	starve(false);
	assert_true(is_shared(memory));
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_UNPUBLISH), 3);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	assert_int_equal(mock_count(peer->mock, ONE_MSG_RSM_UNPUBLISH), 3);
	assert_false(is_shared(memory));
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSMERR_SEG_NOT_PUBLISHED);

	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	starve(true);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSMERR_INSUFFICIENT_MEM);
	starve(false);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	assert_false(is_shared(memory));
	assert_int_equal(memory[0], 0x5c);
	munmap(memory, 4 * PAGE);
}

/* Sends an invalid reply: the attachment ends, and the caller knows before the watcher thread does. */
static bool
on_unpublish_nonsense(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
		      struct one_reply *reply, void *user)
{
	reply->type = msg->type;
	reply->seq = msg->seq + 1;
	return true;
}

static void
test_unpublish_while_lost(void **state)
{
	rsm_memseg_id_t id = PEER_SEGMENT;
	rsm_memseg_export_handle_t seg;
	uint8_t *memory = pages(4);

	memset(memory, 0x5c, 4 * PAGE);
	assert_int_equal(rsm_memseg_export_create(controller, &seg, memory, 4 * PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, NULL, 0), RSM_SUCCESS);
	assert_true(is_shared(memory));
	mock_on(peer->mock, ONE_MSG_RSM_UNPUBLISH, on_unpublish_nonsense, NULL);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSM_SUCCESS);
	assert_false(is_shared(memory));
	assert_int_equal(memory[4 * PAGE - 1], 0x5c);
	assert_int_equal(rsm_memseg_export_unpublish(seg), RSMERR_SEG_NOT_PUBLISHED);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	munmap(memory, 4 * PAGE);
}

static void
test_loopback_rules(void **state)
{
	rsmapi_access_entry_t list[2] = {{.ae_node = 1, .ae_permission = 0666},
					 {.ae_node = 1, .ae_permission = 0666}};
	rsmapi_controller_handle_t loopback;
	rsm_memseg_import_handle_t import;
	rsm_memseg_export_handle_t seg;
	rsm_memseg_id_t id = 0;
	uint8_t *memory = pages(1);
	struct one_msg msg;

	assert_int_equal(rsm_get_controller(NULL, &loopback), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_create(loopback, &seg, memory, PAGE, 0), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_publish(seg, &id, list, 2), RSMERR_BAD_ACL);
	list[0].ae_node = 2;
	assert_int_equal(rsm_memseg_export_publish(seg, &id, list, 1), RSMERR_BAD_ACL);
	list[0].ae_node = 1;
	assert_int_equal(rsm_memseg_export_publish(seg, &id, list, 1), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_import_connect(loopback, 2, id, RSM_PERM_READ, &import),
			 RSMERR_CTLR_NOT_PRESENT);
	assert_null(import);
	assert_int_equal(rsm_memseg_import_connect(loopback, 1, id, RSM_PERM_READ, &import), RSM_SUCCESS);
	assert_true(mock_last(peer->mock, ONE_MSG_RSM_CONNECT, &msg));
	assert_int_equal(msg.rsm_connect.flags, ONE_RSM_LOOPBACK);
	assert_int_equal(rsm_memseg_import_disconnect(import), RSM_SUCCESS);
	assert_int_equal(rsm_memseg_export_destroy(seg), RSM_SUCCESS);
	peer_forget(peer);
	assert_int_equal(rsm_release_controller(loopback), RSM_SUCCESS);
	munmap(memory, PAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_create_arguments),     TEST(test_create_memory),
		TEST(test_create_refused),       TEST(test_publish_arguments),
		TEST(test_publish_ids),          TEST(test_publish_messages),
		TEST(test_pages_leave),          TEST(test_rebind),
		TEST(test_republish_refused),    TEST(test_loopback_rules),
		TEST(test_unpublish_while_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

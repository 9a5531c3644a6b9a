/* SPDX-License-Identifier: BSD-3-Clause */
/* Decisions that are pure functions: access to RSM segments, service ids, negotiated parameters, and RSM's
 * private data. */
#include <errno.h>
#include <string.h>

#include "control/base/acl.h"
#include "control/connect/connection.h"
#include "control/rsm/rsm_wire.h"
#include "control/cm/service.h"
#include "control/base/loop.h"
#include "tests.h"

/* ---- access lists ---- */

enum { OWNER = 1000, GROUP = 100, OTHER = 2000 };

struct access_case {
	uint32_t num, list_mode, node; /* the list has nodes 1 and 2, with list_mode */
	uint32_t default_mode;
	uint32_t uid, gid, extra; /* the importer; extra: a supplementary group, 0: none */
	uint32_t wanted;
	enum rsm_error result;
};

/* The exporter has uid OWNER and gid GROUP; spec 5.2. */
static const struct access_case access_cases[] = {
	/* without a list every node has the default permission */
	{0, 0, 9, 0644, OWNER, 1, 0, 0600, RSM_OK},
	{0, 0, 9, 0644, OTHER, 1, 0, 0400, RSM_OK},
	{0, 0, 9, 0644, OTHER, 1, 0, 0200, RSM_PERM_DENIED},
	{0, 0, 9, 0644, OTHER, 1, 0, 0600, RSM_PERM_DENIED},
	{0, 0, 9, 0000, OWNER, 1, 0, 0000, RSM_OK}, /* no rights are requested: signals only */
	{0, 0, 9, 0777, OTHER, 1, 0, 0600, RSM_OK},
	/* with a list the importer's node must be in it */
	{2, 0666, 3, 0777, OWNER, 1, 0, 0400, RSM_SEG_NOT_PUBLISHED_TO_NODE},
	{2, 0666, 3, 0777, OWNER, 1, 0, 0000, RSM_SEG_NOT_PUBLISHED_TO_NODE},
	{2, 0666, 1, 0000, OTHER, 1, 0, 0600, RSM_OK},
	{2, 0666, 2, 0000, OTHER, 1, 0, 0600, RSM_OK},
	/* RSM_PERM_RDWR admits the owner alone, 0660 the group too */
	{2, 0600, 1, 0777, OWNER, 1, 0, 0600, RSM_OK},
	{2, 0600, 1, 0777, OTHER, GROUP, 0, 0400, RSM_PERM_DENIED},
	{2, 0660, 1, 0777, OTHER, GROUP, 0, 0600, RSM_OK},
	{2, 0660, 1, 0777, OTHER, 1, GROUP, 0600, RSM_OK},
	{2, 0660, 1, 0777, OTHER, 1, GROUP + 1, 0400, RSM_PERM_DENIED},
	/* 0624: each class has its own digit */
	{2, 0624, 1, 0, OWNER, GROUP, 0, 0600, RSM_OK},
	{2, 0624, 1, 0, OTHER, GROUP, 0, 0200, RSM_OK},
	{2, 0624, 1, 0, OTHER, GROUP, 0, 0400, RSM_PERM_DENIED},
	{2, 0624, 1, 0, OTHER, 1, 0, 0400, RSM_OK},
	{2, 0624, 1, 0, OTHER, 1, 0, 0200, RSM_PERM_DENIED},
	/* only the first class that matches counts, even if a later one would grant more */
	{2, 0066, 1, 0, OWNER, GROUP, 0, 0400, RSM_PERM_DENIED},
	{2, 0606, 1, 0, OTHER, GROUP, 0, 0400, RSM_PERM_DENIED},
	{2, 0000, 1, 0777, OWNER, 1, 0, 0400, RSM_PERM_DENIED},
	/* execute permission is neither requested nor granted */
	{0, 0, 9, 0111, OWNER, 1, 0, 0400, RSM_PERM_DENIED},
	{0, 0, 9, 0777, OWNER, 1, 0, 0700, RSM_PERM_DENIED},
	{0, 0, 9, 0777, OWNER, 1, 0, 0640, RSM_PERM_DENIED},
	{0, 0, 9, 0777, OWNER, 1, 0, 01000, RSM_PERM_DENIED},
	/* uid 0 has no special rights */
	{0, 0, 9, 0600, 0, 1, 0, 0400, RSM_PERM_DENIED},
};

static void
test_acl_check(void **state)
{
	for (size_t i = 0; i < sizeof(access_cases) / sizeof(access_cases[0]); i++) {
		const struct access_case *c = &access_cases[i];
		struct acl acl = {.uid = OWNER,
				  .gid = GROUP,
				  .default_permission = c->default_mode,
				  .num = c->num,
				  .entry = {{1, c->list_mode}, {2, c->list_mode}}};
		struct acl_who who = {.node = c->node, .uid = c->uid, .gid = c->gid};

		if (c->extra != 0)
			who.group[who.num_groups++] = c->extra;
		if (acl_check(&acl, &who, c->wanted) != c->result)
			fail_msg("case %zu: %d", i, (int)acl_check(&acl, &who, c->wanted));
	}
}

/* With a partial list of groups the importer may be in one of two classes: it has only the rights of both. */
static void
test_acl_partial_groups(void **state)
{
	static const struct {
		uint32_t mode, not_group, wanted;
		enum rsm_error result;
	} cases[] = {
		{0606, ACL_NO_GROUP, 0400, RSM_PERM_DENIED},
		{0660, ACL_NO_GROUP, 0400, RSM_PERM_DENIED},
		{0664, ACL_NO_GROUP, 0400, RSM_OK},
		{0664, ACL_NO_GROUP, 0200, RSM_PERM_DENIED},
		{0666, ACL_NO_GROUP, 0600, RSM_OK},
		{0606, GROUP + 1, 0400, RSM_PERM_DENIED},
		{0606, GROUP, 0600, RSM_OK},
		{0660, GROUP, 0400, RSM_PERM_DENIED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct acl acl = {.uid = OWNER, .gid = GROUP, .default_permission = cases[i].mode};
		struct acl_who who = {.uid = OTHER,
				      .gid = 1,
				      .num_groups = 1,
				      .group = {GROUP + 2},
				      .partial = true,
				      .not_group = cases[i].not_group};

		if (acl_check(&acl, &who, cases[i].wanted) != cases[i].result)
			fail_msg("case %zu: %d", i, (int)acl_check(&acl, &who, cases[i].wanted));
		who.uid = OWNER;
		assert_int_equal(acl_check(&acl, &who, 0600), RSM_OK);
		acl.default_permission = 0060;
		who.uid = OTHER;
		who.group[0] = GROUP;
		assert_int_equal(acl_check(&acl, &who, 0600), RSM_OK);
	}
}

static void
test_acl_first_entry_counts(void **state)
{
	struct acl acl = {.uid = OWNER, .gid = GROUP, .num = 3, .entry = {{1, 0400}, {2, 0600}, {1, 0600}}};
	struct acl_who who = {.node = 1, .uid = OWNER, .gid = 1};

	assert_int_equal(acl_check(&acl, &who, ACL_READ), RSM_OK);
	assert_int_equal(acl_check(&acl, &who, ACL_WRITE), RSM_PERM_DENIED);
}

static void
test_acl_valid(void **state)
{
	struct one_rsm_access list[ONE_RSM_ACL_MAX + 1] = {{1, 0666}, {ACL_NODE_MAX, 0}};

	assert_int_equal(acl_valid(list, 0), RSM_OK);
	assert_int_equal(acl_valid(list, 2), RSM_OK);
	assert_int_equal(acl_valid(list, ONE_RSM_ACL_MAX), RSM_OK);
	assert_int_equal(acl_valid(list, ONE_RSM_ACL_MAX + 1), RSM_BAD_ACL);
	assert_int_equal(acl_valid(list, UINT32_MAX), RSM_BAD_ACL);
	list[1].node = ACL_NODE_MAX + 1;
	assert_int_equal(acl_valid(list, 2), RSM_BAD_ACL);
	assert_int_equal(acl_valid(list, 1), RSM_OK);
	list[0].permission = 0667;
	assert_int_equal(acl_valid(list, 1), RSM_BAD_ACL);
}

static void
test_segment_ids(void **state)
{
	static const struct {
		uint32_t id;
		enum rsm_error result;
	} cases[] = {
		{1, RSM_RESERVED_SEGID},
		{0x0fffff, RSM_RESERVED_SEGID},
		{0x100000, RSM_RESERVED_SEGID},
		{0x200000, RSM_RESERVED_SEGID},
		{0x3fffff, RSM_RESERVED_SEGID},
		{0x400000, RSM_OK},
		{0x4fffff, RSM_OK},
		{0x500000, RSM_OK},
		{0x600000, RSM_OK},
		{0x7fffffff, RSM_OK},
		{0x80000000, RSM_RESERVED_SEGID},
		{UINT32_MAX, RSM_RESERVED_SEGID},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(acl_segment_id(cases[i].id), cases[i].result);
}

/* ---- services ---- */

static void
test_services(void **state)
{
	uint64_t service;

	assert_int_equal(service_from_qual(18515, &service), 0);
	assert_int_equal(service, 0x0000000001064853ull); /* spec 6.9 */
	assert_int_equal(service_to_qual(service), 18515);
	assert_true(service_is_ip(service));
	assert_int_equal(service_port(service), 18515);
	assert_int_equal(service_from_qual(UINT16_MAX, &service), 0);
	assert_int_equal(service, 0x000000000106ffffull);
	/* A larger qualifier is the service id itself, unchanged. */
	assert_int_equal(service_from_qual(0x10000, &service), 0);
	assert_int_equal(service, 0x10000);
	assert_int_equal(service_to_qual(service), 0x10000);
	assert_false(service_is_ip(service));
	assert_int_equal(service_port(service), 0);
	assert_int_equal(service_from_qual(0x1000000000000001ull, &service), 0);
	assert_int_equal(service_to_qual(service), 0x1000000000000001ull);
	/* The UDP port space has the IP header, but is not one of our ports. */
	assert_true(service_is_ip(0x0000000001114853ull));
	assert_int_equal(service_to_qual(0x0000000001114853ull), 0x0000000001114853ull);
	assert_false(service_is_ip(0x0000000101064853ull));
}

/* Applications may neither listen with a segment's service id nor connect to one with private data of their
 * own. */
static void
test_rsm_services_are_reserved(void **state)
{
	uint64_t service;

	assert_int_equal(service_from_qual(CM_SERVICE_RSM(0), &service), -EACCES);
	assert_int_equal(service_from_qual(CM_SERVICE_RSM(0x400000), &service), -EACCES);
	assert_int_equal(service_from_qual(CM_SERVICE_RSM(UINT32_MAX), &service), -EACCES);
	assert_int_equal(service_from_qual(CM_SERVICE_RSM(UINT32_MAX) + 1, &service), 0);
	assert_int_equal(service_from_qual(CM_SERVICE_RSM(0) - 1, &service), 0);
	assert_true(service_is_rsm(CM_SERVICE_RSM(7)));
	assert_false(service_is_rsm(CM_SERVICE_TCP(7)));
}

/* ---- negotiation ---- */

static void
test_negotiation(void **state)
{
	struct cm_local active = {.rd_atomic_in = 4, .rd_atomic_out = 16};
	struct cm_local passive = {.rd_atomic_in = 8, .rd_atomic_out = 2};
	struct cm_remote seen = {.rd_atomic_in = active.rd_atomic_in, .rd_atomic_out = active.rd_atomic_out};

	connection_negotiate(&passive, &seen);
	assert_int_equal(passive.rd_atomic_in, 8);
	assert_int_equal(passive.rd_atomic_out, 2);
	seen = (struct cm_remote){.rd_atomic_in = passive.rd_atomic_in,
				  .rd_atomic_out = passive.rd_atomic_out};
	connection_negotiate(&active, &seen);
	assert_int_equal(active.rd_atomic_in, passive.rd_atomic_out);
	assert_int_equal(active.rd_atomic_out, passive.rd_atomic_in);

	passive = (struct cm_local){.rd_atomic_in = 16, .rd_atomic_out = 16};
	seen = (struct cm_remote){0};
	connection_negotiate(&passive, &seen);
	assert_int_equal(passive.rd_atomic_in, 0);
	assert_int_equal(passive.rd_atomic_out, 0);
}

static void
test_timeouts(void **state)
{
	/* both sides are oneside: the announced timeout counts */
	assert_int_equal(connection_timeout(true, true, 17, 14), 17);
	assert_int_equal(connection_timeout(true, false, 17, 14), 17);
	assert_int_equal(connection_timeout(true, true, 14, 14), 14);
	assert_int_equal(connection_timeout(true, false, 14, 14), 14);
	assert_int_equal(connection_timeout(true, false, 0, 14), 17);
	/* passive: the REQ's timeout; 0 would mean never, and no application could end such a connection */
	assert_int_equal(connection_timeout(false, true, 19, 14), 19);
	assert_int_equal(connection_timeout(false, true, 0, 14), 17);
	/* active: packet lifetime 16 and the REP's ACK delay */
	assert_int_equal(connection_timeout(false, false, 0, 14), 17);
	assert_int_equal(connection_timeout(false, false, 15, 14), 17);
	assert_int_equal(connection_timeout(false, false, 16, 14), 18);
	assert_int_equal(connection_timeout(false, false, 17, 14), 18);
	assert_int_equal(connection_timeout(false, false, 18, 14), 19);
	assert_int_equal(connection_timeout(false, false, 19, 14), 19);
	assert_int_equal(connection_timeout(false, false, 31, 14), 31);
	/* never less than the port's own timeout */
	assert_int_equal(connection_timeout(true, false, 17, 20), 20);
	assert_int_equal(connection_timeout(true, true, 20, 17), 20);
	assert_int_equal(connection_timeout(false, true, 15, 17), 17);
	assert_int_equal(connection_timeout(false, false, 0, 19), 19);
}

/* ---- RSM's private data ---- */

static void
test_rsm_req(void **state)
{
	struct rsm_req req = {.who = {.node = 63,
				      .uid = 0x01020304,
				      .gid = 0x05060708,
				      .num_groups = 3,
				      .group = {1, 2, 0xfffffffe},
				      .partial = true,
				      .not_group = 7},
			      .segment = 0x80000001,
			      .permission = 0600,
			      .order = RSM_LITTLE,
			      .incarnation = 0x1122334455667788ull};
	struct rsm_req back;
	uint8_t data[RSM_REQ_LEN];

	rsm_req_build(&req, data);
	assert_memory_equal(data, "RSM1", 4);
	assert_memory_equal(&data[8], "\x80\x00\x00\x01", 4);
	assert_memory_equal(&data[16], "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x22\x33\x44\x55\x66\x77\x88",
			    16);
	assert_true(rsm_req_parse(data, sizeof(data), &back));
	assert_int_equal(back.who.node, 63);
	assert_int_equal(back.who.uid, req.who.uid);
	assert_int_equal(back.who.gid, req.who.gid);
	assert_int_equal(back.who.num_groups, 3);
	assert_int_equal(back.who.group[2], 0xfffffffe);
	assert_true(back.who.partial);
	assert_int_equal(back.who.not_group, 7);
	assert_int_equal(back.segment, req.segment);
	assert_int_equal(back.permission, 0600);
	assert_int_equal(back.order, RSM_LITTLE);
	assert_int_equal(back.incarnation, req.incarnation);

	assert_false(rsm_req_parse(data, sizeof(data) - 1, &back));
	data[6] = ACL_GROUPS + 1;
	assert_false(rsm_req_parse(data, sizeof(data), &back));
	data[6] = 255;
	assert_false(rsm_req_parse(data, sizeof(data), &back));
	data[6] = ACL_GROUPS;
	assert_true(rsm_req_parse(data, sizeof(data), &back));
	data[14] = 2;
	assert_false(rsm_req_parse(data, sizeof(data), &back));
	data[14] = 0;
	data[5] = 3;
	assert_false(rsm_req_parse(data, sizeof(data), &back));
	data[5] = RSM_BIG;
	data[4]++;
	assert_false(rsm_req_parse(data, sizeof(data), &back));
	data[4]--;
	data[0] ^= 1;
	assert_false(rsm_req_parse(data, sizeof(data), &back));
}

static void
test_rsm_rep(void **state)
{
	struct rsm_rep rep = {.size = 1ull << 40,
			      .addr = 0x7f0012345000ull,
			      .incarnation = 5,
			      .key = 0xdeadbeef,
			      .mode = 0400,
			      .order = RSM_BIG};
	struct rsm_rep back;
	uint8_t data[RSM_REP_LEN];

	rsm_rep_build(&rep, data);
	assert_true(rsm_rep_parse(data, sizeof(data), &back));
	assert_int_equal(back.size, rep.size);
	assert_int_equal(back.addr, rep.addr);
	assert_int_equal(back.incarnation, rep.incarnation);
	assert_int_equal(back.key, rep.key);
	assert_int_equal(back.mode, rep.mode);
	assert_int_equal(back.order, rep.order);
	assert_false(rsm_rep_parse(data, sizeof(data) - 1, &back));
	data[4] = 9;
	assert_false(rsm_rep_parse(data, sizeof(data), &back));
}

static void
test_rsm_rej(void **state)
{
	const struct rsm_rej rej = {.code = RSM_PERM_DENIED, .why = RSM_WHY_LAST, .nonce = {1, [15] = 2}};
	uint8_t data[RSM_REJ_LEN];
	struct rsm_rej back;

	rsm_rej_build(&rej, data);
	assert_true(rsm_rej_parse(data, sizeof(data), &back));
	assert_int_equal(back.code, RSM_PERM_DENIED);
	assert_int_equal(back.why, RSM_WHY_LAST);
	assert_memory_equal(back.nonce, rej.nonce, sizeof(back.nonce));
	assert_false(rsm_rej_parse(data, sizeof(data) - 1, &back));
	data[8]++;
	assert_false(rsm_rej_parse(data, sizeof(data), &back));
	data[8]--;
	data[4] = 1; /* an error above 255: must not be cut to 8 bits */
	assert_false(rsm_rej_parse(data, sizeof(data), &back));
	data[4] = 0;
	data[7] = 0; /* a refusal never means success */
	assert_false(rsm_rej_parse(data, sizeof(data), &back));
	memset(data, 0, sizeof(data));
	assert_false(rsm_rej_parse(data, sizeof(data), &back));
}

static void
test_rsm_proof(void **state)
{
	struct rsm_proof proof = {
		.num_codes = 2, .exporter_nonce = {1}, .importer_nonce = {2}, .code = {{3}, {[15] = 4}}};
	struct rsm_proof back;
	uint8_t data[RSM_PROOF_LEN];

	rsm_proof_build(&proof, data);
	assert_true(rsm_proof_parse(data, sizeof(data), &back));
	assert_memory_equal(&back, &proof, sizeof(proof));
	for (uint32_t len = 0; len < sizeof(data); len++)
		assert_false(rsm_proof_parse(data, len, &back));
	data[5] = 0;
	assert_false(rsm_proof_parse(data, sizeof(data), &back));
	data[5] = RSM_CODES + 1;
	assert_false(rsm_proof_parse(data, sizeof(data), &back));
	data[5] = RSM_CODES;
	data[4]++;
	assert_false(rsm_proof_parse(data, sizeof(data), &back));
}

/* ---- the log ---- */

/* Endless events do not flood the log: 50 lines at once, and at most 1000 an hour. */
static void
test_log_is_bounded(void **state)
{
	uint64_t begin = control.now = 1000 * NS_PER_S, written = 0, suppressed = log_suppressed;

	for (uint32_t i = 0; i < 1000; i++)
		written += log_allowed();
	assert_int_equal(written, 50);
	assert_int_equal(log_suppressed - suppressed, 950);
	for (; control.now < begin + 3600 * NS_PER_S; control.now += NS_PER_S / 10)
		written += log_allowed();
	assert_in_range(written, 50 + 800, 50 + 1000);
	/* After an hour of silence all 50 lines are available again. */
	control.now += 3600 * NS_PER_S;
	for (written = 0; log_allowed();)
		written++;
	assert_int_equal(written, 50);
}

/* Lines that a user causes are charged to that user, and do not suppress lines of others. */
static void
test_log_of_users(void **state)
{
	uint32_t written = 0;

	control.now += 3600 * NS_PER_S;
	while (log_allowed_to(1000))
		;
	for (uint32_t uid = 1001; uid < 1001 + 15; uid++)
		assert_true(log_allowed_to(uid));
	assert_false(log_allowed_to(1000));
	assert_true(log_allowed());
	/* Many uids do not multiply the budget: the 17th uid shares the budget of no user. */
	while (log_allowed_to(2000))
		written++;
	assert_int_equal(written, 49);
	assert_false(log_allowed());
	assert_false(log_allowed_to(2001));
	assert_true(log_allowed_to(1001));
	/* A uid that was silent for an hour makes room for another. */
	control.now += 3600 * NS_PER_S;
	assert_true(log_allowed_to(2001));
	assert_true(log_allowed_to(1000));
}

int
rules_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_acl_check),
		cmocka_unit_test(test_acl_partial_groups),
		cmocka_unit_test(test_acl_first_entry_counts),
		cmocka_unit_test(test_acl_valid),
		cmocka_unit_test(test_segment_ids),
		cmocka_unit_test(test_services),
		cmocka_unit_test(test_rsm_services_are_reserved),
		cmocka_unit_test(test_negotiation),
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_rsm_req),
		cmocka_unit_test(test_rsm_rep),
		cmocka_unit_test(test_rsm_proof),
		cmocka_unit_test(test_rsm_rej),
		cmocka_unit_test(test_log_is_bounded),
		cmocka_unit_test(test_log_of_users),
	};

	return cmocka_run_group_tests_name("control: rules", tests, NULL, NULL);
}

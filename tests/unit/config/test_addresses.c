/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, gateways, routes and marks of a port: refusals, and the source address for each destination. */
#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "config/route.h"

static struct config config;
static char why[1024];

static int
setup(void **state)
{
	(void)state;
	config_defaults(&config);
	why[0] = '\0';
	return 0;
}

static int
set(const char *section, const char *key, const char *value)
{
	return config_set(&config, section, key, value, why, sizeof(why));
}

static void
assert_says(const char *text)
{
	if (strstr(why, text) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, text);
}

static int
source_to(const char *address)
{
	struct config_addr addr;
	bool has_prefix;
	int bits;

	assert_int_equal(config_addr_parse(address, &addr, &has_prefix), 0);
	return config_source(&config.port[0], &addr, &bits);
}

static void
test_several_addresses(void **state)
{
	struct config_addr own;
	bool has_prefix;

	(void)state;
	assert_int_equal(set("port p0", "address", "10.0.0.1/8  192.0.2.1/24\t2001:db8::1/64 10.1.0.1/16"),
			 0);
	assert_int_equal(set("port p0", "gateway", "192.0.2.254 2001:db8::fe"), 0);
	assert_int_equal(
		set("port p0", "route",
		    "10.1.2.0/24 via 192.0.2.253 198.51.0.0/16 via 10.0.0.9 2001:db8:5::/48 via 2001:db8::9"),
		0);
	assert_int_equal(config_validate(&config, why, sizeof(why)), 0);
	assert_int_equal(source_to("10.2.0.5"), 0);
	assert_int_equal(source_to("10.1.0.5"), 3);         /* the longer prefix on the link */
	assert_int_equal(source_to("10.1.2.5"), 1);         /* a route with a longer prefix */
	assert_int_equal(source_to("198.51.100.5"), 0);     /* a route before the gateway */
	assert_int_equal(source_to("203.0.113.5"), 1);      /* the gateway */
	assert_int_equal(source_to("2001:db8:5::5"), 2);    /* a route of the other family */
	assert_int_equal(source_to("2001:db8:ffff::5"), 2); /* its gateway */
	assert_int_equal(config_addr_parse("10.1.0.1", &own, &has_prefix), 0);
	assert_true(config_port_has(&config.port[0], &own));
	own.bytes[3] = 2;
	assert_false(config_port_has(&config.port[0], &own));
	/* A shorter list removes the addresses that it lacks. */
	assert_int_equal(set("port p0", "address", "192.0.2.1/24"), 0);
	assert_int_equal(config.port[0].addr[1].family, 0);
	assert_int_equal(source_to("10.1.0.5"), 0);
}

/* Frames to a router outside of all prefixes leave from the first address of the router's family. */
static void
test_routers_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(set("port p0", "address", "10.0.0.5/32 10.0.1.5/32 2001:db8::1/64 2001:db8:1::1/64"),
			 0);
	assert_int_equal(set("port p0", "gateway", "fe80::1 169.254.0.1"), 0);
	assert_int_equal(
		set("port p0", "route", "198.51.100.0/24 via 169.254.0.2 2001:db8:5::/48 via 2001:db8:1::9"),
		0);
	assert_int_equal(config_validate(&config, why, sizeof(why)), 0);
	assert_int_equal(source_to("203.0.113.5"), 0);
	assert_int_equal(source_to("198.51.100.5"), 0);
	assert_int_equal(source_to("169.254.0.2"), 0);
	assert_int_equal(source_to("2001:db8:ffff::5"), 2);
	assert_int_equal(source_to("2001:db8:5::5"), 3);
	assert_int_equal(source_to("fe80::1"), 2);
}

static void
test_lists_refused(void **state)
{
	static const struct {
		const char *key, *text, *says;
	} bad[] = {
		{"address", "192.0.2.1/24 192.0.2.1/24", "192.0.2.1/24 is there twice"},
		{"address", "192.0.2.1/24 2001:db8::1/64 192.0.2.1/25", "192.0.2.1/25 is there twice"},
		{"address", "192.0.2.1/24,192.0.2.2/24", "not an IPv4 or IPv6 address"},
		{"address", "192.0.2.1/24 192.0.2.2", "the prefix of the link is missing"},
		{"address",
		 "10.0.0.1/8 10.0.0.2/8 10.0.0.3/8 10.0.0.4/8 10.0.0.5/8 10.0.0.6/8 10.0.0.7/8 10.0.0.8/8 10.0.0.9/8",
		 "more than 8 addresses"},
		{"address", " ", "there is nothing"},
		{"gateway", "192.0.2.254 192.0.2.253 192.0.2.252", "more than 2 addresses"},
		{"route", "198.51.100.0/24", "this is no route"},
		{"route", "198.51.100.0/24 by 192.0.2.2", "this is no route"},
		{"route", "198.51.100.0 via 192.0.2.2", "this is no route"},
		{"route", "0.0.0.0/0 via 192.0.2.2", "this is no route"},
		{"route", "198.51.100.1/24 via 192.0.2.2", "bits behind its prefix"},
		{"route", "198.51.100.0/24 via 2001:db8::1", "of another family"},
		{"route", "198.51.100.0/24 via 192.0.2.2 198.51.100.0/24 via 192.0.2.3", "is there twice"},
		{"dscp", "64", "this is no DSCP"},
		{"flow_label", "1048576", "this is no flow label"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		config_defaults(&config);
		assert_true(set("port p0", bad[i].key, bad[i].text) < 0);
		assert_says(bad[i].says);
		assert_int_equal(config.num_ports, 0);
	}
}

/* Each mark of a peer overrides the user's, which overrides the port's. */
static void
test_marks(void **state)
{
	struct config_addr peer, other;
	struct config_marks marks;
	bool has_prefix;

	(void)state;
	assert_int_equal(config_addr_parse("192.0.2.2", &peer, &has_prefix), 0);
	assert_int_equal(config_addr_parse("192.0.2.3", &other, &has_prefix), 0);
	assert_int_equal(set("port p0", "address", "192.0.2.1/24"), 0);
	marks = config_marks_of(&config, &config.port[0], 7, &peer);
	assert_int_equal(marks.dscp, CONFIG_NO_DSCP);
	assert_int_equal(marks.flow_label, CONFIG_NO_FLOW_LABEL);
	assert_int_equal(set("port p0", "dscp", "10"), 0);
	assert_int_equal(set("port p0", "flow_label", "1"), 0);
	assert_int_equal(set("user 7", "dscp", "0"), 0);
	assert_int_equal(set("peer 2", "address", "192.0.2.2"), 0);
	assert_int_equal(set("peer 2", "flow_label", "3"), 0);
	marks = config_marks_of(&config, &config.port[0], 8, &other);
	assert_int_equal(marks.dscp, 10);
	assert_int_equal(marks.flow_label, 1);
	marks = config_marks_of(&config, &config.port[0], 7, &peer);
	assert_int_equal(marks.dscp, 0);
	assert_int_equal(marks.flow_label, 3);
	assert_int_equal(set("peer 2", "dscp", "46"), 0);
	assert_int_equal(config_marks_of(&config, &config.port[0], 7, &peer).dscp, 46);
}

/* Keys that are valid alone, but not together. */
static void
test_keys_refused_together(void **state)
{
	static const struct {
		const char *address, *key, *text, *says;
	} bad[] = {
		{"192.0.2.1/24 10.0.0.255/24", "mtu", "1500", "the network or its broadcast"},
		{"192.0.2.1/24 192.0.3.1/24", "gateway", "192.0.2.254 192.0.3.254",
		 "both gateways are of one family"},
		{"192.0.2.1/24 192.0.3.1/24", "gateway", "192.0.3.1",
		 "gateway 192.0.3.1 cannot be another host"},
		{"192.0.2.1/24", "route", "10.0.0.0/8 via 192.0.2.255",
		 "route 192.0.2.255 cannot be another host"},
		{"192.0.2.1/24", "route", "2001:db8::/48 via fe80::1",
		 "route fe80::1 cannot be another host"},
		{"192.0.2.1/24 10.0.0.1/8", "route", "10.0.0.0/8 via 192.0.2.9",
		 "route 10.0.0.0/8 is the link of an address"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(setup(state), 0);
		assert_int_equal(set("port p0", "address", bad[i].address), 0);
		assert_int_equal(set("port p0", bad[i].key, bad[i].text), 0);
		assert_true(config_validate(&config, why, sizeof(why)) < 0);
		assert_non_null(strstr(why, bad[i].says));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_several_addresses, setup),
		cmocka_unit_test_setup(test_routers_elsewhere, setup),
		cmocka_unit_test(test_keys_refused_together),
		cmocka_unit_test_setup(test_lists_refused, setup),
		cmocka_unit_test_setup(test_marks, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

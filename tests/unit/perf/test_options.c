/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of oneside-perf: accepted and refused values, and the messages of refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "perf/perf/options.h"

static char said[4096];
static struct perf_options o;

/* Parses the words of `line`; stores the output in `said`. */
static int
parse(const char *line)
{
	static char words[512];
	char *argv[64] = {(char[]){"oneside-perf"}};
	int argc = 1, parsed, out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
	FILE *file = tmpfile();
	size_t n;

	snprintf(words, sizeof(words), "%s", line);
	for (char *save, *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	assert_non_null(file);
	fflush(stdout);
	fflush(stderr);
	assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
	parsed = perf_options_parse(&o, argc, argv);
	fflush(stdout);
	fflush(stderr);
	assert_true(dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0);
	close(out);
	close(err);
	rewind(file);
	n = fread(said, 1, sizeof(said) - 1, file);
	said[n] = '\0';
	fclose(file);
	return parsed;
}

static void
refused(const char *line, const char *words)
{
	assert_int_equal(parse(line), -1);
	if (strstr(said, words) == NULL)
		fail_msg("\"%s\" says: %s", line, said);
}

static void
test_defaults(void **state)
{
	assert_int_equal(parse(""), 0);
	assert_string_equal(said, "");
	assert_string_equal(o.test->name, "write_bw");
	assert_int_equal(o.api, PERF_API_DAT);
	assert_string_equal(o.ia, "oneside");
	assert_null(o.host);
	assert_null(o.json_file);
	assert_int_equal(o.port, 18515);
	assert_int_equal(o.size, 64);
	assert_int_equal(o.iterations, 100000);
	assert_true(o.duration == 0);
	assert_int_equal(o.depth, 128);
	assert_int_equal(o.endpoints, 1);
	assert_int_equal(o.signal_every, 1);
	assert_true(o.peak && !o.bidirectional && !o.all_sizes && !o.json && !o.once && !o.gbits);
}

static void
test_api_and_test(void **state)
{
	/* RSM has a default test. */
	assert_int_equal(parse("-A rsm"), 0);
	assert_string_equal(o.test->name, "put_bw");
	assert_string_equal(o.ia, "p0");
	/* The name of a test implies its API. */
	assert_int_equal(parse("-t get_lat host"), 0);
	assert_int_equal(o.api, PERF_API_RSM);
	assert_int_equal(o.test->op, PERF_GET);
	assert_int_equal(o.test->kind, PERF_LATENCY);
	assert_string_equal(o.host, "host");
	assert_int_equal(parse("-t map_put_bw -d p1"), 0);
	assert_true(o.test->mapped);
	assert_string_equal(o.ia, "p1");
	assert_int_equal(parse("--test write_pp --api dat"), 0);
	assert_int_equal(o.test->kind, PERF_PINGPONG);
	refused("-A rsm -t write_bw", "\"write_bw\" is not a test of RSMAPI");
	refused("-t put_bw -A dat", "\"put_bw\" is not a test of uDAPL");
	refused("-A verbs", "\"verbs\" is neither dat nor rsm");
	refused("-t wrote_bw", "there is no test \"wrote_bw\"");
	refused("-t", "requires an argument");
}

static void
test_numbers(void **state)
{
	assert_int_equal(
		parse("-s 4096 -n 7 -D 2.5 -q 16 -Q 8 --iodepth 32 -r 9 -p 5 --spin 0 --idle-qp 16000 -a -b -N --report_gbits --perform_warm_up --warm-up 3 --json --once --out_json_file f h"),
		0);
	assert_int_equal(o.size, 4096);
	assert_int_equal(o.iterations, 7);
	assert_true(o.duration == 2.5);
	assert_int_equal(o.warm_seconds, 3);
	assert_int_equal(o.endpoints, 16);
	assert_int_equal(o.signal_every, 8);
	assert_int_equal(o.depth, 32);
	assert_int_equal(o.rx_depth, 9);
	assert_int_equal(o.port, 5);
	assert_int_equal(o.spin, 0);
	assert_int_equal(o.idle_endpoints, 16000);
	assert_true(o.all_sizes && o.bidirectional && !o.peak && o.gbits && o.warm_up && o.json && o.once);
	assert_string_equal(o.json_file, "f");
	assert_int_equal(perf_largest(&o), PERF_SIZE_LAST);
	/* -t also takes a depth, as in perftest. */
	assert_int_equal(parse("-t 64 -t read_bw"), 0);
	assert_int_equal(o.depth, 64);
	assert_string_equal(o.test->name, "read_bw");
	assert_int_equal(parse("-s 0x100"), 0);
	assert_int_equal(o.size, 256);
	assert_int_equal(perf_largest(&o), 256);

	refused("-s 0", "--size: \"0\" is not a number from 1 to 1073741824");
	refused("-s 1073741825", "--size");
	refused("-s 12x", "--size: \"12x\"");
	refused("-s -1", "--size: \"-1\"");
	refused("-s 99999999999999999999999", "--size");
	refused("-n 0", "--iters");
	refused("-D 0", "--duration: \"0\"");
	refused("-D nan", "--duration: \"nan\"");
	refused("-D 1s", "--duration: \"1s\"");
	refused("-q 0", "--qp");
	refused("-q 4097", "--qp");
	refused("-t 0", "--tx-depth: \"0\"");
	refused("-t 4097", "--tx-depth");
	refused("-p 65536", "--port");
	refused("--node 64", "--node");
	refused("--segment 1", "--segment");
	refused("--pieces 17", "--pieces");
	refused("--idle-qp 16001", "--idle-qp");
	refused("--wrong", "usage");
}

static void
test_together(void **state)
{
	refused("-Q 17 -t 16", "--cq-mod 17: is above --tx-depth 16");
	refused("-b -t put_bw", "passive");
	refused("-b -t write_lat", "--bidirectional: is for bandwidth tests");
	refused("-q 2 -t read_lat", "--qp");
	refused("--idle-qp 1 -A rsm", "--idle-qp");
	refused("-D 1 -t write_pp", "--duration");
	refused("one two", "\"two\": one host is enough");
	assert_int_equal(parse("-D 1 -t signal_pp"), 0);
}

static void
test_help(void **state)
{
	assert_int_equal(parse("--help -s 0"), 1);
	assert_non_null(strstr(said, "usage: oneside-perf"));
	assert_non_null(strstr(said, "signal_pp"));
}

int
main(void)
{
	const struct CMUnitTest cases[] = {
		cmocka_unit_test(test_defaults), cmocka_unit_test(test_api_and_test),
		cmocka_unit_test(test_numbers),  cmocka_unit_test(test_together),
		cmocka_unit_test(test_help),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}

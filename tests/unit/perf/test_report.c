/* SPDX-License-Identifier: BSD-3-Clause */
/* Histograms, perftest's columns, JSON, and the progress line, which only a terminal gets. */
#include <setjmp.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "perf/perf/print_result.h"

static struct histogram h;

static void
near(uint64_t value, uint64_t want)
{
	double error = (double)value / (double)want - 1;

	if (error < -0.008 || error > 0.008)
		fail_msg("%lu instead of %lu", (unsigned long)value, (unsigned long)want);
}

static void
test_empty(void **state)
{
	histogram_clear(&h);
	assert_int_equal(histogram_percentile(&h, 50), 0);
	assert_true(histogram_deviation(&h) == 0);
}

static void
test_percentiles(void **state)
{
	histogram_clear(&h);
	for (uint64_t i = 1; i <= 100000; i++)
		histogram_add(&h, i);
	assert_int_equal(h.count, 100000);
	assert_int_equal(h.min, 1);
	assert_int_equal(h.max, 100000);
	near(histogram_percentile(&h, 50), 50000);
	near(histogram_percentile(&h, 90), 90000);
	near(histogram_percentile(&h, 99), 99000);
	near(histogram_percentile(&h, 99.9), 99900);
	near(histogram_percentile(&h, 99.99), 99990);
	assert_int_equal(histogram_percentile(&h, 0), 1);
	assert_true(histogram_percentile(&h, 100) <= 100000);
	near((uint64_t)histogram_deviation(&h), 28867); /* n / sqrt(12) */
}

static void
test_a_tail_is_seen_where_it_begins(void **state)
{
	histogram_clear(&h);
	for (uint32_t i = 0; i < 999; i++)
		histogram_add(&h, 1000);
	histogram_add(&h, 5000000);
	near(histogram_percentile(&h, 99.9), 1000);
	near(histogram_percentile(&h, 99.99), 5000000);
}

static void
test_one_sample_is_every_percentile(void **state)
{
	histogram_clear(&h);
	histogram_add(&h, 12345);
	assert_int_equal(histogram_percentile(&h, 50), 12345);
	assert_int_equal(histogram_percentile(&h, 99.99), 12345);
}

static void
test_extremes(void **state)
{
	histogram_clear(&h);
	histogram_add(&h, 0);
	histogram_add(&h, UINT64_MAX);
	assert_int_equal(histogram_percentile(&h, 50), 0);
	assert_true(histogram_percentile(&h, 100) > UINT64_MAX / 2);
	/* Each value of each power of two has a bucket that represents the value closely. */
	for (uint32_t log2 = 0; log2 < 63; log2++) {
		uint64_t value = (1ull << log2) + ((1ull << log2) / 3);

		histogram_clear(&h);
		histogram_add(&h, value - value / 1000);
		histogram_add(&h, value);
		histogram_add(&h, value + value / 1000);
		near(histogram_percentile(&h, 50), value);
	}
}

/* Returns the text that `print` writes. */
static char *
printed(void (*print)(FILE *))
{
	static char text[65536];
	FILE *file = tmpfile();
	size_t n;

	assert_non_null(file);
	print(file);
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

static struct result r;
static bool gbits;

static void
head_and_line(FILE *file)
{
	report_head(file, r.latency_test, gbits);
	report_line(file, &r, gbits);
}

static void
json_line(FILE *file)
{
	report_json(file, &r);
}

static void
histogram_lines(FILE *file)
{
	histogram_print(file, &h);
}

#define MS 1000000u

static void
test_peak(void **state)
{
	struct peak p;

	r = (struct result){.iterations = 3300, .seconds = 3};
	/* The second of three consecutive milliseconds has the highest rate. */
	peak_begin(&p, 5 * MS);
	peak_look(&p, 6 * MS, 1000, 1000);
	peak_look(&p, 6 * MS + 1, 1400, 1400); /* too short for a sample */
	peak_look(&p, 7 * MS, 2400, 2400);
	peak_look(&p, 8 * MS, 3300, 3300);
	peak_end(&p, &r);
	assert_true(r.peak == 1400000);
	/* Late completions: most were of requests posted before the sample. */
	r = (struct result){.iterations = 2000, .seconds = 0.002};
	peak_begin(&p, 0);
	peak_look(&p, MS, 1128, 1000);
	peak_look(&p, 2 * MS, 2128, 2100);
	peak_look(&p, 3 * MS, 9448, 9320); /* a sample has at least 64 times the outstanding requests */
	peak_end(&p, &r);
	assert_true(r.peak > 4.095e6 && r.peak < 4.097e6);
	/* A run shorter than a sample: the peak is the average. */
	r = (struct result){.iterations = 64, .seconds = 0.0005};
	peak_begin(&p, 0);
	peak_look(&p, MS / 2, 64, 64);
	peak_end(&p, &r);
	assert_true(r.peak == 128000);
}

static void
test_bandwidth_columns(void **state)
{
	char *text;

	r = (struct result){
		.test = "write_bw", .size = 1048576, .iterations = 2000, .seconds = 2, .peak = 1500};
	gbits = false;
	text = printed(head_and_line);
	assert_string_equal(
		text, " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
		      " 1048576    2000             1500.00            1000.00\t\t   0.001000\n");
	gbits = true;
	text = printed(head_and_line);
	assert_non_null(strstr(text, "BW average[Gb/sec]"));
	assert_non_null(strstr(text, "12.58 "));
	assert_non_null(strstr(text, "8.39   \t"));
}

static void
test_latency_columns(void **state)
{
	char *text;

	histogram_clear(&h);
	for (uint32_t i = 0; i < 1000; i++)
		histogram_add(&h, i < 500 ? 1000 : 3000);
	r = (struct result){.test = "write_lat",
			    .size = 8,
			    .iterations = 1000,
			    .seconds = 1,
			    .latency_test = true,
			    .latency = &h};
	text = printed(head_and_line);
	assert_non_null(strstr(
		text,
		" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"));
	assert_non_null(strstr(text, "\n 8       1000           1.00           3.00         1.00   "));
	assert_non_null(strstr(text, "2.00        \t1.00   \t\t3.00    \t\t3.00   \n"));
}

static void
test_json(void **state)
{
	char *text;

	r = (struct result){
		.test = "read_bw", .size = 1000, .iterations = 4000000, .seconds = 2, .depth = 16};
	text = printed(json_line);
	assert_string_equal(text, "{\"test\":\"read_bw\",\"bytes\":1000,\"iterations\":4000000,"
				  "\"seconds\":2.000000,\"MBps\":2000.000,\"ops\":2000000.0,\"depth\":16}\n");
	histogram_clear(&h);
	for (uint64_t i = 1; i <= 10; i++)
		histogram_add(&h, i);
	r.latency = &h;
	r.peak = 3000000;
	r.endpoints = 4;
	text = printed(json_line);
	assert_non_null(strstr(text, "\"peak_MBps\":3000.000,\"peak_ops\":3000000.0,\"endpoints\":4,"));
	assert_non_null(strstr(text,
			       "\"latency_ns\":{\"min\":1,\"avg\":5.5,\"stdev\":2.9,\"max\":10,\"p50\":5,"
			       "\"p90\":9,\"p99\":10,\"p99.9\":10,\"p99.99\":10}}\n"));
}

static void
test_histogram_lines(void **state)
{
	char *text;

	histogram_clear(&h);
	for (uint32_t i = 0; i < 3; i++)
		histogram_add(&h, 100);
	histogram_add(&h, 2000);
	text = printed(histogram_lines);
	assert_non_null(strstr(text, " 99.99% percentile[usec]  2.000\n"));
	assert_non_null(
		strstr(text, "\n 0.100        3            75.0000\n 2.000        1            100.0000\n"));
}

static void
test_no_progress_without_a_terminal(void **state)
{
	int err = dup(STDERR_FILENO);
	FILE *file = tmpfile();
	struct progress progress;

	assert_non_null(file);
	assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
	progress_begin(&progress, true);
	progress_show(&progress, now_ns() + 1000000000, 0.5, 100, 8);
	progress_end(&progress);
	assert_true(dup2(err, STDERR_FILENO) >= 0);
	close(err);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	assert_int_equal(ftell(file), 0);
	fclose(file);
}

static void
test_progress_on_a_terminal(void **state)
{
	int err = dup(STDERR_FILENO), master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	struct progress progress;
	char text[256] = "";
	ssize_t n;

	assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	assert_true(slave >= 0 && dup2(slave, STDERR_FILENO) >= 0);
	progress_begin(&progress, true);
	progress_show(&progress, progress.begun + 1000, 0.1, 1, 8); /* too early */
	progress_show(&progress, progress.begun + 1000000000, 0.5, 2000000, 8);
	progress_end(&progress);
	assert_true(dup2(err, STDERR_FILENO) >= 0);
	close(err);
	n = read(master, text, sizeof(text) - 1);
	close(slave);
	close(master);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "\r 8 bytes:  50%  2.000 Mpps  15.3 MB/sec"));
	assert_null(strstr(text, "10%"));
}

static void
test_json_file(void **state)
{
	char path[] = "/tmp/oneside-perf-XXXXXX", line[256] = "";
	struct perf_options o = {.json_file = path};
	int fd = mkstemp(path);
	FILE *file, *again;

	assert_true(fd >= 0);
	close(fd);
	assert_true(perf_json_open(&o, &file));
	r = (struct result){.test = "x", .size = 1, .iterations = 1, .seconds = 1};
	report_json(file, &r);
	assert_true(perf_json_close(file));
	again = fopen(path, "r");
	assert_non_null(again);
	assert_non_null(fgets(line, sizeof(line), again));
	assert_true(strncmp(line, "{\"test\":\"x\"", 11) == 0);
	fclose(again);
	unlink(path);
	o.json_file = "/nonexistent/file";
	assert_false(perf_json_open(&o, &file));
	o.json_file = NULL;
	assert_true(perf_json_open(&o, &file) && file == NULL && perf_json_close(file));
}

int
main(void)
{
	const struct CMUnitTest cases[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_a_tail_is_seen_where_it_begins),
		cmocka_unit_test(test_one_sample_is_every_percentile),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_peak),
		cmocka_unit_test(test_bandwidth_columns),
		cmocka_unit_test(test_latency_columns),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_histogram_lines),
		cmocka_unit_test(test_no_progress_without_a_terminal),
		cmocka_unit_test(test_progress_on_a_terminal),
		cmocka_unit_test(test_json_file),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters that another process has passed on: a reader sees no reset. */
#include <errno.h>
#include <string.h>

#include "dataplane/engine/takeover.h"
#include "fixture.h"

static void
send_frame(void)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(engine.core[0]->pool);

	assert_non_null(rte_pktmbuf_append(m, 60));
	memset(rte_pktmbuf_mtod(m, void *), 0, 60);
	assert_int_equal(rte_eth_tx_burst(ports[0].device, 0, &m, 1), 1);
	turn(2000); /* counters are published each millisecond */
}

static void
take(struct record_in *in, enum record_type type, struct record *record)
{
	assert_int_equal(record_take(in, record), 1);
	assert_int_equal(record->head.type, type);
}

/* `core` and `port`: their records, which are in `out`. */
static void
written(struct record_out *out, struct record *core, struct record *port)
{
	struct record end;
	struct record_in in;

	*out = (struct record_out){.bytes = NULL};
	engine_counters_write(out);
	in = (struct record_in){.bytes = out->bytes, .length = out->length};
	take(&in, RECORD_CORE, core);
	take(&in, RECORD_PORT, port);
	assert_int_equal(record_take(&in, &end), 0);
}

/* The core counts on, and adds what it has counted before; so does the port, but without it. */
static void
test_count_on(void **state)
{
	struct engine_port_stats port, port_after;
	struct engine_stats core, core_after;
	struct record core_record, port_record;
	struct record_out out;
	uint64_t clock = engine_clock();

	send_frame();
	engine_stats(0, &core);
	assert_true(engine_port_stats(0, &port));
	assert_true(core.loops > 0 && core.rx_packets > 0 && port.tx_packets > 0);
	written(&out, &core_record, &port_record);
	send_frame();
	assert_int_equal(engine_core_read(&core_record), 0);
	assert_int_equal(engine_port_read(&port_record), 0);
	assert_true(engine_port_stats(0, &port_after));
	assert_memory_equal(&port_after, &port, sizeof(port));
	engine_stats(0, &core_after);
	assert_true(core_after.loops > 2 * core.loops);
	assert_int_equal(core_after.rx_packets, 2 * core.rx_packets + 1);
	send_frame();
	assert_true(engine_port_stats(0, &port_after));
	assert_int_equal(port_after.tx_packets, port.tx_packets + 1);
	assert_int_equal(port_after.rx_packets, port.rx_packets + 1);
	engine_stats(0, &core_after);
	assert_int_equal(core_after.rx_packets, 2 * core.rx_packets + 2);
	assert_true(engine_clock() >= clock); /* gaps of another process are not this one's */
	record_out_free(&out);
}

/* Counters of a core that this process lacks are added to another one: no sum decreases. */
static void
test_core_that_went(void **state)
{
	struct engine_stats core, core_after;
	struct record core_record, port_record, other;
	struct record_out out;

	written(&out, &core_record, &port_record);
	engine_stats(0, &core);
	assert_true(core.rx_packets > 0);
	other = core_record;
	other.head.id = CORE_MAX - 1;
	assert_int_equal(engine_core_read(&other), 0);
	engine_stats(0, &core_after);
	assert_int_equal(core_after.rx_packets, 2 * core.rx_packets);
	assert_int_equal(core_after.loops, 2 * core.loops);
	record_out_free(&out);
}

/* Records of another core, port or form, and of no frequency, change nothing. */
static void
test_refused(void **state)
{
	static const uint64_t no_hz;
	struct engine_stats core, core_after;
	struct record core_record, port_record, other;
	struct record_out out;

	written(&out, &core_record, &port_record);
	engine_stats(0, &core);
	other = core_record;
	other.head.id = CORE_MAX;
	assert_int_equal(engine_core_read(&other), -EINVAL);
	other = core_record;
	other.head.length -= 8;
	assert_int_equal(engine_core_read(&other), -EINVAL);
	other = port_record;
	other.head.id++;
	assert_int_equal(engine_port_read(&other), -EINVAL);
	other = port_record;
	other.head.version++;
	assert_int_equal(engine_port_read(&other), -EINVAL);
	memcpy(out.bytes + sizeof(core_record.head), &no_hz, sizeof(no_hz));
	assert_int_equal(engine_core_read(&core_record), -EINVAL);
	engine_stats(0, &core_after);
	assert_memory_equal(&core_after, &core, sizeof(core));
	record_out_free(&out);
}

/* A process that measured half the frequency has counted half the cycles. */
static void
test_frequency(void **state)
{
	struct engine_stats core, core_after;
	struct record core_record, port_record;
	struct record_out out;
	uint64_t hz = engine_hz() / 2;

	written(&out, &core_record, &port_record);
	memcpy(out.bytes + sizeof(core_record.head), &hz, sizeof(hz));
	memcpy(&core, core_record.bytes + sizeof(hz), sizeof(core));
	core.idle_cycles = 1ull << 62;
	memcpy(out.bytes + sizeof(core_record.head) + sizeof(hz), &core, sizeof(core));
	assert_int_equal(engine_core_read(&core_record), 0);
	engine_stats(0, &core_after);
	assert_true(core_after.idle_cycles >= 1ull << 63);
	record_out_free(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count_on),
		cmocka_unit_test(test_core_that_went),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_frequency),
	};

	return cmocka_run_group_tests_name("engine: counters", tests, group_start, group_stop);
}

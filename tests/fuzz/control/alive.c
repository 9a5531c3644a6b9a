/* SPDX-License-Identifier: BSD-3-Clause */
/* Keep-alive: whatever is sent in the name of a host with connections, the connections are lost only to
 * silence, or to an answer to an open question that names another incarnation. */
#include <stdlib.h>
#include <string.h>

#include "control/rsm/rsm.h"
#include "tests/fuzz/base/records.h"

#define INCARNATION 0x1122334455667788ull
#define ASKS 4u

struct control control;
int control_logtype;

static struct config config = {.keepalive_ms = 1000};
static struct engine_port_info info = {.num_addrs = 1, .addr = {{{[10] = 0xff, 0xff, 192, 0, 2, 1}}}};
static struct path_port port = {.info = &info};
static const struct wire_addr peer = {{[10] = 0xff, 0xff, 192, 0, 2, 2}};
static uint8_t question[CM_MAD_LEN];
static uint64_t open_questions[ASKS];
static uint32_t heard, questions, lost;

uint64_t
control_random(void)
{
	return 1000 + 2 * questions;
}

struct path_port *
path_own(const struct wire_addr *addr)
{
	return NULL;
}

void
path_send_mad(struct path_port *by, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	if (mad[3] != 1)
		return;
	memcpy(question, mad, sizeof(question));
	memcpy(&open_questions[questions++ % ASKS], &mad[8], 8);
}

void
path_send_mad_known(struct path_port *by, const struct cm_path *path, const uint8_t mac[6],
		    const uint8_t mad[CM_MAD_LEN])
{
	path_send_mad(by, path, mad);
}

uint64_t
engine_clock(void)
{
	return control.now;
}

void
path_suspect(struct path_user *user)
{
}

uint32_t
engine_qp_heard(const struct engine_qp *qp)
{
	return heard;
}

void
conn_end(struct conn *conn, enum one_conn_event event, enum rsm_error rsm, bool notify_peer)
{
	lost++;
	host_unwatch(conn);
}

const char *
addr_text(const struct wire_addr *addr)
{
	return "peer";
}

static bool
is_open(const uint8_t *mad)
{
	for (uint32_t i = 0; i < ASKS; i++)
		if (memcmp(&open_questions[i], &mad[8], 8) == 0 && open_questions[i] != 0)
			return true;
	return false;
}

/* Inputs any datagram, or the answer to the last question with bytes changed. */
static void
datagram(struct bytes *record, bool echo)
{
	struct cm_path path = {.src = info.addr[0], .dst = peer};
	uint32_t before = lost;
	uint8_t mad[CM_MAD_LEN];

	path.dst.gid[15] = (uint8_t)(2 + record_number(record, 1) % 4);
	if (echo) {
		memcpy(mad, question, sizeof(mad));
		mad[3] = 0x81;
		while (record->left >= 2) {
			uint8_t at = (uint8_t)record_number(record, 1);

			mad[at] = (uint8_t)record_number(record, 1);
		}
	} else {
		record_fill(record, mad, sizeof(mad));
	}
	host_mad(&port, &path, mad);
	if (lost != before && (mad[3] != 0x81 || path.dst.gid[15] != 2 || !is_open(mad)))
		fuzz_fail("connections are lost to a datagram that answers nothing");
}

static void
pass(uint64_t ns)
{
	uint64_t until = control.now + ns, next;

	while ((next = hosts_deadline()) <= until && next != NEVER) {
		control.now = next;
		hosts_poll();
	}
	control.now = until;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = {data, size}, record;
	struct conn conn = {.port = &port, .path = {.src = info.addr[0], .dst = peer}};

	memset(&control, 0, sizeof(control));
	control.config = &config;
	control.incarnation = 77;
	control.now = NS_PER_S;
	heard = questions = lost = 0;
	memset(open_questions, 0, sizeof(open_questions));
	host_watch(&conn, INCARNATION);
	while (record_next(&input, &record)) {
		switch (record_number(&record, 1) % 4) {
		case 0:
			datagram(&record, false);
			break;
		case 1:
			datagram(&record, true);
			break;
		case 2:
			pass(1ull << record_number(&record, 1) % 32);
			break;
		default:
			heard++;
			break;
		}
	}
	host_unwatch(&conn);
	hosts_poll();
	if (hosts_deadline() != NEVER)
		fuzz_fail("a host without connections is kept");
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <time.h>

#include "fixture.h"

static char somewhere[256];

const DAT_HANDLE not_handles[] = {NULL,
				  (DAT_HANDLE)0x1,
				  (DAT_HANDLE)0x40,
				  (DAT_HANDLE)(uintptr_t)-1,
				  somewhere,
				  (DAT_HANDLE)(uintptr_t)0x7fffffffff00};
const size_t num_not_handles = sizeof(not_handles) / sizeof(not_handles[0]);

void
check_ret(DAT_RETURN got, DAT_RETURN expected, const char *call, const char *file, int line)
{
	const char *major, *minor, *wanted, *wanted_minor;

	if (got == expected)
		return;
	dat_strerror(got, &major, &minor);
	dat_strerror(expected, &wanted, &wanted_minor);
	print_error("%s: %#x %s %s instead of %#x %s %s\n", call, got, major, minor, expected, wanted,
		    wanted_minor);
	_fail(file, line);
}

int
fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->mock = mock_start();
	f->async = DAT_HANDLE_NULL;
	assert_ok(dat_ia_open((char *)(uintptr_t) "oneside", 8, &f->async, &f->ia));
	assert_ok(dat_pz_create(f->ia, &f->pz));
	assert_ok(dat_evd_create(f->ia, 10, DAT_HANDLE_NULL,
				 (DAT_EVD_FLAGS)(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG), &f->dto));
	assert_ok(dat_evd_create(f->ia, 10, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &f->recv));
	assert_ok(dat_evd_create(f->ia, 10, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &f->conn));
	assert_ok(dat_evd_create(f->ia, 10, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &f->cr));
	*state = f;
	return 0;
}

int
fixture_teardown(void **state)
{
	struct fixture *f = *state;

	if (f->ia != DAT_HANDLE_NULL)
		assert_ok(dat_ia_close(f->ia, DAT_CLOSE_ABRUPT_FLAG));
	while (mock_attached(f->mock) > 0) {
		struct timespec moment = {.tv_nsec = 1000000};

		nanosleep(&moment, NULL);
	}
	mock_stop(f->mock);
	free(f);
	return 0;
}

void
default_attr(DAT_EP_ATTR *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->max_recv_dtos = 8;
	attr->max_request_dtos = 8;
	attr->max_recv_iov = 4;
	attr->max_request_iov = 4;
	attr->max_rdma_read_in = 4;
	attr->max_rdma_read_out = 4;
}

DAT_EP_HANDLE
make_ep(struct fixture *f, uint32_t *qp)
{
	DAT_EP_HANDLE ep;

	assert_ok(dat_ep_create(f->ia, f->pz, f->recv, f->dto, f->conn, NULL, &ep));
	if (qp != NULL)
		*qp = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	return ep;
}

void
connect_to(DAT_EP_HANDLE ep, DAT_CONN_QUAL qual)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};

	sin.sin_addr.s_addr = htonl(0xc0000202);
	assert_ok(dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&sin, qual, 1000000, 0, NULL, DAT_QOS_BEST_EFFORT,
				 DAT_CONNECT_DEFAULT_FLAG));
}

DAT_EP_HANDLE
connected_ep(struct fixture *f, uint32_t *qp)
{
	DAT_EP_HANDLE ep = make_ep(f, qp);

	connect_to(ep, 45248);
	mock_connected(f->mock, *qp, NULL, 0);
	expect_event(f->conn, DAT_CONNECTION_EVENT_ESTABLISHED);
	return ep;
}

DAT_EP_STATE
state_of(DAT_EP_HANDLE ep)
{
	DAT_EP_STATE state;

	assert_ok(dat_ep_get_status(ep, &state, NULL, NULL));
	return state;
}

void
expect_untouched(DAT_EP_HANDLE ep)
{
	DAT_EP_PARAM param;

	assert_ok(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
	assert_int_equal(param.ep_state, DAT_EP_STATE_UNCONNECTED);
	assert_int_equal(param.remote_ia_address_ptr->sa_family, 0);
	assert_int_equal(param.remote_port_qual, 0);
}

DAT_EVENT
take(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;

	memset(&event, 0, sizeof(event));
	assert_ok(dat_evd_dequeue(evd, &event));
	assert_ptr_equal(event.evd_handle, evd);
	return event;
}

void
expect_empty(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;

	assert_ret(dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY);
}

DAT_EVENT
expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number)
{
	DAT_EVENT event;
	DAT_COUNT nmore;

	memset(&event, 0, sizeof(event));
	assert_ok(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &nmore));
	assert_int_equal(event.event_number, number);
	assert_ptr_equal(event.evd_handle, evd);
	return event;
}

static uint32_t
send_cq(struct fixture *f)
{
	struct one_msg create;

	assert_true(mock_last(f->mock, ONE_MSG_QP_CREATE, &create));
	return create.qp_create.send_cq;
}

static struct one_cqe
sent(uint32_t qp, uint64_t cookie, uint8_t flags)
{
	return (struct one_cqe){
		.type = ONE_CQE_SEND,
		.op = ONE_OP_SEND,
		.object = qp,
		.cookie = cookie,
		.length = 7,
		.flags = (flags & ONE_WQE_UNSIGNALED) != 0 ? 0 : ONE_CQE_NOTIFY,
	};
}

void
complete(struct fixture *f, uint32_t qp, uint64_t cookie, uint8_t flags)
{
	struct one_cqe cqe = sent(qp, cookie, flags);

	assert_true(mock_cqe(f->mock, send_cq(f), &cqe));
}

uint32_t
complete_early(struct fixture *f, uint32_t qp, uint64_t cookie)
{
	struct one_cqe cqe = sent(qp, cookie, 0);
	uint32_t cq = send_cq(f);

	assert_true(mock_cqe_early(f->mock, cq, &cqe));
	return cq;
}

void
post_software(DAT_EVD_HANDLE evd, uintptr_t value)
{
	DAT_EVENT event = {.event_number = DAT_SOFTWARE_EVENT};

	event.event_data.software_event_data.pointer = (DAT_PVOID)value;
	assert_ok(dat_evd_post_se(evd, &event));
}

uint64_t
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An rdma_cm program on a hostile data plane: reports of connections, requests and questions, in any order or
 * for ids without any; malformed replies, and anything in the arena; devices that go. Results may be
 * nonsense, but the program's memory stays intact, and no id is left.
 *
 * The library's thread that reads the rings of devices is not started: the target runs its steps, so that
 * equal inputs do the same.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "liar.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"

#define IDS 6u
#define LOST_MAX 32u
#define PORT 7174u

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id[IDS];
static struct device *lost[LOST_MAX];
static uint32_t num_lost;
static bool looked; /* by a call that waits for events */

/* ---- devices and their reader ---- */

int __wrap_reader_start(void (*take)(void));
void __real_devices_leave(struct device *device);
void __wrap_devices_leave(struct device *device);

int
__wrap_reader_start(void (*take)(void))
{
	(void)take;
	return 0;
}

void
__wrap_devices_leave(struct device *device)
{
	__real_devices_leave(device);
	if (num_lost == LOST_MAX)
		fuzz_fail("a device is lost again and again");
	lost[num_lost++] = device;
}

static void
read_rings(void)
{
	pthread_mutex_lock(&cma_lock);
	ids_drain();
	pthread_mutex_unlock(&cma_lock);
}

/* Lets a waiting call look for events, every second time. */
static bool
on_wait(void)
{
	if (pthread_mutex_trylock(&cma_lock) != 0)
		return false;
	ids_drain();
	pthread_mutex_unlock(&cma_lock);
	looked = !looked;
	return looked;
}

/* Closes devices, which the library keeps for the life of the process. */
static void
devices_close(void)
{
	pthread_mutex_lock(&cma_lock);
	while (devices != NULL)
		__wrap_devices_leave(devices);
	pthread_mutex_unlock(&cma_lock);
	while (num_lost > 0) {
		struct device *device = lost[--num_lost];

		if (device->pd != NULL && ibv_dealloc_pd(device->pd) != 0)
			fuzz_fail("a protection domain stays");
		one_cq_free(&device->cm.ring);
		close(device->cm.fd);
		ibv_close_device(device->verbs);
		free(device);
	}
}

/* ---- ids ---- */

static struct rdma_cm_id **
slot(struct bytes *record)
{
	return &id[record_number(record, 1) % IDS];
}

/* Opens a channel that does not block. */
static void
open_channel(void)
{
	channel = rdma_create_event_channel();
	if (channel != NULL)
		fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
}

/* Acknowledges the read request events of a listener, so that destroying the listener does not block. */
static void
acknowledge_for(const struct rdma_cm_id *listen)
{
	for (uint32_t i = 0; i < IDS; i++) {
		if (id[i] == NULL || id[i]->event == NULL || id[i]->event->listen_id != listen)
			continue;
		rdma_ack_cm_event(id[i]->event);
		id[i]->event = NULL;
	}
}

static void
destroy(struct rdma_cm_id **at)
{
	if (*at == NULL)
		return;
	acknowledge_for(*at);
	rdma_destroy_ep(*at);
	*at = NULL;
}

static void
create(struct bytes *record)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_TCP, RDMA_PS_IB};
	struct rdma_cm_id **at = slot(record);
	uint8_t how = (uint8_t)record_number(record, 1);

	destroy(at);
	if ((how & 0x80) == 0 && channel == NULL)
		return;
	if (rdma_create_id((how & 0x80) != 0 ? NULL : channel, at, NULL, spaces[how % 4]) != 0)
		*at = NULL;
}

static struct sockaddr_in
address(uint8_t which)
{
	static const uint32_t hosts[] = {0xc0000201, 0xc0000202, INADDR_ANY, INADDR_LOOPBACK};

	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((which & 0x10) != 0 ? 0 : PORT),
				    .sin_addr = {htonl(hosts[which % 4])}};
}

static void
address_of(struct bytes *record)
{
	struct rdma_cm_id *of = *slot(record);
	uint8_t what = (uint8_t)record_number(record, 1);
	struct sockaddr_in here = address(what), there = address((uint8_t)record_number(record, 1));

	if (of == NULL)
		return;
	if (what >= 0xc0)
		rdma_resolve_route(of, 1000);
	else if (what >= 0x80)
		rdma_bind_addr(of, (struct sockaddr *)(void *)&here);
	else
		rdma_resolve_addr(of, what >= 0x40 ? (struct sockaddr *)(void *)&here : NULL,
				  (struct sockaddr *)(void *)&there, 1000);
}

/* ---- queue pairs ---- */

static void
create_qp(struct rdma_cm_id *of, uint8_t how)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2},
		.qp_type = of->qp_type};

	if ((how & 1) != 0 && of->srq == NULL) {
		struct ibv_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 2}};

		rdma_create_srq(of, NULL, &srq);
	}
	rdma_create_qp(of, NULL, &attr);
}

/* Transitions that the application makes itself. */
static void
ask_attributes(struct rdma_cm_id *of, uint8_t state)
{
	struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)(1 + state % 3)};
	int mask;

	if (rdma_init_qp_attr(of, &attr, &mask) == 0 && of->qp != NULL)
		ibv_modify_qp(of->qp, &attr, mask);
}

static void
queue_pair(struct bytes *record)
{
	struct rdma_cm_id *of = *slot(record);
	uint8_t what = (uint8_t)record_number(record, 1), how = (uint8_t)record_number(record, 1);

	if (of == NULL)
		return;
	if (what % 4 < 2)
		create_qp(of, how);
	else if (what % 4 == 2 && of->qp != NULL)
		rdma_destroy_qp(of);
	else if (what % 4 == 3)
		ask_attributes(of, how);
}

/* ---- connections ---- */

static void
get_request(struct rdma_cm_id *listen, struct rdma_cm_id **at)
{
	destroy(at);
	if (rdma_get_request(listen, at) != 0)
		*at = NULL;
}

/* Refuses requests that a call on a listener received while it waited for another event. */
static void
refuse_misplaced(void)
{
	for (uint32_t i = 0; i < IDS; i++) {
		struct rdma_cm_event *event = id[i] != NULL ? id[i]->event : NULL;
		struct rdma_cm_id *requested;

		if (event == NULL || event->listen_id != id[i])
			continue;
		requested = event->id;
		rdma_ack_cm_event(event);
		id[i]->event = NULL;
		rdma_destroy_id(requested);
	}
}

static void
connections(struct bytes *record)
{
	struct rdma_cm_id **at = slot(record), *of = *at;
	uint8_t what = (uint8_t)record_number(record, 1), other = (uint8_t)record_number(record, 1);
	uint8_t data[8] = {1, 2, 3};
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = other % 9,
					.responder_resources = other >> 4,
					.initiator_depth = 4,
					.retry_count = 7,
					.rnr_retry_count = 7};

	if (of == NULL)
		return;
	switch (what % 9) {
	case 0:
		rdma_connect(of, (what & 0x80) != 0 ? NULL : &param);
		break;
	case 1:
		rdma_accept(of, (what & 0x80) != 0 ? NULL : &param);
		break;
	case 2:
		rdma_reject(of, data, other % 9);
		break;
	case 3:
		rdma_disconnect(of);
		break;
	case 4:
		rdma_listen(of, other % 4);
		break;
	case 5:
		rdma_notify(of, IBV_EVENT_COMM_EST);
		rdma_establish(of);
		break;
	case 6:
		if (&id[other % IDS] != at)
			get_request(of, &id[other % IDS]);
		break;
	case 7:
		acknowledge_for(of);
		rdma_migrate_id(of, (what & 0x80) != 0 ? NULL : channel);
		break;
	default:
		destroy(at);
		break;
	}
}

/* ---- events ---- */

static volatile uint8_t looked_at;

static void
look_at(const struct rdma_cm_event *event)
{
	bool ud = event->id->ps == RDMA_PS_UDP;
	const uint8_t *data = ud ? event->param.ud.private_data : event->param.conn.private_data;
	uint8_t len = ud ? event->param.ud.private_data_len : event->param.conn.private_data_len;

	rdma_event_str(event->event);
	for (uint8_t i = 0; i < len; i++)
		looked_at ^= data[i];
	if (ud && event->event == RDMA_CM_EVENT_ESTABLISHED && event->id->pd != NULL) {
		struct ibv_ah_attr attr = event->param.ud.ah_attr;
		struct ibv_ah *ah = ibv_create_ah(event->id->pd, &attr);

		if (ah != NULL)
			ibv_destroy_ah(ah);
	}
}

/* Reads the channel's next event; stores the id of a request, or destroys the id. */
static void
get_event(struct bytes *record)
{
	struct rdma_cm_id **at = slot(record), *requested = NULL;
	struct rdma_cm_event *event;

	if (channel == NULL || rdma_get_cm_event(channel, &event) != 0)
		return;
	look_at(event);
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		requested = event->id;
	rdma_ack_cm_event(event);
	if (requested != NULL && *at == NULL)
		*at = requested;
	else if (requested != NULL)
		rdma_destroy_id(requested);
}

/* ---- reports of the data plane ---- */

/* Stores `what` in an unused place of the arena. */
static uint64_t
reported_at(const void *what, size_t size)
{
	uint64_t at = LIAR_ARENA / 2;

	memcpy(liar.arena + at, what, size);
	return at;
}

/* Stores an entry in the ring that the library reads for the id's device. */
static void
report(const struct rdma_cm_id *of, struct one_cqe *cqe)
{
	const struct device *device = ((const struct id *)(const void *)of)->device;

	device = device != NULL ? device : devices;
	for (uint32_t i = 0; device != NULL && i < LIAR_RINGS; i++)
		if (liar.ring[i].shm != NULL && liar.ring[i].id == device->cm.ring.id)
			liar_store(&liar.ring[i], cqe);
}

static void
event_connection(struct bytes *record)
{
	struct id *of = TO_ID(*slot(record));
	struct one_cqe cqe = {.type = ONE_CQE_CONNECT};
	uint8_t which;

	if (of == NULL)
		return;
	cqe.status = (uint8_t)record_number(record, 1) % 12;
	which = (uint8_t)record_number(record, 1);
	cqe.object = which < 0xf0 ? (of->qp != 0 ? of->qp : of->timewait) : which;
	for (uint32_t i = 0; i < LIAR_QPS; i++) {
		struct one_qp_shm *shm = liar.qp_shm[i];

		if (shm == NULL || liar.qp[i] != cqe.object)
			continue;
		shm->private_len = (uint16_t)record_number(record, 2);
		shm->remote_qpn = (uint32_t)record_number(record, 3);
		shm->rd_atomic_in = (uint32_t)record_number(record, 2);
		shm->rd_atomic_out = (uint32_t)record_number(record, 2);
	}
	report(&of->base, &cqe);
}

static uint32_t
listener_of(const struct rdma_cm_id *of)
{
	const struct listening *listening = ((const struct id *)(const void *)of)->listening;

	return listening != NULL ? listening->listener : liar.listener;
}

/* Reports a peer's request to connect. */
static void
event_request(struct bytes *record)
{
	struct rdma_cm_id *of = *slot(record);
	struct one_cqe cqe = {.type = ONE_CQE_REQUEST};
	struct one_cr_shm shm = {.family = AF_INET, .conn_qual = PORT, .remote_port = 4321};
	uint8_t here = (uint8_t)record_number(record, 1);

	if (of == NULL)
		return;
	shm.cr = (uint32_t)record_number(record, 1);
	shm.private_len = (uint16_t)record_number(record, 2);
	shm.rd_atomic_in = (uint32_t)record_number(record, 1);
	shm.rd_atomic_out = (uint32_t)record_number(record, 1);
	shm.remote_qpn = (uint32_t)record_number(record, 3);
	memcpy(shm.remote_addr, (const uint8_t[]){192, 0, 2, here % 3}, 4);
	if (here >= 0xf0)
		record_fill(record, (uint8_t *)&shm + record_number(record, 1) % 32, 32);
	cqe.object = listener_of(of);
	cqe.cookie = here == 0xef ? record_number(record, 8) : reported_at(&shm, sizeof(shm));
	report(of, &cqe);
}

/* Reports a peer's SIDR question, or the answer to our own. */
static void
event_sidr(struct bytes *record)
{
	struct id *of = TO_ID(*slot(record));
	struct one_cqe cqe = {.type = ONE_CQE_SIDR_REQUEST};
	struct one_sidr_shm shm = {.family = AF_INET, .service = PORT, .remote_port = 4321};
	uint8_t how = (uint8_t)record_number(record, 1);

	if (of == NULL)
		return;
	shm.id = (uint32_t)record_number(record, 1);
	shm.private_len = (uint16_t)record_number(record, 2);
	shm.qpn = (uint32_t)record_number(record, 3);
	shm.qkey = (uint32_t)record_number(record, 4);
	memcpy(shm.remote_addr, (const uint8_t[]){192, 0, 2, how % 3}, 4);
	if ((how & 0x40) != 0)
		record_fill(record, (uint8_t *)&shm + record_number(record, 1) % 32, 32);
	cqe.object = listener_of(&of->base);
	if ((how & 0x80) != 0) {
		cqe.type = ONE_CQE_SIDR;
		cqe.object = of->sidr;
		cqe.status = (uint8_t)record_number(record, 1);
	}
	cqe.cookie = reported_at(&shm, sizeof(shm));
	report(&of->base, &cqe);
}

/* ---- the target ---- */

static void
others(struct bytes *record)
{
	struct rdma_cm_id **at = slot(record);
	uint8_t what = (uint8_t)record_number(record, 1);
	struct ibv_context **list;
	int num;

	switch (what % 5) {
	case 0:
	case 1:
		read_rings();
		break;
	case 2:
		liar_hang_up(what >> 4);
		break;
	case 3:
		list = rdma_get_devices(&num);
		rdma_free_devices(list);
		break;
	default:
		destroy(at);
		break;
	}
}

static void
tear_down(void)
{
	struct bytes none = {NULL, 0};

	liar_lie(&none);
	for (uint32_t i = 0; i < IDS; i++)
		destroy(&id[i]);
	if (channel != NULL)
		rdma_destroy_event_channel(channel);
	channel = NULL;
	if (ids != NULL)
		fuzz_fail("an id stays");
	devices_close();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static liar_kind *const kinds[] = {
		liar_complete, liar_progress, liar_poke,   liar_lie,         create,      address_of,
		address_of,    queue_pair,    connections, connections,      connections, get_event,
		get_event,     event_request, event_sidr,  event_connection, others};
	struct bytes input = {data, size};

	liar_begin();
	liar.waits = on_wait;
	/* rdma_destroy_qp() returns no error, so that a refusal could not be tried again. */
	liar.frees = true;
	looked = false;
	liar_start(&input);
	open_channel();
	while (liar_step(&input, kinds, sizeof(kinds) / sizeof(kinds[0])))
		refuse_misplaced();
	liar_be_patient();
	tear_down();
	liar_end();
	return 0;
}

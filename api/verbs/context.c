/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes contexts, and fills their call tables. */
#include <stdlib.h>
#include <sys/eventfd.h>

#include "client/explain.h"
#include "verbs/refused.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/context.h"
#include "verbs/mem.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

static void
set_calls(struct context *context)
{
	struct verbs_context *verbs = &context->verbs;

	verbs->sz = sizeof(*verbs);
	verbs->query_port = device_query_port;
	verbs->query_device_ex = device_query_ex;
	verbs->query_rt_values = device_query_rt_values;
	verbs->create_cq_ex = cq_create_ex;
	verbs->create_qp_ex = qp_create_ex;
	domain_calls(verbs);
	verbs->context.ops.alloc_mw = mw_alloc;
	verbs->context.ops.bind_mw = bind_mw;
	verbs->context.ops.dealloc_mw = mw_dealloc;
	verbs->context.ops.poll_cq = cq_poll;
	verbs->context.ops.req_notify_cq = cq_req_notify;
	verbs->context.ops.post_send = post_send;
	verbs->context.ops.post_recv = post_recv;
	verbs->context.ops.post_srq_recv = srq_post_recv;
}

static void
context_free(struct context *context)
{
	pthread_mutex_destroy(&context->lock);
	pthread_mutex_destroy(&context->verbs.context.mutex);
	free(context);
}

static int
num_vectors(const struct one_welcome *info)
{
	uint32_t vectors = info->limits.vectors;

	return vectors == 0 ? 1 : (int)(vectors < ONE_LANES_MAX ? vectors : ONE_LANES_MAX);
}

struct ibv_context *
ibv_open_device(struct ibv_device *base)
{
	struct one_attach attach = {.kind = ONE_KIND_VERBS, .restarts = true, .lost = events_lost};
	struct context *context = calloc(1, sizeof(*context));
	int error;

	if (context == NULL)
		return refused_null("ibv_open_device", ENOMEM, "device", base);
	context->device = TO(device, base);
	context->verbs.context.device = base;
	context->verbs.context.async_fd = -1;
	context->verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&context->verbs.context.mutex, NULL);
	pthread_mutex_init(&context->lock, NULL);
	context->async_socket = -1;
	/* Created before attaching: events_lost() writes to async_event from the watcher thread. */
	context->async_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	attach.port = base->name;
	attach.user = context;
	error = context->async_event < 0 ? -errno : verbs_watch_forks();
	if (error == 0)
		error = one_attach(&attach, &context->client);
	if (error == 0) {
		context->info = one_client_info(context->client);
		context->verbs.context.num_comp_vectors = num_vectors(context->info);
		error = device_read_addrs(context);
		if (error == 0)
			error = events_open(context);
		if (error != 0)
			one_detach(context->client);
	}
	if (error != 0) {
		events_close(context);
		context_free(context);
		refused_because(-error, "device = \"%s\": no attachment to the data plane at %s: %s; %s",
				base->name, one_socket_path(NULL), one_attach_reason(error),
				one_attach_remedy(error));
		return refused_null("ibv_open_device", -error, "device", base);
	}
	/* Programs expect a valid cmd_fd; no command uses it. */
	context->verbs.context.cmd_fd = context->verbs.context.async_fd;
	set_calls(context);
	verbs_fork_add(context);
	return &context->verbs.context;
}

int
ibv_close_device(struct ibv_context *base)
{
	struct context *context = context_of(base);

	verbs_fork_remove(context);
	one_cq_forget(&context->async_cq);
	one_detach(context->client);
	events_close(context);
	context_free(context);
	return 0;
}

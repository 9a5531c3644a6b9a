/* SPDX-License-Identifier: BSD-3-Clause */
/* Attachments. The controller and every segment made with it hold a reference to one attachment, which ends
 * with the last of them. When the data plane ends, the controller gets a new attachment. Segments of the old
 * one detect the loss by rsm_link_lost(). */
#include "client/wait.h"
#include "rsm/link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define STAGE_SIZE (512u * 1024u)
#define STAGE_SIZE_MIN (128u * 1024u) /* chunks of transfer.c fit, also when the end is skipped */

int
rsm_error(int error)
{
	if (error >= 0)
		return error;
	switch (-error) {
	case ENOMEM:
		return RSMERR_INSUFFICIENT_MEM;
	case EDQUOT:
	case ENOSPC:
	case EMFILE:
	case ENFILE:
	case EAGAIN:
		return RSMERR_INSUFFICIENT_RESOURCES;
	case ECONNRESET:
	case ECONNREFUSED:
	case ENOENT:
	case ENODEV:
	case EPIPE:
	case ECHILD:
		return RSMERR_CTLR_NOT_PRESENT;
	case EFAULT:
	case EOPNOTSUPP: /* memory that cannot be registered */
		return RSMERR_BAD_ADDR;
	case EACCES:
	case EPERM:
		return RSMERR_PERM_DENIED;
	case EEXIST:
	case EADDRINUSE:
		return RSMERR_SEGID_IN_USE;
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ETIMEDOUT:
		return RSMERR_REMOTE_NODE_UNREACHABLE;
	case EINTR:
		return RSMERR_INTERRUPTED;
	default:
		return RSMERR_INTERNAL_ERROR;
	}
}

int
rsm_copy_in(void *dst, const void *src, size_t len)
{
	struct iovec to = {.iov_base = dst, .iov_len = len};
	struct iovec from = {.iov_base = (void *)(uintptr_t)src, .iov_len = len};
	ssize_t n;

	if (len == 0)
		return 0;
	n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	if (n == (ssize_t)len)
		return 0;
	if (n >= 0 || errno == EFAULT)
		return -EFAULT;
	memcpy(dst, src, len); /* the sandbox forbids the call: the pointer cannot be checked */
	return 0;
}

size_t
rsm_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Runs on the watcher's thread. */
static void
lost(void *user)
{
	struct rsm_link *link = user;
	/* Pairs with the release store in bind_memory() of export.c. */
	void (*hook)(const struct rsm_link *) = atomic_load_explicit(&link->lost, memory_order_acquire);

	if (hook != NULL)
		hook(link);
}

int
rsm_link_open(const char *port, bool loopback, struct rsm_link **out)
{
	struct rsm_link *link = calloc(1, sizeof(*link));
	struct one_attach attach = {.port = port, .kind = ONE_KIND_RSM, .lost = lost, .user = link};
	struct one_msg msg = {.type = ONE_MSG_PZ_CREATE};
	struct one_reply reply;
	int error;

	if (link == NULL)
		return -ENOMEM;
	error = one_attach(&attach, &link->client);
	if (error == 0) {
		error = one_call(link->client, &msg, NULL, 0, &reply);
		if (error == 0)
			error = one_channel_alloc(link->client, &link->channel);
		if (error != 0)
			one_detach(link->client);
	}
	if (error != 0) {
		free(link);
		return error;
	}
	link->pz = reply.id.id;
	link->process = rsm_this_process();
	link->loopback = loopback;
	atomic_init(&link->refs, 1); /* the link is published under its controller's lock */
	pthread_mutex_init(&link->lock, NULL);
	*out = link;
	return 0;
}

struct rsm_link *
rsm_link_get(struct rsm_link *link)
{
	/* Relaxed: the caller's own reference keeps the link alive. */
	atomic_fetch_add_explicit(&link->refs, 1, memory_order_relaxed);
	return link;
}

void
rsm_link_put(struct rsm_link *link)
{
	struct rsm_stage *stage;

	if (link == NULL || link->process != rsm_this_process())
		return; /* the attachment is the parent's, and this process has only a copy of the struct */
	/* Pairs with itself: the last holder sees all accesses of the others to the attachment. */
	if (atomic_fetch_sub_explicit(&link->refs, 1, memory_order_acq_rel) != 1)
		return;
	one_detach(link->client);
	while ((stage = link->stages) != NULL) {
		link->stages = stage->next;
		free(stage);
	}
	free(link->ranges);
	pthread_mutex_destroy(&link->lock);
	free(link);
}

bool
rsm_link_lost(const struct rsm_link *link)
{
	return one_client_dead(link->client);
}

/* Staging memory lasts as long as the attachment, so imports reuse each other's rings. */
struct rsm_stage *
rsm_stage_get(struct rsm_link *link)
{
	struct rsm_stage *stage;
	struct one_reply reply;
	int error = -ENOMEM;
	uint8_t *memory;

	pthread_mutex_lock(&link->lock);
	stage = link->stages;
	if (stage != NULL)
		link->stages = stage->next;
	pthread_mutex_unlock(&link->lock);
	if (stage != NULL)
		return stage;

	for (uint64_t size = STAGE_SIZE; size >= STAGE_SIZE_MIN; size /= 2) {
		struct one_msg msg = {.type = ONE_MSG_STAGING};

		msg.staging.size = size;
		msg.staging.pz = link->pz;
		error = one_call(link->client, &msg, NULL, 0, &reply);
		if (error != -EDQUOT && error != -ENOMEM && error != -ENOSPC)
			break;
	}
	if (error != 0)
		return NULL;
	/* Distrust the reply: reject a span outside the arena, or too small for a chunk. */
	memory = one_client_span(link->client, reply.staged.offset, reply.staged.size);
	if (memory == NULL || reply.staged.size < STAGE_SIZE_MIN)
		return NULL;
	stage = calloc(1, sizeof(*stage));
	if (stage == NULL)
		return NULL;
	stage->offset = reply.staged.offset;
	stage->size = reply.staged.size;
	stage->lkey = reply.staged.lkey;
	stage->memory = memory;
	return stage;
}

void
rsm_stage_put(struct rsm_link *link, struct rsm_stage *stage)
{
	if (stage == NULL)
		return;
	pthread_mutex_lock(&link->lock);
	stage->next = link->stages;
	link->stages = stage;
	pthread_mutex_unlock(&link->lock);
}

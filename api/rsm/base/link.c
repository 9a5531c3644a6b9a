/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attachments.  A controller has one; every segment made with it holds a reference, so that an attachment
 * ends when the last of them is gone.  When the data plane goes away, the controller gets a new attachment,
 * and what was made with the old one finds out by rsm_link_lost().
 */
#include "client/wait.h"
#include "rsm/base/link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define STAGE_SIZE (512u * 1024u)
#define STAGE_SIZE_MIN (128u * 1024u) /* room for the chunks of transfer.c, at the ring's end too */

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
	case EOPNOTSUPP: /* memory of an unsuitable kind */
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
	memcpy(dst, src, len); /* a sandbox without that call: trust the pointer */
	return 0;
}

size_t
rsm_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* On the watcher's thread. */
static void
lost(void *user)
{
	struct rsm_link *link = user;
	/* Pairs with the release store in bind() of export.c, and that in pollfd.c. */
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
	atomic_init(&link->refs, 1); /* published with the link, under its controller's lock */
	pthread_mutex_init(&link->lock, NULL);
	*out = link;
	return 0;
}

struct rsm_link *
rsm_link_get(struct rsm_link *link)
{
	/* The caller has a reference, so this one ends after it: nothing to order. */
	atomic_fetch_add_explicit(&link->refs, 1, memory_order_relaxed);
	return link;
}

void
rsm_link_put(struct rsm_link *link)
{
	struct rsm_stage *stage;

	if (link == NULL || link->process != rsm_this_process())
		return; /* the parent's attachment: this process only has a copy of the books */
	/* Pairs with itself: the last holder sees what the others did with the attachment. */
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

/* The data plane gives staging memory for the life of the attachment, so rings go from import to import. */
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
	/* What has no room for a chunk, or is not ours, is none. */
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

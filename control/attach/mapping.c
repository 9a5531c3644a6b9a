/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of applications, mapped here: charges, holes, unmapping.
 *
 * The application populates the pages, and its cgroup is charged for them.  Each mapping is registered with a
 * userfaultfd that answers missing pages with SIGBUS.  So an access to a hole of the file, even one punched
 * later, faults instead of allocating a page, which would be charged to this process.  Populating reports a
 * hole as -EFAULT; on a core the guard's handler takes the signal (dataplane/mem/guard.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/attach/reaper.h"
#include "control/attach/mapping.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
/* Unit of populate and unmap work: bounds how long mmap_lock blocks other threads. */
#define STEP (2ull << 20)
/* While one thread populates, a thread that waits for mmap_lock to write waits for up to 4 ms, although the
 * lock is released after each step; and page faults of cores wait behind that thread. */
#define GENTLE_STEP (256ull << 10)
#define GENTLE_PAUSE_US 50u

static int uffd = -1;

static uint64_t
page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- holes ---- */

static int
uffd_open(void)
{
	struct uffdio_api api = {.api = UFFD_API,
				 .features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM |
					     UFFD_FEATURE_MISSING_HUGETLBFS};
	/* An unprivileged process may only handle faults of user mode.  Faults of the kernel fail in any
	 * case. */
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY), error;

	if (fd < 0 && errno == EINVAL) /* kernels before 5.11 */
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, UFFDIO_API, &api) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

void
mappings_init(void)
{
	uffd = uffd_open();
	if (uffd < 0)
		log_warning(
			"event=userfaultfd_missing error=\"%s\" text=\"an application can make this process allocate the pages that its files lack, as many as max_bytes_per_uid allows\" remedy=\"allow the system call\"\n",
			strerror(-uffd));
}

void
mappings_fini(void)
{
	if (uffd >= 0)
		close(uffd);
	uffd = -1;
}

int
mapping_refuse_holes(uint8_t *base, uint64_t len)
{
	struct uffdio_register range = {.range = {.start = (uint64_t)(uintptr_t)base, .len = len},
					.mode = UFFDIO_REGISTER_MODE_MISSING};

	madvise(base, len, MADV_DONTDUMP);
	return uffd < 0 || ioctl(uffd, UFFDIO_REGISTER, &range) == 0 ? 0 : -errno;
}

/* ---- making ---- */

/* Returns the bytes of page tables for a mapping, which are this process's own: a page for each span of
 * addresses, however little of the span is mapped. */
static uint64_t
tables_for(uint64_t len)
{
	uint64_t page = page_size(), span = page / sizeof(uint64_t) * page;

	return (len / span + (len % span != 0)) * page;
}

struct mapping *
mapping_of_arena(struct client *client)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));

	if (mapping == NULL)
		return NULL;
	mapping->job.client = client;
	mapping->fd = -1;
	return mapping;
}

/* Memory of the user that is being released still counts: wait for it, else refuse. */
static int
refuse_over(struct client *client, const struct quota_limit *limit)
{
	return client_awaits_room(client) ? REQUEST_AGAIN : client_refuse_limit(client, limit);
}

int
mapping_new(struct client *client, uint64_t len, uint32_t count, struct mapping **out)
{
	struct quota_limit limit = {control.config->limits.max_mr_total, "max_mr_total"};
	uint64_t all = len + tables_for(len), none = 0;
	struct quota_account *account = client->account;
	struct mapping *mapping;

	if (len > limit.value)
		return client_refuse_limit(client, &limit);
	if (client->mapped > limit.value - len)
		return refuse_over(client, &limit);
	if (quota_charge(&control.quota, account, &none, UINT64_MAX, all, &limit) != 0)
		return refuse_over(client, &limit);
	if (quota_take(&control.quota, account, QUOTA_MAPPINGS, count, &limit) != 0) {
		quota_release(account, &none, all);
		return refuse_over(client, &limit);
	}
	mapping = mapping_of_arena(client);
	if (mapping == NULL) {
		quota_give(&control.quota, account, QUOTA_MAPPINGS, count);
		quota_release(account, &none, all);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	mapping->len = mapping->counted = len;
	mapping->charged = all;
	account->own += all - len; /* page tables */
	mapping->count = count;
	client->mapped += len;
	*out = mapping;
	return 0;
}

int
mapping_watch(struct mapping *mapping)
{
	int guard = engine_guard_add(mapping->base, mapping->len, mapping->job.client);

	mapping->guard = guard > 0 ? guard : 0;
	return guard < 0 ? guard : 0;
}

int
mapping_guard(struct mapping *mapping)
{
	int error = mapping_refuse_holes(mapping->base, mapping->len);

	return error == 0 ? mapping_watch(mapping) : error;
}

/* An attachment may have an eighth of the descriptors kept for importers.  Memory beyond that can be
 * imported, but not mapped. */
bool
mapping_store_fd(struct mapping *mapping, int fd)
{
	struct client *client = mapping->job.client;
	struct quota_limit limit;

	if (client->importer_fds >= control.quota.max_common[QUOTA_MAPPABLE] / 8 ||
	    quota_take(&control.quota, client->account, QUOTA_MAPPABLE, 1, &limit) != 0)
		return false;
	client->importer_fds++;
	mapping->fd = fd;
	return true;
}

/* ---- populating ---- */

int
mapping_populate_step(struct job *job)
{
	struct populate *populate = (struct populate *)job;
	uint64_t len = populate->by_page ? page_size() : populate->gently ? GENTLE_STEP : STEP;
	uint8_t *at = populate->base + populate->done;
	int error = 0;

	if (populate->gently)
		usleep(GENTLE_PAUSE_US);
	if (len > populate->len - populate->done)
		len = populate->len - populate->done;
	/* Reading maps all pages of the file around a fault; writing maps one page.  The files of regions are
	 * on tmpfs or hugetlbfs (region_check()), which write nothing back, so pages mapped by reading are
	 * writable.  Kernels before 5.14 lack MADV_POPULATE_READ; there arena_populate() finds what is
	 * missing. */
	if (madvise(at, len, MADV_POPULATE_READ) != 0)
		error = arena_populate(at, len);
	if (error == -EFAULT && !populate->by_page) {
		populate->by_page = true; /* find the page that is missing */
		return 1;
	}
	if (error != 0)
		return error;
	populate->done += len;
	return populate->done < populate->len;
}

/* ---- the end ---- */

static int
unmap_step(struct job *job)
{
	struct mapping *mapping = (struct mapping *)job;
	uintptr_t base = (uintptr_t)mapping->base, end = base + mapping->len, from = (end - 1) & ~(STEP - 1);
	/* Step boundaries are multiples of STEP, so that no step splits a huge page of that size. */
	uint64_t len = from > base ? end - from : mapping->len;

	if (mapping->empty != 0)
		len = mapping->empty;
	mapping->empty = 0;
	/* Unmap from the end, so that no step splits the mapping in two.  Hugetlbfs refuses to unmap part of
	 * a page; such memory is unmapped at once, which is quick. */
	if (mapping->len > 0 && munmap(mapping->base + mapping->len - len, len) == 0) {
		mapping->len -= len;
		if (mapping->len > 0)
			return 1;
	} else if (mapping->len > 0) {
		munmap(mapping->base, mapping->len);
	}
	if (mapping->fd >= 0)
		close(mapping->fd);
	return 0;
}

static void
mapping_unmapped(struct job *job, int result)
{
	struct mapping *mapping = (struct mapping *)job;
	struct client *client = job->client;
	struct quota_account *account = client->account;

	client->mapped -= mapping->counted;
	account->bytes -= mapping->counted;
	quota_release_own(account, mapping->charged - mapping->counted);
	quota_give(&control.quota, account, QUOTA_MAPPINGS, mapping->count);
	account->leaving--;
	account->left++;
	engine_guard_unmapped(mapping->pieces);
	if (mapping->fd >= 0) {
		client->importer_fds--;
		quota_give(&control.quota, account, QUOTA_MAPPABLE, 1);
	}
	if (mapping->reply)
		client_reply(client, 0);
	free(mapping);
}

void
mapping_free(struct mapping *mapping, bool reply)
{
	if (mapping->guard != 0)
		mapping->pieces = engine_guard_remove(mapping->guard);
	mapping->job.client->account->leaving++;
	mapping->reply = reply;
	mapping->job.step = unmap_step;
	mapping->job.done = mapping_unmapped;
	job_start(&mapping->job);
}

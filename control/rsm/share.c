/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments mapped by importers on the same host: checks rights, and marks withdrawn segments.
 *
 * The exporter's library moves its pages out of the file before its unpublish returns. So a mapping that an
 * importer retains is a copy of the last contents.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "control/rsm/rsm.h"

/* Returns the peer's queue pair if it is on this data plane; else NULL. */
static struct qp *
peer_of(const struct qp *qp, const struct qp_kind *kind)
{
	struct qp *peer;

	if (qp->conn == NULL || path_own(&qp->conn->path.dst) == NULL)
		return NULL;
	peer = engine_qp_owner(qp->conn->peer_qpn);
	if (peer == NULL || peer->kind != kind || peer->conn == NULL || peer->removing ||
	    peer->conn->peer_qpn != qp->config.qpn)
		return NULL;
	return peer;
}

void
share_revoke(const struct qp *export)
{
	struct qp *import = peer_of(export, &import_kind);

	if (import != NULL && import->object.client->state <= CLIENT_ATTACHED)
		/* Pairs with the acquire load in the importer's is_gone(). */
		atomic_fetch_or_explicit(&qp_shm(import)->rsm_flags, ONE_RSM_GONE, memory_order_seq_cst);
}

/* Returns a read-only descriptor, which the holder cannot reopen for writing: the library removes write
 * permission from the file when it creates it, so that only descriptors opened before can write. */
static int
open_for_reading(int fd)
{
	char path[32];
	int result;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	result = open(path, O_RDONLY | O_CLOEXEC);
	return result < 0 ? -errno : result;
}

/* A library that lets nobody of this node write leaves its file open to seals.  The first importer closes it
 * to new writable mappings, even by a descriptor that the importer reopens.  A data plane that takes over
 * cannot map it either, and has the exporter copy (control/objects/pass_objects.c). */
static bool
seal_for_reading(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 &&
	       ((seals & F_SEAL_SEAL) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0);
}

int
rsm_map(struct client *client, const struct one_msg *msg)
{
	const struct one_rsm_map *args = &msg->rsm_map;
	struct qp *import = object_get(client, OBJECT_QP, args->qp), *export;
	struct segment *segment;
	const struct mr *mr;
	int fd;

	if (import == NULL || import->kind != &import_kind)
		return client_refuse(client, RSM_BAD_SEG_HNDL, ONE_SUBJECT_QP, args->qp);
	if (import->state != ONE_QP_CONNECTED)
		return client_refuse(client, RSM_CONN_ABORTED, ONE_SUBJECT_QP, import->state);
	if (path_own(&import->conn->path.dst) == NULL)
		return client_refuse(client, RSM_MAP_FAILED, ONE_SUBJECT_ADDRESS, 0);
	export = peer_of(import, &export_kind);
	if (export == NULL || export->segment == NULL)
		return client_refuse(client, RSM_CONN_ABORTED, ONE_SUBJECT_QP, args->qp);
	segment = export->segment;
	mr = segment->mr;
	/* Rights are those that the exporter granted. Hardware has no write-only pages, so a mapping needs
	 * ACL_READ. */
	if ((args->permission & ~export->permission) != 0 || args->permission == 0)
		return client_refuse(client, RSM_BAD_PERMS, ONE_SUBJECT_ACCESS, export->permission);
	if ((export->permission & ACL_READ) == 0 || !segment->mappable || mr->num_regions != 1 ||
	    mr->region[0]->mapping->fd < 0 || !seal_for_reading(mr->region[0]->mapping->fd))
		return client_refuse(client, RSM_MAP_FAILED, ONE_SUBJECT_SEGMENT, segment->id);
	if ((args->permission & ACL_WRITE) != 0)
		fd = fcntl(mr->region[0]->mapping->fd, F_DUPFD_CLOEXEC, 0);
	else
		fd = open_for_reading(mr->region[0]->mapping->fd);
	if (fd < 0)
		return client_refuse(client, RSM_INSUFFICIENT_RESOURCES, ONE_SUBJECT_MEMORY, 0);
	client->reply_fd = fd;
	segment->given = true;
	client->reply.rsm_mapped = (struct one_rsm_mapped){.offset = mr->offset, .length = mr->length};
	return 0;
}

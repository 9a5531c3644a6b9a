/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging memory: a part of the arena that the library copies through.
 */
#include <errno.h>

#include "control/objects/objects.h"

int
staging_create(struct client *client, const struct one_msg *msg)
{
	const struct one_staging *args = &msg->staging;
	struct pz *pz = object_get(client, OBJECT_PZ, args->pz);
	uint64_t offset, size = arena_rounded(args->size);
	struct mr *mr;
	int error;

	if (pz == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, args->pz);
	if (args->size == 0 || args->size > STAGING_ONCE || client->staged + size > STAGING_MAX)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LENGTH,
				     args->size > STAGING_ONCE ? STAGING_ONCE : STAGING_MAX);
	error = client_alloc(client, size, &offset);
	if (error != 0)
		return error;
	mr = mr_staging(client, pz, offset, size);
	if (mr == NULL) {
		client_free(client, offset, size);
		return object_refuse_new(client, OBJECT_MR);
	}
	client->staged += size;
	client->reply.staged = (struct one_staged){
		.offset = offset,
		.size = size,
		.lkey = mr->entry->key,
	};
	return 0;
}

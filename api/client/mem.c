/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions of one attachment. */
#include "internal.h"

int
one_mem_deregister(struct one_client *client, struct one_mr *mr)
{
	struct one_msg msg = {.type = ONE_MSG_MR_FREE};

	msg.id.id = mr->id;
	return one_call(client, &msg, NULL, 0, NULL);
}

int
one_mem_register(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint32_t access,
		 struct one_mr *mr)
{
	struct one_msg msg = {.type = ONE_MSG_MR_CREATE};
	struct one_reply reply;
	int error;

	if (length == 0 || va + length < va)
		return -EINVAL;
	msg.mr_create.pz = pz;
	msg.mr_create.access = access;
	msg.mr_create.va = va;
	msg.mr_create.length = length;
	error = one_call(client, &msg, NULL, 0, &reply);
	if (error != 0)
		return error;
	*mr = (struct one_mr){
		.id = reply.mr.mr, .lkey = reply.mr.lkey, .rkey = reply.mr.rkey, .va = va, .length = length};
	return 0;
}

void
mem_release_all(struct one_client *client)
{
	client->uses = NULL;
}

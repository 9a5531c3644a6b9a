/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection zones. */

#include "control/objects/objects.h"

uint32_t
pz_number_new(struct client *client, void *owner, struct quota_limit *limit)
{
	uint32_t number;

	if (quota_take(&control.quota, client->account, QUOTA_ZONES, 1, limit) != 0)
		return 0;
	number = table_add(&control.pz_numbers, owner);
	if (number == 0)
		quota_give(&control.quota, client->account, QUOTA_ZONES, 1);
	return number;
}

void
pz_number_free(struct client *client, uint32_t number)
{
	if (table_remove(&control.pz_numbers, number) != NULL)
		quota_give(&control.quota, client->account, QUOTA_ZONES, 1);
}

int
pz_create(struct client *client, const struct one_msg *msg)
{
	struct pz *pz = object_new(client, OBJECT_PZ, sizeof(*pz));
	struct quota_limit limit = {TABLE_MAX, ""};

	if (pz == NULL)
		return object_refuse_new(client, OBJECT_PZ);
	pz->number = pz_number_new(client, pz, &limit);
	if (pz->number == 0) {
		object_free(pz);
		return client_refuse_limit(client, &limit);
	}
	pz->object.busy = false;
	client->reply.id.id = pz->object.id;
	return 0;
}

void
pz_destroy(struct pz *pz)
{
	pz_number_free(pz->object.client, pz->number);
	object_free(pz);
}

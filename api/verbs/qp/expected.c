/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers of queue pairs that the application brings up itself: see verbs_cm_expect() in face/cm.h. */
#include <stdlib.h>

#include "verbs/qp/qp.h"

struct expected {
	uint32_t qpn, psn;
	struct expected *next;
};

int
expected_add(struct context *context, uint32_t peer_qpn, uint32_t *psn)
{
	struct expected *peer = malloc(sizeof(*peer));
	static _Atomic uint32_t last;

	if (peer == NULL)
		return -ENOMEM;
	*psn = (atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1) & 0xffffff;
	peer->qpn = peer_qpn;
	peer->psn = *psn;
	pthread_mutex_lock(&context->lock);
	peer->next = context->expected;
	context->expected = peer;
	pthread_mutex_unlock(&context->lock);
	return 0;
}

void
expected_remove(struct context *context, uint32_t psn)
{
	struct expected **link = &context->expected, *peer;

	pthread_mutex_lock(&context->lock);
	while ((peer = *link) != NULL && peer->psn != psn)
		link = &peer->next;
	if (peer != NULL)
		*link = peer->next;
	pthread_mutex_unlock(&context->lock);
	free(peer);
}

bool
expected_has(struct context *context, uint32_t peer_qpn, uint32_t psn)
{
	struct expected *peer;

	pthread_mutex_lock(&context->lock);
	peer = context->expected;
	while (peer != NULL && (peer->qpn != peer_qpn || peer->psn != psn))
		peer = peer->next;
	pthread_mutex_unlock(&context->lock);
	return peer != NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of the objects of events, by the ids that rings name them by. */
#include "verbs/event.h"

void
element_add(struct context *context, struct element **list, struct element *element)
{
	pthread_mutex_lock(&context->lock);
	element->next = *list;
	*list = element;
	pthread_mutex_unlock(&context->lock);
}

void
element_remove(struct context *context, struct element **list, struct element *element)
{
	pthread_mutex_lock(&context->lock);
	while (*list != element)
		list = &(*list)->next;
	*list = element->next;
	pthread_mutex_unlock(&context->lock);
}

struct element *
element_find(struct element *list, uint32_t id)
{
	while (list != NULL && list->id != id)
		list = list->next;
	return list;
}

void
element_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *done, uint32_t got)
{
	pthread_mutex_lock(mutex);
	while (*done != got)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

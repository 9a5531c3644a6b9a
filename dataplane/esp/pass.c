/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/esp/pass.h"

#include <errno.h>
#include <string.h>

#include "dataplane/base/record_type.h"
#include "dataplane/core/limits.h"
#include "dataplane/esp/sa.h"
#include "dataplane/esp/table.h"

#define SA(member) RECORD_FIELD(esp_sa, member, RECORD_VALUE, 0, NULL)
#define BELOW(member, end) RECORD_FIELD(esp_sa, member, RECORD_VALUE, end, NULL)
#define NUMBER(member) BELOW(member, INT64_MAX)

static const struct record_field sa_fields[] = {
	/* which one */
	SA(spi),
	BELOW(outbound, 2),
	SA(port),
	SA(local),
	SA(peer),
	SA(check),
	/* its numbers */
	NUMBER(next),
	SA(iv_base),
	NUMBER(ceiling),
	SA(wake_at),
	NUMBER(begun),
	SA(owner),
	NUMBER(window.highest),
	SA(window.seen),
	/* what it has served */
	NUMBER(packets),
	NUMBER(bytes),
	NUMBER(packets_saved),
	NUMBER(bytes_saved),
};
static RECORD_FORM(sa_form, RECORD_ESP_SA, 1, sa_fields);

static const struct record_context no_context;

static const struct esp_table *
in_force(void)
{
	return atomic_load_explicit(&esp_table, memory_order_relaxed); /* no core runs */
}

void
esp_pass_write(struct record_out *out)
{
	const struct esp_table *table = in_force();

	for (uint32_t i = 0; table != NULL && i < table->num_sas; i++)
		record_put(out, &sa_form, i, table->sa[i], &no_context);
}

static struct esp_sa *
find_sa(const struct esp_sa *sought)
{
	const struct esp_table *table = in_force();

	for (uint32_t i = 0; table != NULL && i < table->num_sas; i++)
		if (esp_sa_is_same(table->sa[i], sought))
			return table->sa[i];
	return NULL;
}

/* Numbers below the ceiling are in the file, which exists once numbers have been reserved. A file that says
 * something else would have numbers used twice, now or after a crash. */
static bool
agrees_with_file(const struct esp_sa *sa, uint64_t next, uint64_t ceiling)
{
	uint64_t iv = sa->iv_base + ceiling;
	struct esp_saved saved;
	char why[300];

	if (next > ceiling || esp_state_load(sa, &saved, why, sizeof(why)) != 0)
		return false;
	if (saved.number == ceiling && saved.iv == iv)
		return true;
	return next == ceiling && iv > saved.iv && saved.number == (saved.number == 0 ? 0 : ceiling);
}

static bool
is_valid(const struct esp_sa *sa)
{
	/* Relaxed: only this thread has them. */
	uint64_t next = atomic_load_explicit(&sa->next, memory_order_relaxed);
	uint64_t ceiling = atomic_load_explicit(&sa->ceiling, memory_order_relaxed);
	uint32_t owner = atomic_load_explicit(&sa->owner, memory_order_relaxed);

	if (next == 0 || (owner >= CORE_MAX && owner != ESP_NO_OWNER))
		return false;
	return sa->outbound ? agrees_with_file(sa, next, ceiling) : next == sa->window.highest + 1;
}

int
esp_pass_read(const struct record *record, uint32_t cores)
{
	struct esp_sa read = {.session = NULL}, *sa;
	int error;

	if (record_get(record, &sa_form, &read, &no_context) != 0)
		return -EINVAL;
	sa = find_sa(&read);
	if (sa == NULL)
		return 0;
	error = is_valid(&read) ? record_get(record, &sa_form, sa, &no_context) : -EINVAL;
	/* Relaxed: no core runs. The first one that gets a good packet becomes the owner. */
	if (error == 0 && atomic_load_explicit(&sa->owner, memory_order_relaxed) >= cores)
		atomic_store_explicit(&sa->owner, ESP_NO_OWNER, memory_order_relaxed);
	return error;
}

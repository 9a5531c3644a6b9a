/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper, a thread next to cores and control thread: saves sequence numbers to files before they are
 * used, reports limits, and frees tables that no core uses any more.
 */
#ifndef DATAPLANE_ESP_KEEPER_H
#define DATAPLANE_ESP_KEEPER_H

#include "dataplane/esp/sa.h"

struct esp_table;

/* Start the thread; later calls have no effect. Returns 0 or -errno. */
int esp_keeper_start(void);
/* Call after the cores have stopped. */
void esp_keeper_stop(void);
/* Call after esp_keeper_stop(): gives back all unused numbers. */
void esp_keeper_free(void);
/* Any thread: wake the keeper. */
void esp_keeper_wake(void);
/* Retire a table that is out of use: when no core has it any more, free it, with the security associations
 * that its successor does not have. */
void esp_keeper_retire(struct esp_table *table);
/* Wait until the files of all retired tables have their final numbers: then the same keys may be used
 * again. */
void esp_keeper_settle(void);

/* Write a file that is ahead by a block, and allow those numbers. Call before cores have the SA, or on the
 * keeper. Returns 0 or -errno. */
int esp_keeper_reserve(struct esp_sa *sa, uint64_t block);
void esp_sa_free(struct esp_sa *sa);

#endif

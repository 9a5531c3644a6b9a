/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread beside cores and control thread: it writes the files of sequence numbers before they are used,
 * tells of limits, and frees what no core looks at any more.
 */
#ifndef DATAPLANE_ESP_KEEPER_H
#define DATAPLANE_ESP_KEEPER_H

#include "dataplane/esp/sa.h"

struct esp_table;

/* Once; again has no effect.  0 or -errno. */
int esp_keeper_start(void);
/* After the cores. */
void esp_keeper_stop(void);
/* After that: all numbers that were not used are given back. */
void esp_keeper_free(void);
/* Any thread: something is to be done. */
void esp_keeper_wake(void);
/* Out of use: freed, with the security associations that the table in use does not have, when no core has it.
 */
void esp_keeper_retire(struct esp_table *table);
/* Waits until the files of all that was retired say how far it came: then the same keys may come again. */
void esp_keeper_settle(void);

/* Writes a file that is ahead by a block, which may be used then; cores do not have it yet, or the thread
 * calls.  0 or -errno. */
int esp_keeper_reserve(struct esp_sa *sa, uint64_t block);
void esp_sa_free(struct esp_sa *sa);

#endif

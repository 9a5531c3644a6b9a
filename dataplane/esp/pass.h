/* SPDX-License-Identifier: BSD-3-Clause */
/* Security associations in a take-over: they continue at the next number, for which the file is ahead
 * already. The keepers of both processes are on hold, and no core runs. */
#ifndef DATAPLANE_ESP_PASS_H
#define DATAPLANE_ESP_PASS_H

#include "dataplane/base/record.h"

void esp_pass_write(struct record_out *out);
/* Continues the association in force that has the same key, SPI, addresses and direction; without one the
 * record is skipped, as the configuration has no such association any more. `cores`: number of polling cores.
 * Returns 0, or -EINVAL: the record is not valid, or its file is not ahead of it. */
int esp_pass_read(const struct record *record, uint32_t cores);

#endif

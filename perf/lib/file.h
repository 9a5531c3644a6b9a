/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole files in memory, for the copy programs. */
#ifndef PERF_FILE_H
#define PERF_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the file into page-aligned memory, zero-filled to the page. NULL on failure, printed on stderr. */
uint8_t *file_read(const char *path, uint64_t *size);
bool file_write(const char *path, const uint8_t *data, uint64_t size);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads classic pcap files of whole Ethernet frames, as in tests/data/captures. */
#ifndef TESTS_UNIT_PCAP_H
#define TESTS_UNIT_PCAP_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*pcap_frame_fn)(const char *file, unsigned int number, const uint8_t *frame, uint32_t len,
			      void *arg);

/* Calls `fn` with every frame of a file; returns the number of frames, -1 if the file is not of this
 * format. */
static inline int
pcap_each_frame(const char *path, pcap_frame_fn fn, void *arg)
{
	uint32_t header[6], record[4];
	unsigned int number = 0;
	FILE *f = fopen(path, "rb");
	uint8_t *frame;

	if (f == NULL)
		return -1;
	/* Magic of microsecond files in this machine's byte order, link type Ethernet. */
	if (fread(header, sizeof(header), 1, f) != 1 || header[0] != 0xa1b2c3d4 || header[5] != 1) {
		fclose(f);
		return -1;
	}
	while (fread(record, sizeof(record), 1, f) == 1) {
		if (record[2] != record[3] || record[2] > 65536 || (frame = malloc(record[2])) == NULL) {
			fclose(f);
			return -1;
		}
		if (fread(frame, record[2], 1, f) != 1) {
			free(frame);
			fclose(f);
			return -1;
		}
		fn(path, ++number, frame, record[2], arg);
		free(frame);
	}
	fclose(f);
	return (int)number;
}

/* Reads every *.pcap below `dir`, `depth` levels of folders deep; returns the number of files, -1 on any
 * error. */
static inline int
pcap_each_file(const char *dir, int depth, pcap_frame_fn fn, void *arg)
{
	struct dirent *entry;
	int files = 0, rc;
	char path[1024];
	DIR *d = opendir(dir);

	if (d == NULL)
		return -1;
	while ((entry = readdir(d)) != NULL) {
		size_t len = strlen(entry->d_name);

		if (entry->d_name[0] == '.')
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= sizeof(path))
			rc = -1;
		else if (entry->d_type == DT_DIR && depth > 0)
			rc = pcap_each_file(path, depth - 1, fn, arg);
		else if (len > 5 && strcmp(entry->d_name + len - 5, ".pcap") == 0)
			rc = pcap_each_frame(path, fn, arg) < 0 ? -1 : 1;
		else
			continue;
		if (rc < 0) {
			closedir(d);
			return -1;
		}
		files += rc;
	}
	closedir(d);
	return files;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "segments.h"

#include <unistd.h>

#include "client/explain.h"

/* Descriptors sent with one message. */
struct files_to_send {
	uint32_t num;
	int fd[ONE_MSG_FDS];
	bool opened[ONE_MSG_FDS];
};

static void
close_opened(const struct files_to_send *files)
{
	for (uint32_t i = 0; i < files->num; i++) {
		if (files->opened[i])
			close(files->fd[i]);
	}
}

static int
add_file(struct files_to_send *files, struct one_region_join *join, const struct segment *segment)
{
	uint32_t i = files->num;

	files->opened[i] = false;
	files->fd[i] = segment->kind == SEGMENT_ADOPTED ? segment->file->fd
							: segment_open(segment, &files->opened[i]);
	if (files->fd[i] < 0) {
		if (one_explaining)
			one_note_reason(
				"a file of the memory was closed, or lost its name, while it was registered; leave it open");
		return -ENOENT;
	}
	files->num++;
	join->file[join->num_files++] =
		(struct one_region_file){.offset = segment->offset, .length = segment->end - segment->start};
	return 0;
}

static void
describe_join(struct one_region_join *join, const struct segment *segment, uint32_t count)
{
	join->va = segment->start;
	join->size = segment[count - 1].end - segment->start;
	join->total = count;
	join->page = page_size();
	for (uint32_t i = 0; i < count; i++)
		join->page = segment[i].page > join->page ? segment[i].page : join->page;
}

static int
send_files(struct one_client *client, struct one_msg *msg, const struct segment *segment, uint32_t count,
	   uint32_t *id)
{
	struct files_to_send files = {.num = 0};
	struct one_reply reply;
	int error = 0;

	msg->region_join.region = *id;
	msg->region_join.num_files = 0;
	for (uint32_t i = 0; error == 0 && i < count; i++)
		error = add_file(&files, &msg->region_join, &segment[i]);
	if (error == 0)
		error = one_call(client, msg, files.fd, files.num, &reply);
	close_opened(&files);
	if (error == 0)
		*id = reply.id.id;
	return error;
}

int
joined_add(struct one_client *client, const struct segment *segment, uint32_t count, uint32_t *id)
{
	struct one_msg msg = {.type = ONE_MSG_REGION_JOIN};
	int error = 0;

	*id = 0;
	describe_join(&msg.region_join, segment, count);
	for (uint32_t done = 0, n; error == 0 && done < count; done += n) {
		n = count - done < ONE_MSG_FDS ? count - done : ONE_MSG_FDS;
		error = send_files(client, &msg, segment + done, n, id);
	}
	if (error != 0 && *id != 0)
		one_call_id(client, ONE_MSG_REGION_REMOVE, *id);
	return error < 0 ? error : error == 0 ? 0 : -EPROTO;
}

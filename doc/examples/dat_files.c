/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file server: a client asks by messages, the server writes the file's bytes into the client's memory.
 *
 *   dat_files serve DIRECTORY             serves the files of DIRECTORY, one client at a time, until killed
 *   dat_files get ADDRESS NAME OUTFILE    fetches one file
 *
 *   cc dat_files.c $(pkg-config --cflags --libs libdat) -o dat_files
 *
 * Each request names a piece of a file and its place in the client's memory. The server writes the piece
 * there by RDMA and then answers by a message. Both use one connection, which keeps their order: when the
 * answer has arrived, so have the bytes. The server trusts neither the name nor the place that the client
 * sends; the data plane checks the place against the memory that the client has registered for remote writes.
 */
#include <dat/udat.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERVICE 45303u
#define PIECE (1u << 20)
#define PATIENCE_US 60000000u

struct request {
	char name[96];
	uint64_t offset;  /* in the file */
	uint64_t address; /* in the client's memory */
	uint32_t context; /* RMR context that gives access to the address */
	uint32_t length;
};

struct answer {
	uint32_t length; /* bytes written; 0: the file ends before the offset */
	int32_t error;   /* errno, or 0 */
};

struct end {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE connections, requests, received;
	DAT_EP_HANDLE ep;
	DAT_LMR_CONTEXT context;
	DAT_RMR_CONTEXT remote_context;
	struct {
		struct request request;
		struct answer answer;
		uint8_t piece[PIECE];
	} * memory;
};

static void
must(DAT_RETURN ret, const char *call)
{
	const char *type = "", *subtype = "";

	if (ret == DAT_SUCCESS)
		return;
	dat_strerror(ret, &type, &subtype);
	fprintf(stderr, "dat_files: %s: %s %s\n", call, type, subtype);
	exit(1);
}

static DAT_EVENT
wait_for(DAT_EVD_HANDLE evd, DAT_TIMEOUT us, const char *what)
{
	DAT_EVENT event;
	DAT_COUNT more;

	must(dat_evd_wait(evd, us, 1, &event, &more), what);
	return event;
}

/* True if the transfer succeeded. A failed transfer has ended the connection. */
static bool
complete(DAT_EVD_HANDLE evd, DAT_TIMEOUT us, const char *what)
{
	DAT_EVENT event = wait_for(evd, us, what);
	DAT_DTO_COMPLETION_STATUS status = event.event_data.dto_completion_event_data.status;

	if (status != DAT_DTO_SUCCESS && status != DAT_DTO_ERR_FLUSHED)
		fprintf(stderr, "dat_files: %s: status %d (DAT_DTO_* in <dat/dat.h>)\n", what, status);
	return status == DAT_DTO_SUCCESS;
}

static void
set_up(struct end *end, int rights)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_HANDLE lmr;
	int both = DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG;

	must(dat_ia_open("oneside", 8, &async, &end->ia), "dat_ia_open");
	must(dat_pz_create(end->ia, &end->pz), "dat_pz_create");
	must(dat_evd_create(end->ia, 64, DAT_HANDLE_NULL, (DAT_EVD_FLAGS)both, &end->connections),
	     "dat_evd_create");
	must(dat_evd_create(end->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->requests), "dat_evd_create");
	must(dat_evd_create(end->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->received), "dat_evd_create");
	end->memory = calloc(1, sizeof(*end->memory));
	if (end->memory == NULL) {
		fprintf(stderr, "dat_files: no memory\n");
		exit(1);
	}
	region.for_va = end->memory;
	must(dat_lmr_create(end->ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(*end->memory), end->pz,
			    (DAT_MEM_PRIV_FLAGS)rights, &lmr, &end->context, &end->remote_context, NULL,
			    NULL),
	     "dat_lmr_create");
}

static void
make_endpoint(struct end *end)
{
	must(dat_ep_create(end->ia, end->pz, end->received, end->requests, end->connections, NULL, &end->ep),
	     "dat_ep_create");
}

static DAT_LMR_TRIPLET
local(const struct end *end, void *at, uint64_t length)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = end->context, .virtual_address = (uintptr_t)at, .segment_length = length};
}

static void
post_receive(struct end *end, void *at, uint64_t length)
{
	DAT_LMR_TRIPLET into = local(end, at, length);

	must(dat_ep_post_recv(end->ep, 1, &into, (DAT_DTO_COOKIE){.as_64 = 0}, DAT_COMPLETION_DEFAULT_FLAG),
	     "dat_ep_post_recv");
}

/* Returns false if the endpoint is not connected any more, because the peer has gone. */
static bool
send_message(struct end *end, void *at, uint64_t length)
{
	DAT_LMR_TRIPLET from = local(end, at, length);
	DAT_RETURN ret = dat_ep_post_send(end->ep, 1, &from, (DAT_DTO_COOKIE){.as_64 = 1},
					  DAT_COMPLETION_DEFAULT_FLAG);

	if (DAT_GET_TYPE(ret) == DAT_INVALID_STATE)
		return false;
	must(ret, "dat_ep_post_send");
	return complete(end->requests, PATIENCE_US, "a message");
}

/* ---- the server ---- */

/* Opens a file of the directory itself, in no folder below. Returns -1 with errno on failure. */
static int
open_file(int directory, struct request *request)
{
	struct stat info;
	int file;

	request->name[sizeof(request->name) - 1] = '\0';
	if (request->name[0] == '.' || strchr(request->name, '/') != NULL) {
		errno = EACCES;
		return -1;
	}
	file = openat(directory, request->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file >= 0 && (fstat(file, &info) < 0 || !S_ISREG(info.st_mode))) {
		close(file);
		errno = EACCES;
		return -1;
	}
	return file;
}

/* Returns false when the connection is over. */
static bool
answer_request(struct end *end, int directory)
{
	struct request request = end->memory->request;
	struct answer *answer = &end->memory->answer;
	int file = open_file(directory, &request);
	size_t want = request.length < PIECE ? request.length : PIECE;
	ssize_t got = file >= 0 ? pread(file, end->memory->piece, want, (off_t)request.offset) : -1;

	*answer = (struct answer){.length = got > 0 ? (uint32_t)got : 0, .error = got < 0 ? errno : 0};
	if (file >= 0)
		close(file);
	/* Post the receive first: the client may send its next request as soon as it has the answer. */
	post_receive(end, &end->memory->request, sizeof(struct request));
	if (got > 0) {
		DAT_LMR_TRIPLET from = local(end, end->memory->piece, (uint64_t)got);
		DAT_RMR_TRIPLET to = {.rmr_context = request.context,
				      .target_address = request.address,
				      .segment_length = (uint64_t)got};
		/* No completion on success: the answer that follows implies it. Only a failure completes. */
		DAT_RETURN ret = dat_ep_post_rdma_write(end->ep, 1, &from, (DAT_DTO_COOKIE){.as_64 = 2}, &to,
							DAT_COMPLETION_SUPPRESS_FLAG);

		if (DAT_GET_TYPE(ret) == DAT_INVALID_STATE)
			return false;
		must(ret, "dat_ep_post_rdma_write");
	}
	return send_message(end, answer, sizeof(*answer));
}

static void
serve(struct end *end, const char *path)
{
	int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;

	if (directory < 0) {
		perror(path);
		exit(1);
	}
	set_up(end, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
	must(dat_psp_create(end->ia, SERVICE, end->connections, DAT_PSP_CONSUMER_FLAG, &psp),
	     "dat_psp_create");
	printf("serving %s\n", path);
	fflush(stdout);
	for (;;) {
		event = wait_for(end->connections, DAT_TIMEOUT_INFINITE, "waiting for a client");
		if (event.event_number != DAT_CONNECTION_REQUEST_EVENT)
			continue; /* ESTABLISHED, or the end of the previous connection */
		make_endpoint(end);
		post_receive(end, &end->memory->request, sizeof(struct request));
		must(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, end->ep, 0, NULL),
		     "dat_cr_accept");
		/* When the client goes, the receive that is posted comes back without a message. */
		while (complete(end->received, DAT_TIMEOUT_INFINITE, "a request") &&
		       answer_request(end, directory))
			;
		must(dat_ep_free(end->ep), "dat_ep_free");
		/* Drop the events of the previous connection. */
		while (dat_evd_dequeue(end->received, &event) == DAT_SUCCESS ||
		       dat_evd_dequeue(end->requests, &event) == DAT_SUCCESS)
			;
	}
}

/* ---- the client ---- */

static void
get(struct end *end, const struct sockaddr *address, const char *name, const char *path)
{
	struct request *request;
	struct answer *answer;
	uint64_t offset = 0;
	FILE *out;

	set_up(end, DAT_MEM_PRIV_ALL_FLAG);
	request = &end->memory->request;
	answer = &end->memory->answer;
	make_endpoint(end);
	must(dat_ep_connect(end->ep, (DAT_IA_ADDRESS_PTR)(uintptr_t)address, SERVICE, PATIENCE_US, 0, NULL,
			    DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
	     "dat_ep_connect");
	if (wait_for(end->connections, PATIENCE_US, "connecting").event_number !=
	    DAT_CONNECTION_EVENT_ESTABLISHED) {
		fprintf(stderr, "dat_files: there is no server, or it does not answer\n");
		exit(1);
	}
	out = fopen(path, "wb");
	do {
		snprintf(request->name, sizeof(request->name), "%s", name);
		request->offset = offset;
		request->address = (uintptr_t)end->memory->piece;
		request->context = end->remote_context;
		request->length = PIECE;
		post_receive(end, answer, sizeof(*answer));
		if (!send_message(end, request, sizeof(*request)) ||
		    !complete(end->received, PATIENCE_US, "the answer")) {
			fprintf(stderr, "dat_files: the server has gone\n");
			exit(1);
		}
		if (answer->error != 0) {
			fprintf(stderr, "dat_files: %s: the server says: %s\n", name,
				strerror(answer->error));
			exit(1);
		}
		if (out == NULL || fwrite(end->memory->piece, 1, answer->length, out) != answer->length) {
			perror(path);
			exit(1);
		}
		offset += answer->length;
	} while (answer->length > 0);
	if (fclose(out) != 0) {
		perror(path);
		exit(1);
	}
	must(dat_ep_disconnect(end->ep, DAT_CLOSE_GRACEFUL_FLAG), "dat_ep_disconnect");
	must(dat_ia_close(end->ia, DAT_CLOSE_ABRUPT_FLAG), "dat_ia_close");
	printf("%lu bytes\n", offset);
}

int
main(int argc, char **argv)
{
	struct addrinfo *to;
	struct end end;
	int error;

	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		serve(&end, argv[2]);
	if (argc != 5 || strcmp(argv[1], "get") != 0) {
		fprintf(stderr, "usage: dat_files serve DIRECTORY\n"
				"       dat_files get ADDRESS NAME OUTFILE\n");
		return 2;
	}
	error = getaddrinfo(argv[2], NULL, NULL, &to);
	if (error != 0) {
		fprintf(stderr, "dat_files: %s: %s\n", argv[2], gai_strerror(error));
		return 1;
	}
	get(&end, to->ai_addr, argv[3], argv[4]);
	freeaddrinfo(to);
	free(end.memory);
	return 0;
}

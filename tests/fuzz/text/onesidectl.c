/* SPDX-License-Identifier: BSD-3-Clause */
/* onesidectl, which asks a hostile data plane: the first record selects the command, each further one is a
 * reply. Whatever the replies, the output has no control characters, and the program ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#include <jansson.h>

#include "control/onesidectl/onesidectl.h"
#include "fuzz_onesidectl.h"
#include "tests/fuzz/base/records.h"

#define ASKED_MAX 4096u /* questions of one command */
#define LOOKS 3u        /* screens of top */
#define WORDS 6

static const char *const commands[][WORDS] = {
	{"show"},
	{"show", "clients"},
	{"show", "endpoints", "pid=1", "port=p0"},
	{"show", "connections", "peer=192.0.2.1"},
	{"show", "segments"},
	{"show", "memory"},
	{"show", "ports"},
	{"show", "cores"},
	{"show", "drops"},
	{"show", "quota", "uid=0"},
	{"show", "ipsec"},
	{"show", "version"},
	{"top", "count=2"},
	{"trace", "qp=0x17", "count=3"},
	{"metrics"},
	{"capture", "port=p0", "file=f"},
	{"capture"},
	{"reload", "check"},
	{"peer", "add", "2", "192.0.2.2", "port=p0"},
	{"client", "kill", "1"},
	{"log", "level", "debug"},
	{"drain"},
};

static struct bytes answers, all;
static bool again; /* the replies repeat */
static uint32_t asked, looks;
static jmp_buf end;
static bool runs;

/* ---- allocations: the program may end anywhere, and leaves freeing to the system ---- */

struct block {
	LIST_ENTRY(block) link;
	max_align_t start[];
};
static LIST_HEAD(, block) blocks = LIST_HEAD_INITIALIZER(blocks);
static FILE *stream; /* of open_memstream() */
static char *stream_text, **stream_text_to;
static size_t stream_len, *stream_len_to;

static void *
allocate(size_t size)
{
	struct block *block = malloc(sizeof(*block) + size);

	if (block == NULL)
		return NULL;
	LIST_INSERT_HEAD(&blocks, block, link);
	return block->start;
}

void
program_free(void *at)
{
	struct block *block = at;

	if (at == NULL)
		return;
	block = (struct block *)(void *)((uint8_t *)at - offsetof(struct block, start));
	LIST_REMOVE(block, link);
	free(block);
}

void *
program_calloc(size_t number, size_t size)
{
	void *at = allocate(number * size);

	return at != NULL ? memset(at, 0, number * size) : NULL;
}

char *
program_strdup(const char *text)
{
	char *at = allocate(strlen(text) + 1);

	return at != NULL ? strcpy(at, text) : NULL;
}

FILE *
program_memstream(char **text, size_t *len)
{
	stream_text_to = text;
	stream_len_to = len;
	return stream = open_memstream(&stream_text, &stream_len);
}

/* Closes a file. The text of open_memstream() belongs to the program afterwards. */
int
program_fclose(FILE *file)
{
	int error = fclose(file);

	if (file != stream)
		return error;
	stream = NULL;
	*stream_len_to = stream_len;
	*stream_text_to = allocate(stream_len + 1);
	memcpy(*stream_text_to, stream_text, stream_len + 1);
	free(stream_text);
	return error;
}

static void
free_all(void)
{
	while (!LIST_EMPTY(&blocks))
		program_free(LIST_FIRST(&blocks)->start);
	if (stream != NULL) {
		fclose(stream);
		free(stream_text);
	}
	stream = NULL;
}

/* ---- the program's system calls ---- */

int __real_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __real_recv(int fd, void *data, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
bool __wrap_top_screen_wait(unsigned int seconds);

_Noreturn void
program_exit(int status)
{
	longjmp(end, status + 1);
}

int
program_socket(void)
{
	return 1 << 20; /* not a descriptor: only the calls below use the number */
}

int
program_execvp(void)
{
	errno = ENOENT;
	return -1;
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	return runs ? 0 : __real_connect(fd, address, len);
}

ssize_t
__wrap_send(int fd, const void *data, size_t len, int flags)
{
	return runs ? (ssize_t)len : __real_send(fd, data, len, flags);
}

/* Returns a packet, or 0 as if the data plane had closed the connection. */
ssize_t
__wrap_recv(int fd, void *data, size_t len, int flags)
{
	struct bytes answer = {NULL, 0};

	if (!runs)
		return __real_recv(fd, data, len, flags);
	if (asked++ == ASKED_MAX)
		program_exit(0);
	if (!record_next(&answers, &answer) && again) {
		answers = all;
		record_next(&answers, &answer);
	}
	len = answer.left < len ? answer.left : len;
	if (len > 0)
		memcpy(data, answer.at, len);
	return (ssize_t)len;
}

/* The clock advances a second with each question. */
int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (!runs)
		return __real_clock_gettime(clock, ts);
	*ts = (struct timespec){.tv_sec = 1000 + (time_t)asked};
	return 0;
}

bool
__wrap_top_screen_wait(unsigned int seconds)
{
	(void)seconds;
	return looks++ < LOOKS;
}

/* ---- the target ---- */

/* Allows no control character but newlines. Escape sequences begin with one of them, or with one of U+0080 to
 * U+009F. */
static void
check_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)text[i], next = i + 1 < len ? (uint8_t)text[i + 1] : 0;

		if ((c < ' ' && c != '\n') || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0))
			fuzz_fail("a terminal is sent control sequences");
	}
}

static const char *const *
command_of(uint8_t which)
{
	return commands[which % (sizeof(commands) / sizeof(commands[0]))];
}

static void
run(uint8_t which)
{
	static char name[] = "onesidectl", json[] = "--json";
	char *words[WORDS + 2] = {name};
	int count = 1;

	for (int i = 0; i < WORDS && command_of(which)[i] != NULL; i++)
		words[count++] = (char *)(uintptr_t)command_of(which)[i];
	onesidectl_options = (struct options){.json = false};
	if ((which & 0x80) != 0)
		words[count++] = json;
	runs = true;
	if (setjmp(end) == 0)
		program_main(count, words);
	runs = false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char *printed;
	static size_t len;
	static FILE *sink;
	FILE *out = stdout, *err = stderr;
	struct bytes record = {data, 0};
	uint8_t which;

	if (sink == NULL) {
		sink = open_memstream(&printed, &len);
		json_set_alloc_funcs(allocate, program_free);
		json_object_seed(1);
	}
	if (sink == NULL)
		fuzz_fail("no memory");
	all = (struct bytes){data, size};
	record_next(&all, &record);
	which = (uint8_t)record_number(&record, 1);
	/* A trace would never end with repeated replies. */
	again = record_number(&record, 1) % 2 != 0 && strcmp(command_of(which)[0], "trace") != 0;
	answers = all;
	asked = looks = 0;
	rewind(sink);
	stdout = stderr = sink;
	run(which);
	fflush(sink);
	stdout = out;
	stderr = err;
	free_all();
	if (asked > ASKED_MAX)
		fuzz_fail("it asks for ever");
	check_text(printed, len);
	return 0;
}

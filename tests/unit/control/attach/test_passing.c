/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of applications that one data plane passes to the next: what is mapped, and where. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/attach/passing.h"
#include "tests/unit/unit.h"

#define PAGE 4096u

static struct client owner = {.program = "program", .pid = 4711};
static struct pass_out out;
static struct pass_in in;

void *
object_get(struct client *client, enum object_kind kind, uint32_t id)
{
	return NULL;
}

#define LANE ((struct engine_client *)&owner) /* the only one, with the highest number */

uint32_t
engine_lane_number(const struct engine_client *lane)
{
	return ONE_LANES_MAX - 1;
}

struct engine_client *
engine_lane_next(const struct engine_client *lane)
{
	return NULL;
}

static int
setup(void **state)
{
	memset(&out, 0, sizeof(out));
	memset(&in, 0, sizeof(in));
	in.context.owner = &owner;
	return 0;
}

static int
teardown(void **state)
{
	for (uint32_t i = 0; i < in.num_fds; i++)
		close(in.fd[i]);
	free(in.fd);
	pass_out_end(&out);
	return 0;
}

/* Appends a piece of one page that begins with `mark`. */
static void
add_piece(uint64_t at, uint8_t mark)
{
	int fd = memfd_create("piece", MFD_CLOEXEC);
	struct pass_piece *piece;

	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(write(fd, &mark, 1), 1);
	in.fd = realloc(in.fd, (in.num_fds + 1) * sizeof(int));
	in.fd[in.num_fds++] = fd;
	piece = record_append(&out.records, RECORD_PIECE, 1, 0, sizeof(*piece));
	*piece = (struct pass_piece){.at = at, .length = PAGE, .fd = in.num_fds};
}

static uint8_t *
map(uint64_t len, uint64_t phase, uint32_t *count)
{
	in.records = (struct record_in){.bytes = out.records.bytes, .length = out.records.length};
	pass_in_begin(&in);
	return pass_map_pieces(&in, len, phase, count);
}

static void
test_whole(void **state)
{
	uint32_t count;
	uint8_t *base;

	add_piece(0, 1);
	add_piece(PAGE, 2);
	base = map(2 * PAGE, 5 * PAGE, &count);
	assert_non_null(base);
	assert_int_equal(count, 2);
	assert_int_equal((uintptr_t)base % (2u << 20), 5 * PAGE);
	assert_int_equal(base[0], 1);
	assert_int_equal(base[PAGE], 2);
	munmap(base, 2 * PAGE);
}

/* A core that used an address between two pieces, or behind the last, would end the data plane. */
static void
test_hole(void **state)
{
	uint32_t count;

	add_piece(0, 1);
	add_piece(2 * PAGE, 2);
	assert_null(map(3 * PAGE, 0, &count));
	assert_non_null(strstr(in.why, "not where the one before ends"));
}

static void
test_short(void **state)
{
	uint32_t count;

	add_piece(0, 1);
	assert_null(map(2 * PAGE, 0, &count));
	assert_string_equal(in.why, "memory of 8192 bytes is not whole");
}

static uint32_t
count_maps(void)
{
	uint32_t num;

	assert_int_equal(pass_out_begin(&out), 0);
	num = out.num_maps;
	pass_out_end(&out);
	memset(&out, 0, sizeof(out));
	return num;
}

/* The end of a file's long name is not another mapping. */
static void
test_name(void **state)
{
	char directory[] = "/tmp/passing-XXXXXX", inner[512], path[1024];
	uint32_t before;
	void *memory;
	int fd;

	assert_non_null(mkdtemp(directory));
	snprintf(inner, sizeof(inner), "%s/%0240d", directory, 0);
	assert_int_equal(mkdir(inner, 0700), 0);
	snprintf(path, sizeof(path), "%s/%230s0-ffffffffffff x 0 x 1", inner, "");
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	before = count_maps();
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(memory != MAP_FAILED);
	assert_int_equal(count_maps(), before + 1);
	munmap(memory, PAGE);
	close(fd);
	unlink(path);
	rmdir(inner);
	rmdir(directory);
}

/* Without CAP_CHECKPOINT_RESTORE the kernel opens no mapped file again: the take-over is refused in words. */
static void
test_may_not_open(void **state)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		char why[300] = "";
		bool drops = getuid() != 0 || setresuid(65534, 65534, 65534) == 0;

		_exit(drops && !pass_may_open(why, sizeof(why)) &&
				      strstr(why, "CAP_CHECKPOINT_RESTORE") != NULL
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* A name is a lane's number and one, in all its bits. */
static void
test_lane_names(void **state)
{
	owner.engine = LANE;
	assert_int_equal(pass_lane.name(LANE, &in.context), ONE_LANES_MAX);
	assert_ptr_equal(pass_lane.find(ONE_LANES_MAX, &in.context), LANE);
	assert_null(pass_lane.find(1, &in.context));
	assert_null(pass_lane.find(ONE_LANES_MAX + 1, &in.context));
	assert_null(pass_lane.find(1ull << 32 | ONE_LANES_MAX, &in.context));
	assert_null(pass_lane.find(UINT64_MAX, &in.context));
	owner.engine = NULL;
	assert_null(pass_lane.find(ONE_LANES_MAX, &in.context));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_whole), T(test_hole),         T(test_short),
		T(test_name),  T(test_may_not_open), T(test_lane_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Adopted memory: both sides access the same pages, and the application gets private memory back
 * afterwards. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common.h"

/* Map far from where the kernel places mappings by itself, so that holes stay holes. */
static uint8_t *
pages_apart(size_t n)
{
	void *p = mmap((void *)0x200000000000, n * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void
test_both_see_both(void **state)
{
	const size_t len = 100000;
	uint8_t *p = malloc(len);
	struct one_mr mr;

	fill(p, len, 1);
	mr = reg(p, len);
	assert_int_equal(mr.va, (uintptr_t)p);
	assert_int_not_equal(mr.lkey, 0);
	assert_true(pieces(&mr) >= 1);
	assert_true(is_filled(p, len, 1));
	assert_true(is_filled(peer(&mr), len, 1));
	p[0] = 0xaa;
	p[len - 1] = 0xbb;
	assert_int_equal(peer(&mr)[0], 0xaa);
	assert_int_equal(peer(&mr)[len - 1], 0xbb);
	fill(peer(&mr), len, 2);
	assert_true(is_filled(p, len, 2));
	dereg(&mr);
	assert_true(is_filled(p, len, 2));
	assert_int_equal(adopted_mappings(), 0);
	free(p);
}

static unsigned int
mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int n = 0;
	int byte;

	assert_non_null(maps);
	while ((byte = fgetc(maps)) != EOF)
		n += byte == '\n';
	fclose(maps);
	return n;
}

/* Pages that are given back merge with neighbouring mappings, else the process would exceed its limit of
 * mappings. */
static void
test_mappings_merge(void **state)
{
	enum { COUNT = 300 };
	uint8_t *p = pages(2 * COUNT);
	unsigned int before;
	struct one_mr mr;

	for (int round = 0; round < 2; round++) {
		/* The memory is untouched in the first round and in use in the second. */
		if (round == 1)
			fill(p, 2 * COUNT * PAGE, 1);
		before = mappings();
		for (int i = 0; i < COUNT; i++) {
			p[2 * i * PAGE] = (uint8_t)i;
			mr = reg(p + 2 * i * PAGE, PAGE);
			dereg(&mr);
			assert_int_equal(p[2 * i * PAGE], (uint8_t)i);
		}
		assert_in_range(mappings(), 0, before + 20);
	}
	munmap(p, 2 * COUNT * PAGE);
}

/* True if the kernel finds a mapping by its address: since Linux 6.11. */
static bool
kernel_finds_mappings(void)
{
	uint8_t query[104] = {0};
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), error;

	assert_true(fd >= 0);
	error = ioctl(fd, _IOWR('f', 17, query), query) == 0 ? 0 : errno;
	close(fd);
	return error != ENOTTY;
}

/* Returns the number of bytes that this process has read so far, from /proc and elsewhere. */
static uint64_t
bytes_read(void)
{
	FILE *io = fopen("/proc/self/io", "r");
	unsigned long long bytes;

	assert_non_null(io);
	assert_int_equal(fscanf(io, "rchar: %llu", &bytes), 1);
	fclose(io);
	return bytes;
}

/* A registration does not read the list of all mappings, of which a program may have thousands. */
static void
test_list_is_not_read(void **state)
{
	enum { COUNT = 4000, LEAST_LINE = 40 };
	uint8_t *p = pages(COUNT + 2);
	uint64_t before;
	struct one_mr mr;

	if (!kernel_finds_mappings())
		skip();
	for (int i = 0; i < COUNT; i += 2)
		assert_int_equal(mprotect(p + i * PAGE, PAGE, PROT_READ), 0);
	before = bytes_read();
	mr = reg(p + (COUNT + 1) * PAGE, PAGE);
	dereg(&mr);
	assert_in_range(bytes_read() - before, 0, COUNT * LEAST_LINE / 2);
	munmap(p, (COUNT + 2) * PAGE);
}

/* Registers memory in a child process that loses /proc before it deregisters. Returns the child's status. */
static int
end_without_proc(void)
{
	char empty[] = "/tmp/oneside-empty-XXXXXX";
	int status = -1;
	pid_t pid;

	assert_non_null(mkdtemp(empty));
	pid = fork();
	if (pid == 0) {
		const struct one_attach args = {.kind = ONE_KIND_DAT};
		struct one_client *client;
		struct one_mr mr;
		bool fine = one_attach(&args, &client) == 0 &&
			    one_mem_register(client, 0, (uintptr_t)pages(4), 4 * PAGE, ALL, &mr) == 0 &&
			    chroot(empty) == 0;

		if (fine) {
			one_mem_deregister(client, &mr);
			one_detach(client);
		}
		_exit(!fine);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	rmdir(empty);
	return status;
}

/* An attachment ends although its mappings can no longer be found. */
static void
test_chroot(void **state)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(end_without_proc(), 0);
}

static void
test_private_again(void **state)
{
	const size_t len = 64 * PAGE;
	uint8_t *p = pages(64);
	char path[64];
	struct one_mr mr;
	uint8_t seen = 0;
	int fd = -1;

	fill(p, len, 1);
	mr = reg(p, len);
	assert_true(is_shared(p));
	/* A descriptor of the memfd outlives the registration, like in a data plane that does not release the
	 * memory. */
	for (int i = 0; i < 256 && fd < 0; i++) {
		char name[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		if (readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "/memfd:oneside ") != NULL) {
			struct stat st;

			if (fstat(i, &st) == 0 && (size_t)st.st_size == len)
				fd = dup(i);
		}
	}
	assert_true(fd >= 0);
	p[100] = 1;
	assert_int_equal(pread(fd, &seen, 1, 100), 1);
	assert_int_equal(seen, 1);
	dereg(&mr);
	assert_false(is_shared(p));
	p[100] = 2;
	assert_int_equal(pread(fd, &seen, 1, 100), 1);
	assert_int_equal(seen, 1);
	assert_int_equal(pwrite(fd, "\x03", 1, 100), 1);
	assert_int_equal(p[100], 2);
	/* The pages are anonymous: after MADV_DONTNEED the kernel supplies zeros. */
	assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
	assert_int_equal(p[100], 0);
	close(fd);
	munmap(p, len);
}

static void
test_sealed_and_closed_on_exec(void **state)
{
	uint8_t *p = pages(300);
	struct one_mr large = reg(p, 200 * PAGE), small = reg(p + 250 * PAGE, PAGE);
	int seen = 0;

	for (int fd = 0; fd < 256; fd++) {
		char path[64], name[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, name, sizeof(name) - 1) <= 0 || strstr(name, "/memfd:oneside ") == NULL)
			continue;
		seen++;
		assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
				 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		assert_int_not_equal(ftruncate(fd, 0), 0);
	}
	assert_int_equal(seen, 2);
	dereg(&large);
	dereg(&small);
	munmap(p, 300 * PAGE);
}

static void
test_unaligned(void **state)
{
	const size_t offsets[] = {0, 1, 7, 4095}, lengths[] = {1, 2, 8, 4095, 4096, 4097, 12345};
	uint8_t *p = pages(8);

	for (size_t i = 0; i < 4; i++) {
		for (size_t j = 0; j < 7; j++) {
			struct one_mr mr;

			fill(p, 8 * PAGE, (uint32_t)(i + 100 * j));
			mr = reg(p + offsets[i], lengths[j]);
			assert_memory_equal(peer(&mr), p + offsets[i], lengths[j]);
			peer(&mr)[lengths[j] - 1] ^= 0xff;
			assert_memory_equal(peer(&mr), p + offsets[i], lengths[j]);
			p[offsets[i] + lengths[j] - 1] ^= 0xff;
			dereg(&mr);
			assert_true(is_filled(p, 8 * PAGE, (uint32_t)(i + 100 * j)));
		}
	}
	assert_int_equal(adopted_mappings(), 0);
	munmap(p, 8 * PAGE);
}

static void
test_overlapping_and_repeated(void **state)
{
	uint8_t *p = pages(16);
	struct one_mr a, b, c, same;

	fill(p, 16 * PAGE, 3);
	a = reg(p + 2 * PAGE + 10, 6 * PAGE); /* pages 2..8 */
	same = reg(p + 2 * PAGE + 10, 6 * PAGE);
	b = reg(p + 5 * PAGE, 8 * PAGE); /* pages 5..12: 5..8 are adopted already */
	c = reg(p, 16 * PAGE);           /* encloses all of the above */
	assert_memory_equal(peer(&c), p, 16 * PAGE);
	peer(&a)[5 * PAGE] = 0x11; /* page 7, byte 10 */
	assert_int_equal(peer(&b)[2 * PAGE + 10], 0x11);
	assert_int_equal(peer(&c)[7 * PAGE + 10], 0x11);
	assert_int_equal(peer(&same)[5 * PAGE], 0x11);
	assert_int_equal(p[7 * PAGE + 10], 0x11);
	dereg(&a);
	assert_true(is_shared(p + 3 * PAGE));
	dereg(&c);
	assert_false(is_shared(p));
	assert_false(is_shared(p + 14 * PAGE));
	assert_true(is_shared(p + 3 * PAGE)); /* held by `same` */
	assert_true(is_shared(p + 12 * PAGE));
	peer(&b)[0] = 0x22;
	assert_int_equal(p[5 * PAGE], 0x22);
	assert_int_equal(peer(&same)[3 * PAGE - 10], 0x22);
	dereg(&same);
	assert_true(is_shared(p + 5 * PAGE)); /* `b` holds the whole adopted range */
	dereg(&b);
	assert_int_equal(adopted_mappings(), 0);
	assert_int_equal(p[5 * PAGE], 0x22);
	assert_int_equal(p[7 * PAGE + 10], 0x11);
	munmap(p, 16 * PAGE);
}

static void
test_adjacent(void **state)
{
	uint8_t *p = pages(64);
	struct one_mr mr[64], all;

	/* Page by page, backwards, then all pages as one. */
	fill(p, 64 * PAGE, 4);
	for (int i = 63; i >= 0; i--)
		mr[i] = reg(p + i * (int)PAGE, PAGE);
	all = reg(p, 64 * PAGE);
	assert_memory_equal(peer(&all) != NULL ? peer(&all) : p, p, 64 * PAGE);
	for (int i = 0; i < 64; i++) {
		peer(&mr[i])[i] = (uint8_t)i;
		assert_int_equal(p[i * (int)PAGE + i], i);
	}
	dereg(&all);
	for (int i = 0; i < 64; i += 2)
		dereg(&mr[i]);
	for (int i = 0; i < 64; i++)
		assert_int_equal(is_shared(p + i * (int)PAGE), i % 2);
	for (int i = 1; i < 64; i += 2)
		dereg(&mr[i]);
	assert_int_equal(adopted_mappings(), 0);
	for (int i = 0; i < 64; i++)
		assert_int_equal(p[i * (int)PAGE + i], i);
	munmap(p, 64 * PAGE);
}

static void
test_several_pieces(void **state)
{
	/* Neighbours of different files: two large ranges with a small one between. */
	uint8_t *p = pages(100);
	struct one_mr a, b, all;

	fill(p, 100 * PAGE, 5);
	a = reg(p, 40 * PAGE);
	b = reg(p + 50 * PAGE, 50 * PAGE);
	all = reg(p, 100 * PAGE);
	assert_int_equal(pieces(&all), 3);
	assert_true(is_filled(peer(&all), 100 * PAGE, 5));
	fill(peer(&all), 100 * PAGE, 6);
	assert_true(is_filled(p, 100 * PAGE, 6));
	assert_memory_equal(peer(&b), p + 50 * PAGE, 50 * PAGE);
	dereg(&a);
	dereg(&all);
	dereg(&b);
	assert_true(is_filled(p, 100 * PAGE, 6));
	munmap(p, 100 * PAGE);
}

static void
test_many_small(void **state)
{
	enum { COUNT = 2000 };
	static struct one_mr mr[COUNT];
	static uint8_t *p[COUNT];
	uint64_t start = one_now_ns();

	for (int i = 0; i < COUNT; i++) {
		p[i] = malloc(5000);
		fill(p[i], 5000, (uint32_t)i);
		mr[i] = reg(p[i], 5000);
	}
	printf("%d registrations of 5000 bytes: %.0f us each\n", COUNT,
	       (double)(one_now_ns() - start) / COUNT / 1000);
	for (int i = 0; i < COUNT; i++) {
		assert_non_null(peer(&mr[i])); /* no bounced access */
		assert_memory_equal(peer(&mr[i]), p[i], 5000);
		assert_true(is_filled(p[i], 5000, (uint32_t)i));
	}
	assert_true(mock_regions(fixture.mock) < COUNT / 10);
	start = one_now_ns();
	for (int i = 0; i < COUNT; i++) {
		dereg(&mr[i]);
		assert_true(is_filled(p[i], 5000, (uint32_t)i));
		free(p[i]);
	}
	printf("deregistrations: %.0f us each\n", (double)(one_now_ns() - start) / COUNT / 1000);
	assert_int_equal(mock_count(fixture.mock, ONE_MSG_MR_FREE), COUNT);
}

static void
test_two_attachments(void **state)
{
	struct one_client *other = attach();
	uint8_t *p = pages(40);
	struct one_mr a, b, a2;

	a = reg(p, 40 * PAGE);
	assert_int_equal(one_mem_register(other, 0, (uintptr_t)p, 40 * PAGE, ALL, &b), 0);
	a2 = reg(p + PAGE, PAGE);
	assert_int_equal(mock_regions(fixture.mock), 2); /* one per attachment */
	peer(&a)[0] = 7;
	assert_int_equal(peer(&b)[0], 7);
	dereg(&a);
	dereg(&a2);
	assert_true(is_shared(p));
	assert_int_equal(mock_regions(fixture.mock), 1);
	peer(&b)[1] = 8;
	assert_int_equal(p[1], 8);
	/* The end of an attachment gives its memory back. */
	one_detach(other);
	assert_int_equal(adopted_mappings(), 0);
	assert_int_equal(p[0], 7);
	assert_int_equal(p[1], 8);
	munmap(p, 40 * PAGE);
}

static void
test_freed_before_deregistered(void **state)
{
	uint8_t *p = pages_apart(64), *q;
	struct one_mr mr = reg(p, 64 * PAGE), again;

	fill(p, 64 * PAGE, 1);
	/* The middle is unmapped, and another mapping is placed there. */
	assert_int_equal(munmap(p + 20 * PAGE, 10 * PAGE), 0);
	q = mmap(p + 22 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0);
	assert_ptr_equal(q, p + 22 * PAGE);
	q[0] = 0x55;
	/* The new pages can be registered next to the old registration. */
	again = reg(q, 4 * PAGE);
	assert_int_equal(peer(&again)[0], 0x55);
	dereg(&mr);
	assert_int_equal(q[0], 0x55);
	peer(&again)[1] = 0x66;
	assert_int_equal(q[1], 0x66);
	assert_true(is_filled(p, 20 * PAGE, 1));
	dereg(&again);
	assert_int_equal(adopted_mappings(), 0);
	/* The whole range is unmapped. */
	mr = reg(p, 20 * PAGE);
	munmap(p, 64 * PAGE);
	dereg(&mr);
}

static void
test_realloc_moves(void **state)
{
	const size_t len = 1 << 20;
	uint8_t *p = malloc(len), *grown;
	struct one_mr mr;

	/* realloc of a large block calls mremap: the adopted mapping moves with the block. */
	fill(p, len, 9);
	mr = reg(p, len);
	grown = realloc(p, 64 << 20);
	assert_non_null(grown);
	assert_true(is_filled(grown, len, 9));
	dereg(&mr);
	assert_true(is_filled(grown, len, 9));
	memset(grown, 1, 64 << 20);
	mr = reg(grown, 64 << 20);
	assert_memory_equal(peer(&mr), grown, 64 << 20);
	dereg(&mr);
	assert_int_equal(adopted_mappings(), 0);
	free(grown);
}

static void
test_malloc_around(void **state)
{
	/* Small blocks share their pages with many others, which are allocated and freed meanwhile. */
	enum { COUNT = 200 };
	struct one_mr mr[COUNT];
	uint8_t *p[COUNT], *noise[COUNT];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++) {
			p[i] = malloc(64 + (size_t)i);
			noise[i] = malloc(200);
			fill(p[i], 64 + (size_t)i, (uint32_t)i);
			mr[i] = reg(p[i], 64 + (size_t)i);
			assert_non_null(peer(&mr[i]));
		}
		for (int i = 0; i < COUNT; i++) {
			free(noise[i]);
			assert_memory_equal(peer(&mr[i]), p[i], 64 + (size_t)i);
			assert_true(is_filled(p[i], 64 + (size_t)i, (uint32_t)i));
		}
		for (int i = 0; i < COUNT; i++) {
			dereg(&mr[i]);
			free(p[i]);
		}
		assert_int_equal(adopted_mappings(), 0);
	}
}

static void
test_protections(void **state)
{
	uint8_t *p = pages(60);
	struct one_mr mr;

	fill(p, 60 * PAGE, 2);
	assert_int_equal(mprotect(p + 20 * PAGE, 20 * PAGE, PROT_READ), 0);
	/* Read-only pages in the middle allow no right to write. */
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 60 * PAGE, ALL, &mr), -EFAULT);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p + 25 * PAGE, 10,
					  ONE_ACCESS_REMOTE_WRITE, &mr),
			 -EFAULT);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 60 * PAGE,
					  ONE_ACCESS_LOCAL_READ | ONE_ACCESS_REMOTE_READ, &mr),
			 0);
	assert_int_equal(pieces(&mr), 3);
	assert_true(is_filled(peer(&mr), 60 * PAGE, 2));
	p[0] = 1;
	assert_int_equal(peer(&mr)[0], 1);
	dereg(&mr);
	/* Protections are unchanged. */
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p + 20 * PAGE, 1, ALL, &mr), -EFAULT);
	mr = reg(p, 20 * PAGE);
	dereg(&mr);
	/* A protection changed during the registration stays when the pages are given back. */
	mr = reg(p, 20 * PAGE);
	assert_int_equal(mprotect(p, 20 * PAGE, PROT_NONE), 0);
	dereg(&mr);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 1, ONE_ACCESS_LOCAL_READ, &mr),
			 -EFAULT);
	assert_int_equal(mprotect(p, 20 * PAGE, PROT_READ), 0);
	assert_int_equal(p[0], 1);
	assert_int_equal(adopted_mappings(), 0);
	munmap(p, 60 * PAGE);
}

static void
test_bad_ranges(void **state)
{
	/* Map far from where the kernel places mappings by itself, so that the hole stays a hole. */
	uint8_t *p = mmap((void *)0x200000000000, 4 * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	struct one_mr mr;

	assert_ptr_not_equal(p, MAP_FAILED);
	munmap(p + 2 * PAGE, PAGE);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 4 * PAGE, ALL, &mr), -EFAULT);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 2 * PAGE + 1, ALL, &mr), -EFAULT);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 0, ALL, &mr), -EINVAL);
	assert_int_equal(one_mem_register(fixture.client, 0, UINT64_MAX - 10, 100, ALL, &mr), -EINVAL);
	assert_int_equal(one_mem_register(fixture.client, 0, 0xffff800000000000u, 100, ALL, &mr), -EFAULT);
	assert_int_equal(one_mem_register(fixture.client, 0, 0, 100, ALL, &mr), -EFAULT);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, UINT64_MAX / 4, ALL, &mr),
			 -EDQUOT);
	/* A refused registration adopts nothing. */
	assert_int_equal(adopted_mappings(), 0);
	assert_int_equal(mock_count(fixture.mock, ONE_MSG_MR_CREATE), 0);
	munmap(p, 4 * PAGE);
}

static void
test_refusals_undo(void **state)
{
	uint8_t *p = pages(40);
	struct one_mr mr;

	fill(p, 40 * PAGE, 1);
	mock_refuse(fixture.mock, ONE_MSG_REGION_ADD, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 1);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 40 * PAGE, ALL, &mr), -EDQUOT);
	assert_int_equal(adopted_mappings(), 0);
	mock_refuse(fixture.mock, ONE_MSG_MR_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 1);
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, 40 * PAGE, ALL, &mr), -EDQUOT);
	assert_int_equal(adopted_mappings(), 0);
	assert_int_equal(mock_regions(fixture.mock), 0);
	/* The region stays registered, for example while bound to a window. */
	mr = reg(p, 40 * PAGE);
	mock_refuse(fixture.mock, ONE_MSG_MR_FREE, -EBUSY, ONE_SUBJECT_MR, 0, 1);
	assert_int_equal(one_mem_deregister(fixture.client, &mr), -EBUSY);
	peer(&mr)[0] = 0x77;
	assert_int_equal(p[0], 0x77);
	dereg(&mr);
	assert_int_equal(adopted_mappings(), 0);
	munmap(p, 40 * PAGE);
}

static void
test_data_plane_dies(void **state)
{
	uint8_t *p = pages(40);
	struct one_mr mr;

	fill(p, 40 * PAGE, 1);
	mr = reg(p, 40 * PAGE);
	mock_kill(fixture.mock);
	while (!one_client_dead(fixture.client))
		usleep(1000);
	/* The application's memory becomes private nevertheless. */
	assert_int_equal(one_mem_deregister(fixture.client, &mr), -ECONNRESET);
	assert_int_equal(adopted_mappings(), 0);
	assert_true(is_filled(p, 40 * PAGE, 1));
	assert_int_equal(one_mem_register(fixture.client, 0, (uintptr_t)p, PAGE, ALL, &mr), -ECONNRESET);
	munmap(p, 40 * PAGE);
}

int
main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_both_see_both),
		TEST(test_mappings_merge),
		TEST(test_list_is_not_read),
		TEST(test_chroot),
		TEST(test_private_again),
		TEST(test_sealed_and_closed_on_exec),
		TEST(test_unaligned),
		TEST(test_overlapping_and_repeated),
		TEST(test_adjacent),
		TEST(test_several_pieces),
		TEST(test_many_small),
		TEST(test_two_attachments),
		TEST(test_freed_before_deregistered),
		TEST(test_realloc_moves),
		TEST(test_malloc_around),
		TEST(test_protections),
		TEST(test_bad_ranges),
		TEST(test_refusals_undo),
		TEST(test_data_plane_dies),
	};

	restrict_program(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

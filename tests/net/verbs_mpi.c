/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program that checks what it receives: a ring, all-to-all with several lengths, one-sided puts,
 * gets and sums. verbs_mpi.sh builds it with whichever MPI is installed.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

static void
check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void
ring(void)
{
	int token = 0, left = (rank + size - 1) % size, right = (rank + 1) % size;

	for (int round = 0; round < 20; round++) {
		if (rank == 0) {
			token++;
			MPI_Send(&token, 1, MPI_INT, right, round, MPI_COMM_WORLD);
		}
		MPI_Recv(&token, 1, MPI_INT, left, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank != 0) {
			token++;
			MPI_Send(&token, 1, MPI_INT, right, round, MPI_COMM_WORLD);
		}
	}
	check(rank != 0 || token == 20 * size, "the ring");
}

static void
all_to_all(int count)
{
	int *out = calloc((size_t)size * count, sizeof(int)), *in = calloc((size_t)size * count, sizeof(int));

	check(out != NULL && in != NULL, "no memory");
	for (int i = 0; i < size * count; i++)
		out[i] = rank * 1000003 + i;
	MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD);
	for (int peer = 0; peer < size; peer++)
		for (int i = 0; i < count; i++)
			check(in[peer * count + i] == peer * 1000003 + rank * count + i, "all to all");
	free(out);
	free(in);
}

static void
one_sided(void)
{
	int *base, value = rank + 1, right = (rank + 1) % size, left = (rank + size - 1) % size, got = 0;
	MPI_Win win;

	MPI_Win_allocate((MPI_Aint)(3 * sizeof(int)), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base,
			 &win);
	base[0] = base[1] = 0;
	base[2] = 100 + rank;
	MPI_Win_fence(0, win);
	MPI_Put(&value, 1, MPI_INT, right, 0, 1, MPI_INT, win);
	MPI_Get(&got, 1, MPI_INT, right, 2, 1, MPI_INT, win);
	MPI_Accumulate(&value, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, win);
	MPI_Win_fence(0, win);
	check(base[0] == left + 1, "put");
	check(got == 100 + right, "get");
	check(rank != 0 || base[1] == size * (size + 1) / 2, "accumulate");
	MPI_Win_free(&win);
}

int
main(int argc, char **argv)
{
	static const int counts[] = {1, 100, 5000, 100000};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	ring();
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		all_to_all(counts[i]);
	one_sided();
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("all %d ranks agree\n", size);
	MPI_Finalize();
	return 0;
}

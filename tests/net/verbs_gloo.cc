/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_gloo RANK SIZE FOLDER verbs|tcp: a rank of gloo that checks each sum and each broadcast.  The
 * ranks find each other by files in FOLDER.  run.sh builds this program where libgloo-dev is installed.
 */
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

using Context = std::shared_ptr<gloo::Context>;

/*
 * gloo aborts a program that destroys an algorithm whose sends have not completed.  Therefore algorithms
 * and buffers live until all ranks are done.
 */
static std::vector<std::unique_ptr<gloo::Algorithm>> algorithms;
static std::deque<std::vector<int>> buffers;

static void
check(bool good, const char *what, size_t count)
{
	if (good)
		return;
	fprintf(stderr, "%s of %zu integers: a value differs\n", what, count);
	exit(1);
}

template <class Algorithm>
static void
sum_up(const Context &context, const char *what, size_t count)
{
	std::vector<int> &data = buffers.emplace_back(count);
	const int size = context->size;

	algorithms.emplace_back(new Algorithm(context, {data.data()}, (int)count));

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < count; i++)
			data[i] = (int)i * (context->rank + 1) + round;
		algorithms.back()->run();
		for (size_t i = 0; i < count; i++)
			check(data[i] == (int)i * (size * (size + 1) / 2) + round * size, what, count);
	}
}

static void
broadcast(const Context &context, size_t count)
{
	std::vector<int> &data = buffers.emplace_back(count);

	algorithms.emplace_back(new gloo::BroadcastOneToAll<int>(context, {data.data()}, (int)count, 0));

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < count; i++)
			data[i] = context->rank == 0 ? (int)i + round : -1;
		algorithms.back()->run();
		for (size_t i = 0; i < count; i++)
			check(data[i] == (int)i + round, "broadcast", count);
	}
}

static std::shared_ptr<gloo::transport::Device>
open_device(const char *transport)
{
	if (strcmp(transport, "tcp") == 0)
		return gloo::transport::tcp::CreateDevice("127.0.0.1");
	return gloo::transport::ibverbs::CreateDevice({"", 1, 0});
}

int
main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	auto context = std::make_shared<gloo::rendezvous::Context>(atoi(argv[1]), atoi(argv[2]));
	gloo::rendezvous::FileStore store(argv[3]);

	auto device = open_device(argv[4]);
	context->connectFullMesh(store, device);
	auto begin = std::chrono::steady_clock::now();
	for (size_t count : {1, 1000, 100000}) {
		sum_up<gloo::AllreduceRingChunked<int>>(context, "ring", count);
		sum_up<gloo::AllreduceHalvingDoubling<int>>(context, "halving and doubling", count);
		broadcast(context, count);
	}
	std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
	printf("rank %s of %s agrees after %.2f s\n", argv[1], argv[2], took.count());
	fflush(stdout);
	store.set(std::string("done-") + argv[1], {1});
	for (int rank = 0; rank < context->size; rank++)
		store.wait({"done-" + std::to_string(rank)});
	return 0;
}

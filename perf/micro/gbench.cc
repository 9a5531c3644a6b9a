/* SPDX-License-Identifier: BSD-3-Clause */
#include "gbench.h"

#include <benchmark/benchmark.h>

struct gbench_state {
	benchmark::State *state;
};

static benchmark::internal::Benchmark *
enroll(const char *name, gbench_fn fn, void *user)
{
	return benchmark::RegisterBenchmark(name, [fn, user](benchmark::State &state) {
		gbench_state wrapped = {&state};

		fn(&wrapped, user);
	});
}

extern "C" void
gbench_register(const char *name, gbench_fn fn, void *user, const int64_t *args, uint32_t n)
{
	auto *b = enroll(name, fn, user);

	for (uint32_t i = 0; i < n; i++)
		b->Arg(args[i]);
}

extern "C" void
gbench_register_once(const char *name, gbench_fn fn, void *user, int64_t iterations)
{
	enroll(name, fn, user)->Iterations(iterations);
}

extern "C" bool
gbench_running(struct gbench_state *state)
{
	return state->state->KeepRunning();
}

extern "C" int64_t
gbench_arg(const struct gbench_state *state)
{
	return state->state->range(0);
}

extern "C" uint64_t
gbench_iterations(const struct gbench_state *state)
{
	return static_cast<uint64_t>(state->state->iterations());
}

extern "C" void
gbench_set_items(struct gbench_state *state, uint64_t items)
{
	state->state->SetItemsProcessed(static_cast<int64_t>(items));
}

extern "C" void
gbench_set_bytes(struct gbench_state *state, uint64_t bytes)
{
	state->state->SetBytesProcessed(static_cast<int64_t>(bytes));
}

extern "C" void
gbench_set_counter(struct gbench_state *state, const char *name, double value)
{
	state->state->counters[name] = benchmark::Counter(value);
}

extern "C" void
gbench_skip(struct gbench_state *state, const char *why)
{
	state->state->SkipWithError(why);
}

extern "C" int
gbench_main(int argc, char **argv)
{
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 1;
	benchmark::RunSpecifiedBenchmarks();
	benchmark::Shutdown();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Google Benchmark for C: the part that perf/micro_*.c uses. */
#ifndef PERF_GBENCH_H
#define PERF_GBENCH_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gbench_state;
typedef void (*gbench_fn)(struct gbench_state *state, void *user);

/* Registers a benchmark; with `args`, a run for each of the n values. */
void gbench_register(const char *name, gbench_fn fn, void *user, const int64_t *args, uint32_t n);
/*
 * Registers a benchmark that runs once, with a fixed number of iterations, because starting it takes long.
 * Google Benchmark appends "/iterations:N" to the name.
 */
void gbench_register_once(const char *name, gbench_fn fn, void *user, int64_t iterations);
/* while (gbench_running(state)) { work } */
bool gbench_running(struct gbench_state *state);
int64_t gbench_arg(const struct gbench_state *state);
/* Totals of all iterations: set them after the loop. */
uint64_t gbench_iterations(const struct gbench_state *state);
void gbench_set_items(struct gbench_state *state, uint64_t items);
void gbench_set_bytes(struct gbench_state *state, uint64_t bytes);
/* Adds a custom counter to the output. */
void gbench_set_counter(struct gbench_state *state, const char *name, double value);
void gbench_skip(struct gbench_state *state, const char *why);
/* Runs the registered benchmarks with Google Benchmark's options. Returns the exit status. */
int gbench_main(int argc, char **argv);

/* Keeps the compiler from removing the computation of a value. */
#define gbench_use(value) __asm__ volatile("" : : "g"(value) : "memory")

#ifdef __cplusplus
}
#endif

#endif

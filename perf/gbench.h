/* SPDX-License-Identifier: BSD-3-Clause */
/* Google Benchmark for C: what perf/micro_*.c needs of it. */
#ifndef PERF_GBENCH_H
#define PERF_GBENCH_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gbench_state;
typedef void (*gbench_fn)(struct gbench_state *state, void *user);

/* Registers one benchmark; with `args` it is run for each of the n values. */
void gbench_register(const char *name, gbench_fn fn, void *user, const int64_t *args, uint32_t n);
/* One that is run once, that many times: for what is long in starting.  Its name gets "/iterations:N". */
void gbench_register_once(const char *name, gbench_fn fn, void *user, int64_t iterations);
/* while (gbench_running(state)) { work } */
bool gbench_running(struct gbench_state *state);
int64_t gbench_arg(const struct gbench_state *state);
/* Totals, set after the loop. */
uint64_t gbench_iterations(const struct gbench_state *state);
void gbench_set_items(struct gbench_state *state, uint64_t items);
void gbench_set_bytes(struct gbench_state *state, uint64_t bytes);
/* A figure of its own in the output. */
void gbench_set_counter(struct gbench_state *state, const char *name, double value);
void gbench_skip(struct gbench_state *state, const char *why);
/* Runs what was registered, with Google Benchmark's options; returns the exit status. */
int gbench_main(int argc, char **argv);

/* Keeps the compiler from removing the computation of a value. */
#define gbench_use(value) __asm__ volatile("" : : "g"(value) : "memory")

#ifdef __cplusplus
}
#endif

#endif

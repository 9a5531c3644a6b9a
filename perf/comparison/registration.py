# SPDX-License-Identifier: BSD-3-Clause
"""Measures the cost of registering memory, and mlock and memcpy of the same amount."""
from .rows import LOWER

GROUP = "Registering memory"
SIZES = ((4096, "4 KiB"), (1 << 20, "1 MiB"), (16 << 20, "16 MiB"), (1 << 30, "1 GiB"))


def measured(context, bench, size):
    """Returns a function that measures one slice: oneside-rates takes the least of its rounds, each on new memory."""
    rounds = 1 if size >= 1 << 30 else 5
    return lambda: bench.rates(["reg_lat", "-s", size, "-n", rounds], context.layout.application, serve=False)[-1]


def once(context, bench, size):
    return lambda: bench.rates(["once_lat", "-s", size, "-n", 100 if context.quick else 300,
                                *context.layout.latency_options], context.layout.application)[-1]["latency_ns"]


def registration(context, rows, bench, turns):
    """Measures all; turns: the function of work.py."""
    sizes = SIZES[:-1] if context.quick else SIZES
    slices = turns(rows, bench, GROUP, {name: measured(context, bench, size) for size, name in sizes}, {})
    for size, name in sizes:
        def of(key, name=name):
            return slices.of(name, lambda run: run[key])

        hops = slices.hops(name)
        request = ("bare request", of("socket_us"), "us")
        rows.add(GROUP, f"{name}, first time", of("first_us"), "us", 500000 if size >= 1 << 30 else None, LOWER,
                 [("mlock", of("mlock_us"), "us"), ("memcpy to new", of("memcpy_us"), "us")], hops=hops)
        if size >= 1 << 20:
            rows.ratio(GROUP, f"{name}, first time: rate / memcpy",
                       slices.of(name, lambda run: run["memcpy_us"] / run["first_us"]), "of memcpy", 0.7, hops=hops)
        rows.add(GROUP, f"{name}, untouched", of("untouched_us"), "us", hops=hops)
        rows.add(GROUP, f"{name}, again", of("again_us"), "us", 10, LOWER, [request], hops=hops)
        rows.add(GROUP, f"{name}, deregistered", of("free_us"), "us", 5, LOWER, [request], hops=hops)
        rows.add(GROUP, f"{name}, unmapped while cached", of("munmap_us"), "us", hops=hops)
    first = turns(rows, bench, GROUP, {name: once(context, bench, size) for size, name in SIZES[:2]}, {})
    for _, name in SIZES[:2]:
        rows.add(GROUP, f"{name}: filled, registered, written once, deregistered",
                 first.of(name, lambda run: run["p50"] / 1e3), "us", hops=first.hops(name))

# SPDX-License-Identifier: BSD-3-Clause
"""Measures memory that cannot be shared with the data plane, which the library copies, alternately with shared memory."""
from . import verbs
from .machine import Hugepages
from .process import Failed
from .rows import HIGHER

GROUP = "Memory that is copied"
TESTS = (("write_bw", "RDMA writes"), ("send_bw", "sends"))
SIZES = ((1 << 20, "1 MiB", 16, 0.4), (4096, "4 KiB", 128, 0.25))

# name: (test of ucx_perftest, size, count), title, factor from operations per second to the unit, unit
UCX_WORKS = {"small": (("tag_bw", 64, 30000), "UCX tagged messages of 64 B", 1e-6, "M/s"),
             "large": (("tag_bw", 1 << 20, 200), "UCX tagged messages of 1 MiB", (1 << 20) / 1e9, "GB/s")}
UCX_TESTS = {name: work[0] for name, work in UCX_WORKS.items()}
UCX_BAR = 0.5
UCX_HUGEPAGES = 128  # for the buffers and pools of both programs


def by_ucx(context, rows, bench, turns):
    """Measures UCX with its default memory, which is System V shared memory with hugepages, and with shared memory."""
    huge = Hugepages(True, UCX_HUGEPAGES)
    try:
        if not huge.available:
            raise Failed(f"UCX with its default memory: {UCX_HUGEPAGES} hugepages of 2 MiB are not available")
        slices = turns(rows, bench, GROUP, {
            "shared": lambda: verbs.ucx(context, bench, UCX_TESTS, verbs.UCX_ENVIRONMENT),
            "copied": lambda: verbs.ucx(context, bench, UCX_TESTS, verbs.UCX_BY_DEFAULT)}, {})
    finally:
        huge.restore()
    hops = slices.hops("copied")
    for name, (_, what, scale, unit) in UCX_WORKS.items():
        def value(result, n=name, s=scale):
            return result[n][1] * s

        rows.add(GROUP, f"{what}, System V", slices.of("copied", value), unit, hops=hops,
                 rivals=[("shared", slices.of("shared", value), unit)])
        rows.ratio(GROUP, f"{what}, System V / shared",
                   slices.of_pairs("copied", "shared", lambda a, b, v=value: v(a) / v(b)), "of shared memory", UCX_BAR,
                   HIGHER, hops=hops)


def copied(context, rows, bench, turns):
    """Measures all; turns: the function of work.py."""
    by_perf(context, rows, bench, turns)
    by_ucx(context, rows, bench, turns)


def by_perf(context, rows, bench, turns):
    for test, verb in TESTS:
        for size, name, depth, bar in SIZES:
            def rate(*more, t=test, s=size, d=depth):
                return lambda: bench.perf([t, "--tx-depth", d, *more], context.layout.application, s)["MBps"] / 1e3

            functions = {"shared": rate(), "sender": rate("--copied"), "receiver": rate("--copied-server")}
            slices = turns(rows, bench, GROUP, functions, {})
            for end in ("sender", "receiver"):
                hops = slices.hops(end)
                rows.add(GROUP, f"{verb} of {name}, {end} copied", slices.values(end), "GB/s", hops=hops,
                         rivals=[("shared", slices.values("shared"), "GB/s")])
                rows.ratio(GROUP, f"{verb} of {name}, {end} copied / shared",
                           slices.ratios(end, "shared"), "of shared memory", bar, HIGHER, hops=hops)

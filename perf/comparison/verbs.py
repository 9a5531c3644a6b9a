# SPDX-License-Identifier: BSD-3-Clause
"""Measures unmodified perftest and UCX on oneside's libibverbs, alternately with oneside-perf on the same two data planes
and with UCX over TCP."""
import os

from . import rivals
from .process import Background, Failed, run, wait_for_port
from .rivals import SECONDS, free_port, need
from .rows import LOWER

GROUP = "Programs of verbs over memif"
SIZES = ((8, "8 B"), (4096, "4 KiB"), (1 << 20, "1 MiB"))
WORKS = {8: (1024, 64, 2e6, "M/s"), 4096: (256, 16, 5e5, "GB/s"), 1 << 20: (4, 1, 3e3, "GB/s")}
BANDWIDTH_COLUMNS = 5  # bytes, iterations, peak MB/s, MB/s (decimal), million operations per second
LATENCY_COLUMNS = 9    # bytes, iterations, us: least, most, typical, average, deviation, 99 %, 99.9 %
# title: test of ucx_perftest, size, count; index in the result of rivals.ucx (us, operations per second), factor, unit
UCX_WORKS = {"UCX put of 64 B": ("ucp_put_bw", 64, 30000, 1, 1e-6, "M/s"),
             "UCX put of 1 MiB": ("ucp_put_bw", 1 << 20, 200, 1, (1 << 20) / 1e9, "GB/s"),
             "UCX put of 8 B, half a round trip": ("ucp_put_lat", 8, 3000, 0, 1, "us"),
             "UCX tagged messages of 64 B": ("tag_bw", 64, 30000, 1, 1e-6, "M/s"),
             "UCX tagged messages of 1 MiB": ("tag_bw", 1 << 20, 200, 1, (1 << 20) / 1e9, "GB/s"),
             "UCX tagged message of 8 B, half a round trip": ("tag_lat", 8, 3000, 0, 1, "us")}
UCX_TESTS = {f"test{i}": work[:3] for i, work in enumerate(UCX_WORKS.values())}

# oneside-run makes UCX allocate memory that a data plane can map.  UCX's own choice is System V shared memory if there are
# hugepages, which is copied (doc/verbs.md, "UCX").
UCX_ENVIRONMENT = {"UCX_NET_DEVICES": "p0:1"}
UCX_BY_DEFAULT = {**UCX_ENVIRONMENT, "UCX_ALLOC_PRIO": "md:sysv,md:posix,huge,thp,md:*,mmap,heap",
                  **dict.fromkeys(("UCX_RC_VERBS_ALLOC", "UCX_UD_VERBS_ALLOC"), "huge,thp,md,mmap,heap")}


def started(context, plane):
    """Returns a command prefix that runs a program on that data plane."""
    return [os.path.join(context.build, "api", "verbs", "oneside-run"), "--socket", plane.socket]


def perftest(context, bench, program, size, options, columns):
    """Runs a pair of perftest's programs, and returns the line of figures."""
    need(program)
    port = free_port(context)
    command = [program, "-F", "-s", str(size), "-p", str(port), *options]
    server = Background([*started(context, bench.far), *command], os.path.join(context.directory, f"{program}.log"), None,
                        context.layout.server)
    try:
        wait_for_port(port, server)
        out = run([*started(context, bench.near), *command, "127.0.0.1"], SECONDS, None, context.layout.application)
        server.finish(10)
    finally:
        server.stop()
    for line in out.splitlines():
        field = line.split()
        if len(field) == columns and field[0] == str(size):
            return [float(x) for x in field]
    raise Failed(f"{program}: {out.strip()[-200:]}")


def ib_write_bw(context, bench, size):
    """Returns the WRITEs per second of ib_write_bw."""
    depth, every, rate, _ = WORKS[size]
    options = ["-t", str(depth), "-Q", str(every), "-n", str(max(depth, int(rate * context.seconds) // depth * depth))]
    return perftest(context, bench, "ib_write_bw", size, options, BANDWIDTH_COLUMNS)[4] * 1e6


def half_a_round_trip(context, bench, program, size):
    """Returns the typical half of a round trip in us."""
    return perftest(context, bench, program, size, ["-n", "3000"], LATENCY_COLUMNS)[4]


def ucx(context, bench, tests, environment):
    """Runs rivals.ucx over verbs."""
    return rivals.ucx(context, "rc_verbs,ud_verbs,self", tests, environment,
                      started(context, bench.far), started(context, bench.near))


def bandwidths(context, rows, bench, turns):
    for size, name in SIZES:
        depth, every, _, unit = WORKS[size]
        scale = 1e-6 if size == 8 else size / 1e9
        slices = turns(rows, bench, GROUP, {
            "perftest": lambda s=size: ib_write_bw(context, bench, s),
            "ours": lambda s=size, d=depth, q=every: bench.perf(
                ["write_bw", "--tx-depth", d, "-Q", q], context.layout.application, s)["ops"]}, {})
        hops = slices.hops("perftest")
        rows.add(GROUP, f"ib_write_bw, {name}", slices.of("perftest", lambda x, f=scale: x * f), unit, hops=hops,
                 rivals=[("oneside-perf", slices.of("ours", lambda x, f=scale: x * f), unit)])
        rows.ratio(GROUP, f"ib_write_bw, {name} / oneside-perf", slices.ratios("perftest", "ours"), "of oneside-perf", 0.9,
                   hops=hops)


def latencies(context, rows, bench, turns):
    # ib_write_lat polls its memory without yielding: it needs its own processor.
    program, ours = ("ib_write_lat", "write_pp") if context.layout.spare else ("ib_send_lat", "send_pp")
    for size, name in SIZES:
        slices = turns(rows, bench, GROUP, {
            "perftest": lambda s=size: half_a_round_trip(context, bench, program, s),
            "ours": lambda s=size: bench.perf([ours], context.layout.application, s)["latency_ns"]["p50"] / 1e3}, {})
        hops = slices.hops("perftest")
        rows.add(GROUP, f"{program}, {name}", slices.values("perftest"), "us", better=LOWER, hops=hops,
                 rivals=[(f"oneside-perf {ours}", slices.values("ours"), "us")])
        rows.ratio(GROUP, f"{program}, {name} / oneside-perf", slices.ratios("perftest", "ours"), "of oneside-perf", 1.1,
                   LOWER, hops=hops)


def by_ucx(context, rows, bench, turns):
    slices = turns(rows, bench, GROUP, {"verbs": lambda: ucx(context, bench, UCX_TESTS, UCX_ENVIRONMENT)},
                   {"tcp": lambda: rivals.ucx(context, "tcp", UCX_TESTS)})
    hops = slices.hops("verbs")
    for i, (work, (_, _, _, column, scale, unit)) in enumerate(UCX_WORKS.items()):
        def value(result, t=f"test{i}", c=column, s=scale):
            return result[t][c] * s

        better = LOWER if unit == "us" else "higher"
        rows.add(GROUP, f"{work}, over verbs", slices.of("verbs", value), unit, better=better, hops=hops,
                 rivals=[("UCX over tcp", slices.of("tcp", value), unit)])
        rows.ratio(GROUP, f"{work}, over verbs / tcp",
                   slices.of_pairs("verbs", "tcp", lambda a, b, v=value: v(a) / v(b)), "of tcp", better=better, hops=hops)


def programs(context, rows, bench, turns):
    """Measures all; turns: the function of work.py."""
    bandwidths(context, rows, bench, turns)
    latencies(context, rows, bench, turns)
    by_ucx(context, rows, bench, turns)

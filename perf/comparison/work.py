# SPDX-License-Identifier: BSD-3-Clause
"""The work that is compared, and oneside's requirements for each."""
import contextlib
import os
import re
import time

from . import machine, rivals
from .esp import esp
from .planes import Bench
from .process import Background, Failed
from .copied import copied
from .cores import cores
from .registration import registration
from .rows import LOWER, ORDINARY, middle
from .takeover import takeover
from .verbs import programs

WINDOW = ["--tx-depth", 256, "-Q", 16]
# With one endpoint across two data planes, application and polling core alternate on a processor. A depth of 256 is used
# up before the first acknowledgement arrives.
DEEP = ["--tx-depth", 1024, "-Q", 64]
# Few operations of 1 MiB suffice until the next is posted; the buffers of more would leave the caches.
FEW = ["--tx-depth", 4]
LARGE = 1 << 20

ALONE = "One host, through the rings of one data plane"
MAPPED = "One host, a mapped RSM segment"
CONTROL = "Binds, connections, many endpoints"
ACROSS = "Two data planes over memif"
SLEEPING = "An idle data plane, --idle sleep"
MEMIF, RINGS, MAPPED_PUT = "oneside over memif", "oneside through the rings", "oneside, mapped RSM put"  # lines of plots
COMPLETED = ", write to completion"
SIMULATED = "The transport in the simulator: 100 Gb/s, round trip 50 us"


def count_for(size, rate, bytes_a_second, seconds):
    """Returns a number of operations that take about that long."""
    return max(100, int(seconds * min(rate, bytes_a_second / size)))


# ---- two data planes ----

SMALL_FRAME = 138  # bytes on the wire for a WRITE of 64 bytes


def small_writes(context, rows, bench):
    near = context.layout.application

    def rate(*more):
        return lambda: bench.perf(["write_bw", *more], near, 64)["ops"] / 1e6

    works = {"64 B RDMA writes, one endpoint": DEEP, "64 B RDMA writes, 16 endpoints": (*WINDOW, "-q", 16),
             "64 B RDMA writes, both directions, one endpoint each": (*WINDOW, "-b")}
    functions = {work: rate(*more) for work, more in works.items()}
    functions["64 B sends, one endpoint"] = lambda: bench.perf(["send_bw", *WINDOW], near, 64)["ops"] / 1e6
    with raw(context, rows, bench, SMALL_FRAME) as frames:
        slices = turns(rows, bench, ACROSS, functions, {"testpmd": frames})
    moved = slices.of("testpmd", lambda x: x / 1e6)
    aims = {"64 B RDMA writes, one endpoint": 0.5, "64 B RDMA writes, 16 endpoints": 0.7}
    for work in functions:
        rows.add(ACROSS, work, slices.values(work), "M/s", hops=slices.hops(work),
                 rivals=[("testpmd", moved, "M/s")] if work in aims else ())
        if work in aims:
            rows.ratio(ACROSS, f"{work} / testpmd", slices.ratios(work, "testpmd", 1e6),
                       "of testpmd", aims[work], hops=slices.hops(work))
    if moved:
        rows.point("bandwidth", "testpmd, payload in frames over memif", 64, middle(moved) * 64 / 1e3)
    one, sixteen = (slices.of(f"64 B RDMA writes, {n}", float) for n in ("one endpoint", "16 endpoints"))
    rows.points("bandwidth", MEMIF, {64: one and [x * 64 / 1e3 for x in one]})
    rows.points("endpoints", MEMIF, {1: one, 16: sixteen})
    rows.explain("64 B RDMA writes over memif", lambda: bench.explain(["write_bw", *DEEP], near, 64))


@contextlib.contextmanager
def raw(context, rows, bench, frame):
    """Yields a function that returns testpmd's rate, or fails with the reason; testpmd runs meanwhile."""
    def missing():
        raise Failed(f"dpdk-testpmd: {reason}")

    with bench.paused():
        testpmd = rivals.TestPmd(context, frame)
        try:
            testpmd.__enter__()
        except Failed as error:
            testpmd, reason = None, str(error)
    try:
        yield missing if testpmd is None else lambda: testpmd.rate(context.seconds)
    finally:
        if testpmd is not None:
            testpmd.__exit__()


def turns(rows, bench, group, ours, others):
    """Measures slices of ours and of others alternately; the data planes are stopped during the others' slices."""
    alone = {name: bench.alone(function) for name, function in others.items()}
    hop, rows.hop = rows.hop, rows.hop and bench.alone(rows.hop)
    try:
        return rows.in_turn(group, {**ours, **alone})
    finally:
        rows.hop = hop


def large(context, rows, bench, mtu, bar, reads=False):
    """Measures transfers of 1 MiB with that path MTU, and testpmd with frames of that length."""
    near, frame = context.layout.application, mtu + 58
    work = f"1 MiB RDMA writes, path MTU {mtu}"

    def bandwidth(test, *window):
        return lambda: bench.perf([test, *window], near, LARGE)["MBps"] / 1e3

    functions = {"writes": bandwidth("write_bw", *FEW)}
    if reads:
        functions.update({test: bandwidth(name, "--tx-depth", 16)
                          for test, name in (("reads", "read_bw"), ("puts", "put_bw"))})
    with raw(context, rows, bench, frame) as frames:
        slices = turns(rows, bench, ACROSS, functions,
                       {"testpmd": frames, TCP: lambda: rivals.iperf(context, LARGE) / 1e9})
    moved, hops = slices.of("testpmd", lambda x: x * frame / 1e9), slices.hops("writes")
    rows.add(ACROSS, work, slices.values("writes"), "GB/s", hops=hops,
             rivals=[("testpmd", moved, "GB/s"), (TCP, slices.values(TCP), "GB/s")])
    rows.ratio(ACROSS, f"{work} / testpmd",
               slices.ratios("writes", "testpmd", 1e9 / frame), "of testpmd", bar, hops=hops)
    rows.ratio(ACROSS, f"{work} / {TCP}", slices.ratios("writes", TCP), "of kernel TCP", 2, hops=hops)
    if reads:
        rows.add(ACROSS, f"1 MiB RDMA reads, path MTU {mtu}", slices.values("reads"), "GB/s",
                 hops=slices.hops("reads"))
        rows.ratio(ACROSS, "1 MiB RDMA reads / writes", slices.ratios("reads", "writes"), "of writes", 0.9,
                   hops=slices.hops("reads"))
        rows.add(ACROSS, "RSM puts of 1 MiB in spans", slices.values("puts"), "GB/s", hops=slices.hops("puts"))
    if moved:
        rows.point("bandwidth", "testpmd, payload in frames over memif", mtu, middle(moved) * mtu / frame)
    if mtu == 4096:
        rows.points("bandwidth", MEMIF, {LARGE: slices.values("writes")})
        rows.points("bandwidth", TCP, {LARGE: slices.values(TCP)})
    rows.explain(f"{work}, over memif", lambda: bench.explain(["write_bw", *FEW], near, LARGE))


TCP = "kernel TCP (iperf3)"
BARE = "bare relay"
FRAMES = "bare frame relay"
GAPS = "late rounds"
WRITE_LATENCY, PUT_LATENCY = "8 B RDMA write, post to completion", "RSM put of 8 B, implicit mode"


def latencies(context, rows, bench):
    """Measures latencies, and in the same rounds three bare processes, to separate the machine's share."""
    far = context.layout.latency_application
    works = {WRITE_LATENCY: ("write_lat", *context.layout.latency_options), PUT_LATENCY: ("put_lat",)}

    def ordinary(test):
        return bench.perf([*test], far, 8)["latency_ns"]

    def round_robin(test):
        """With round-robin scheduling, for an application that shares a processor with the far core."""
        with bench.far.round_robin():
            return bench.perf([*test], far, 8, policy=machine.ROUND_ROBIN)["latency_ns"]

    ways = {"": (ordinary, ())}
    if context.layout.round_robin:
        ways = {"": (round_robin, machine.ROUND_ROBIN), ORDINARY: (ordinary, ())}
    slices = turns(rows, bench, ACROSS,
                   {work + way: lambda m=measure, t=test: m(t) for way, (measure, _) in ways.items()
                    for work, test in works.items()},
                   {name + way: lambda f=function, p=policy: f(context, p) for way, (_, policy) in ways.items()
                    for name, function in ((BARE, rivals.relay), (FRAMES, rivals.relay_frames), (GAPS, rivals.gaps))})
    for way in ways:
        for work in works:
            latency(rows, ACROSS, work + way, slices, way, *((1.15, 3) if way == "" else (None, None)))
    # The sweep measures with the ordinary policy.
    rows.points("latency", MEMIF + COMPLETED, {8: slices.of(WRITE_LATENCY + [*ways][-1], lambda x: x["p50"] / 1e3)})


def signals(context, rows, bench):
    near = context.layout.application
    slices = turns(rows, bench, ACROSS, {
        "signals": lambda: bench.perf(["signal_pp"], near, 8)["latency_ns"]["p50"] / 1e3}, {})
    rows.add(ACROSS, "RSM signal, half a round trip to sleeping waiters", slices.values("signals"), "us", better=LOWER,
             hops=slices.hops("signals"))


def latency(rows, group, work, slices, way, of_bare, ratio):
    """Adds rows with the median, compared with the bare processes, and the 99.9th percentile as a multiple of it."""
    hops, bare, times, gaps = slices.hops(work), BARE + way, slices.values(work), slices.values(GAPS + way)
    late = times and gaps and [100 * g * t["p50"] / 1e9 for g, t in zip(gaps, times)]
    rows.add(group, work, slices.of(work, lambda x: x["p50"] / 1e3), "us", hops=hops,
             rivals=[(name, slices.of(name + way, lambda x: x["p50"] / 1e3), "us") for name in (BARE, FRAMES)])
    rows.ratio(group, f"{work} / {BARE}", slices.of_pairs(work, bare, lambda a, b: a["p50"] / b["p50"]),
               "of the bare relay", of_bare, LOWER, hops=hops)
    rows.ratio(group, f"{work} / {FRAMES}", slices.of_pairs(work, FRAMES + way, lambda a, b: a["p50"] / b["p50"]),
               "of the bare frame relay", better=LOWER, hops=hops)
    rows.add(group, f"{work}: 99.9 %", slices.of(work, lambda x: x["p99.9"] / x["p50"]), "medians", ratio, LOWER,
             hops=hops, rivals=[(BARE, slices.of(bare, lambda x: x["p99.9"] / x["p50"]), "medians"), (GAPS, late, "%")])


def sweep(context, rows, bench, name):
    near, far = context.layout.application, context.layout.latency_application
    for size in context.sizes:
        window = WINDOW if size <= 4096 else ["--tx-depth", 32 if size < LARGE else 8]
        result = rows.attempt(f"{name}: {size} B", lambda s=size, w=window: bench.perf(
            ["write_bw", *w], near, s, context.sweep_seconds))
        if result:
            rows.point("bandwidth", name, size, result["MBps"] / 1e3)
        result = rows.attempt(f"{name}: {size} B", lambda s=size: bench.perf(
            ["write_lat", *(context.layout.latency_options if bench.pair else [])], far if bench.pair else near, s,
            context.sweep_seconds))
        if result:
            rows.point("latency", name + COMPLETED, size, result["latency_ns"]["p50"] / 1e3)


def by_endpoints(context, rows, bench, name):
    for endpoints in context.endpoints:
        depth = ["--tx-depth", max(16, min(256, 16384 // endpoints)), "-Q", 16]
        rows.point("endpoints", name, endpoints, rows.attempt(
            f"{endpoints} endpoints", lambda d=depth, n=endpoints: bench.perf(
                ["write_bw", *d, "-q", n], context.layout.application, 64, context.sweep_seconds)["ops"] / 1e6))


def connections(context, rows, bench):
    core, count = context.layout.core, 1000 if context.quick else 3000

    def rate(*pool):
        return lambda: bench.rates(["conn_rate", "-n", count, *pool], [core[1]], server_cpus=[core[2]])[-1]["ops"]

    slices = turns(rows, bench, CONTROL, {"each": rate(), "beforehand": rate("--pool", count)}, {})
    rows.add(CONTROL, "connects with disconnects, endpoints made and freed with each",
             slices.values("each"), "/s", 10000, hops=slices.hops("each"))
    rows.add(CONTROL, "connects with disconnects, endpoints made beforehand", slices.values("beforehand"), "/s",
             hops=slices.hops("beforehand"))


def memory(context, rows, bench):
    count = 2000 if context.quick else 10000

    def private():
        lines = bench.rates(["idle_memory", "-n", count, "--pid", bench.near.pid], context.layout.application, 180)
        return next(line["private"] for line in lines if "private" in line)

    rows.add(CONTROL, "memory in the data plane for an idle endpoint",
             rows.attempt("memory of an idle endpoint", private), "B", 4096, LOWER)


def across(context, rows):
    with Bench(context, "short", True, mtu=1500, frame=SMALL_FRAME) as bench:
        time.sleep(0.5)
        small_writes(context, rows, bench)
    with Bench(context, "pair", True) as bench:
        time.sleep(0.5)
        large(context, rows, bench, 4096, 0.45, True)
        latencies(context, rows, bench)
        signals(context, rows, bench)
        sweep(context, rows, bench, MEMIF)
        by_endpoints(context, rows, bench, MEMIF)
    with Bench(context, "small", True, mtu=1500) as bench:
        time.sleep(0.5)
        large(context, rows, bench, 1408, 0.5)
    # Control thread and application of each side share their polling core's processor: doc/performance.md, "How to lay out
    # cores".
    core = context.layout.core
    with Bench(context, "control", True, control=(core[1], core[2])) as bench:
        time.sleep(0.5)
        connections(context, rows, bench)
        memory(context, rows, bench)


def memory_copied(context, rows):
    with Bench(context, "pair", True) as bench:
        time.sleep(0.5)
        copied(context, rows, bench, turns)


def verbs(context, rows):
    with Bench(context, "pair", True) as bench:
        time.sleep(0.5)
        programs(context, rows, bench, turns)


def tcp_rivals(context, rows):
    seconds = context.sweep_seconds
    tests = {"rate64": ("ucp_put_bw", 64, count_for(64, 300e3, 1e9, context.rival_seconds)),
             "large": ("ucp_put_bw", LARGE, count_for(LARGE, 300e3, 1e9, context.rival_seconds)),
             "get": ("ucp_get", LARGE, count_for(LARGE, 100e3, 0.7e9, context.rival_seconds)),
             "lat8": ("ucp_put_lat", 8, count_for(8, 60e3, 1e9, context.rival_seconds))}
    for size in context.sizes:
        tests[f"bw{size}"] = ("ucp_put_bw", size, count_for(size, 300e3, 1e9, seconds))
        tests[f"lat{size}x"] = ("ucp_put_lat", size, count_for(size, 60e3, 0.5e9, seconds))
    got = rows.attempt("UCX over tcp", lambda: rivals.ucx(context, "tcp", tests)) or {}

    def rate(name, factor):
        return got[name][1] * factor if name in got else None

    for endpoints in ("one endpoint", "16 endpoints"):
        rows.rival(ACROSS, f"64 B RDMA writes, {endpoints}", "UCX tcp", rate("rate64", 1e-6), "M/s")
    for mtu in (4096, 1024):
        rows.rival(ACROSS, f"1 MiB RDMA writes, path MTU {mtu}", "UCX tcp", rate("large", LARGE / 1e9), "GB/s")
    rows.rival(ACROSS, "1 MiB RDMA reads, path MTU 4096", "UCX tcp get", rate("get", LARGE / 1e9), "GB/s")
    for work in (WRITE_LATENCY, PUT_LATENCY):
        rows.rival(ACROSS, work, "UCX tcp put_lat", got["lat8"][0] if "lat8" in got else None, "us")
    for size, name in ((64, "rate64"), (LARGE, "large")):
        rows.point("bandwidth", "UCX put, tcp on loopback", size, rate(name, size / 1e9))
    rows.point("latency", "UCX put_lat, tcp on loopback", 8, got["lat8"][0] if "lat8" in got else None)
    for size in context.sizes:
        rows.point("bandwidth", "UCX put, tcp on loopback", size, rate(f"bw{size}", size / 1e9))
        rows.point("latency", "UCX put_lat, tcp on loopback", size, got.get(f"lat{size}x", (None,))[0])
    kernel(context, rows)


def kernel(context, rows):
    for size in context.kernel_sizes:
        moved = rows.attempt("iperf3", lambda s=size: rivals.iperf(context, s))
        rows.point("bandwidth", TCP, size, moved and moved / 1e9)
    sent = rows.attempt("sockperf", lambda: rivals.sockperf(context, "tp", 64))
    rows.rival(ACROSS, "64 B RDMA writes, one endpoint", "kernel TCP (sockperf)", sent and sent / 1e6, "M/s")
    half = rows.attempt("sockperf", lambda: rivals.sockperf(context, "pp", 14))
    rows.rival(ACROSS, WRITE_LATENCY, "kernel TCP, half a round trip (sockperf)",
               half and half[50.0], "us")
    if half:
        rows.point("latency", "kernel TCP, half a round trip (sockperf)", 14, half[50.0])
    fabric = rows.attempt("libfabric over tcp", lambda: rivals.fabric(
        context, "tcp", context.fabric_sizes, 2000 if context.quick else 20000)) or {}
    rows.rival(ACROSS, WRITE_LATENCY, "libfabric tcp, half a round trip (fi_pingpong)",
               fabric.get(8), "us")
    for size, us in fabric.items():
        rows.point("latency", "libfabric tcp, half a round trip", size, us)


# ---- one data plane ----

def rings(context, rows, bench):
    near = context.layout.application

    def rate(*more):
        def measured():
            bench.settle()
            return bench.perf(["write_bw", *more], near, 8)["ops"] / 1e6
        return measured

    slices = turns(rows, bench, ALONE, {
        "rate": rate(*WINDOW),
        "latency": lambda: bench.perf(["write_lat"], near, 8)["latency_ns"],
        "busy": rate("--tx-depth", 16, "-Q", 8, "-q", 1000),
    }, {"slots": lambda: rivals.micro(context, "ring_stream")["items_per_second"] / 1e6})
    hops = slices.hops("rate")
    rows.add(ALONE, "8 B RDMA writes, one endpoint", slices.values("rate"), "M/s", hops=hops,
             rivals=[("ring slots", slices.values("slots"), "M/s")])
    typical, hops = slices.of("latency", lambda x: x["p50"]), slices.hops("latency")
    rows.add(ALONE, "8 B RDMA write, post to completion", typical, "ns", hops=hops,
             rivals=[("hop", hops, "ns")])
    rows.points("bandwidth", RINGS, {8: slices.of("rate", lambda x: x * 8 / 1e3)})
    rows.points("latency", RINGS + COMPLETED, {8: slices.of("latency", lambda x: x["p50"] / 1e3)})
    rows.ratio(ALONE, "8 B RDMA write, post to completion, in hops",
               typical and hops and [a / b for a, b in zip(typical, hops)], "times", 2.5, LOWER, hops=hops)
    rows.add(ALONE, "8 B RDMA write, post to completion: 99.9 %",
             slices.of("latency", lambda x: x["p99.9"] / x["p50"]), "medians", better=LOWER, hops=hops)
    rows.ratio(CONTROL, "8 B writes on 1,000 busy endpoints / on one", slices.ratios("busy", "rate"), "of the rate",
               0.8, hops=slices.hops("busy"))
    rows.explain("8 B RDMA writes through the rings", lambda: bench.explain(["write_bw", *WINDOW], near, 8))
    copies(context, rows, bench)
    sweep(context, rows, bench, RINGS)
    by_endpoints(context, rows, bench, RINGS)


def copies(context, rows, bench):
    near = context.layout.application
    slices = turns(rows, bench, ALONE, {
        "writes": lambda: bench.perf(["write_bw", "--tx-depth", 8], near, LARGE)["MBps"] / 1e3,
    }, {"memcpy": lambda: rivals.memcpy(context, LARGE) / 1e9})
    hops = slices.hops("writes")
    rows.add(ALONE, "1 MiB RDMA writes", slices.values("writes"), "GB/s",
             rivals=[("memcpy", slices.values("memcpy"), "GB/s")], hops=hops)
    rows.points("bandwidth", RINGS, {LARGE: slices.values("writes")})
    rows.points("bandwidth", "memcpy", {LARGE: slices.values("memcpy")})
    rows.ratio(ALONE, "1 MiB RDMA writes / memcpy", slices.ratios("writes", "memcpy"), "of memcpy", 0.9, hops=hops)
    rows.explain("1 MiB RDMA writes through the rings",
                 lambda: bench.explain(["write_bw", "--tx-depth", 8], near, LARGE))


def binds(context, rows, bench):
    near = context.layout.application
    slices = turns(rows, bench, CONTROL, {
        "rate": lambda: bench.rates(["bind_rate"], near)[-1]["ops"],
        "latency": lambda: bench.rates(["bind_lat", "-n", 10000 if context.quick else 50000,
                                        *context.layout.latency_options], near)[-1]["latency_ns"]["p50"] / 1e3,
    }, {"handover": lambda: rivals.handover(context) / 1e3})
    hops = slices.hops("rate")
    rows.add(CONTROL, "RMR binds, 16 in flight on each of 16 endpoints", slices.values("rate"), "/s", 300000, hops=hops)
    rows.add(CONTROL, "RMR bind, post to completion", slices.values("latency"), "us", hops=slices.hops("latency"),
             rivals=[("handover of a processor and back",
                      slices.values("handover"), "us")])
    rows.ratio(CONTROL, "RMR bind, post to completion / handover", slices.ratios("latency", "handover"),
               "of the handover", 1.5, LOWER, hops=slices.hops("latency"))


MAPPED_TESTS = (("put of 8 B", "map_put_bw", 8, "ucp_put_bw", 100e6), ("get of 8 B", "map_get_bw", 8, "ucp_get", 60e6),
                ("put of 4 KiB", "map_put_bw", 4096, "ucp_put_bw", 14e6),
                ("put of 1 MiB", "map_put_bw", LARGE, "ucp_put_bw", 55e9 / LARGE))


def mapped(context, rows, bench):
    near = context.layout.application
    for work, test, size, theirs, speed in MAPPED_TESTS:
        unit, scale = ("M/s", 1e-6) if size < LARGE else ("GB/s", LARGE / 1e9)
        count = count_for(size, speed, 55e9, context.seconds)
        others = {"UCX posix": lambda t=theirs, s=size, n=count, f=scale: rivals.ucx(context, "posix", {
            "test": (t, s, n)})["test"][1] * f}
        if size == LARGE:  # memcpy is a useful bound only for large copies
            others["memcpy"] = lambda: rivals.memcpy(context, LARGE) / 1e9
        slices = turns(rows, bench, MAPPED, {
            "ours": lambda t=test, s=size, f=scale: bench.perf([t, "--tx-depth", 1024 if s <= 4096 else 64], near,
                                                               s)["ops"] * f}, others)
        hops = slices.hops("ours")
        rows.add(MAPPED, work, slices.values("ours"), unit, rivals=[(other, slices.values(other), unit) for other in others],
                 hops=hops)
        if "put" in work:
            for line, series in ((MAPPED_PUT, "ours"), ("UCX put, posix shared memory", "UCX posix")):
                rows.points("bandwidth", line, {size: slices.of(series, lambda x, f=size / 1e9 / scale: x * f)})
        rows.ratio(MAPPED, f"{work} / UCX posix", slices.ratios("ours", "UCX posix"), "of UCX", 1, hops=hops)


def mapped_sweep(context, rows, bench):
    near, seconds = context.layout.application, context.sweep_seconds
    tests = {}
    for size in context.sizes:
        tests[f"bw{size}"] = ("ucp_put_bw", size, count_for(size, 50e6, 30e9, seconds))
        tests[f"lat{size}"] = ("ucp_put_lat", size, count_for(size, 5e6, 10e9, seconds / 2))
    got = rows.attempt("UCX over posix shared memory", bench.alone(lambda: rivals.ucx(context, "posix", tests))) or {}
    for size in context.sizes:
        rows.point("bandwidth", "UCX put, posix shared memory", size,
                   got[f"bw{size}"][1] * size / 1e9 if f"bw{size}" in got else None)
        rows.point("latency", "UCX put_lat, posix shared memory", size, got.get(f"lat{size}", (None,))[0])
        moved = rows.attempt("mapped put", lambda s=size: bench.perf(
            ["map_put_bw", "--tx-depth", 256 if s <= 4096 else 16], near, s, seconds)["MBps"] / 1e3)
        rows.point("bandwidth", MAPPED_PUT, size, moved)
        if size in (8, 64, 1024, 4096, 65536, LARGE):
            copied = rows.attempt("memcpy", bench.alone(lambda s=size: rivals.memcpy(context, s)))
            rows.point("bandwidth", "memcpy", size, copied and copied / 1e9)
    shm = rows.attempt("libfabric over shm", bench.alone(lambda: rivals.fabric(
        context, "shm", context.fabric_sizes, 2000 if context.quick else 20000))) or {}
    for size, us in shm.items():
        rows.point("latency", "libfabric shm, half a round trip", size, us)
    rows.rival(ALONE, "8 B RDMA write, post to completion", "libfabric shm, half a round trip (fi_pingpong)",
               shm[8] * 1e3 if 8 in shm else None, "ns")


def idle_endpoints(context, rows, bench):
    near = context.layout.application

    def rate(*more):
        def measured():
            bench.settle()
            return bench.perf(["write_bw", *WINDOW, *more], near, 8)["ops"] / 1e6
        return measured

    slices = turns(rows, bench, CONTROL, {"alone": rate(), "idle": rate("--idle-qp", 10000)}, {})
    rows.ratio(CONTROL, "8 B writes beside 10,000 idle endpoints / alone", slices.ratios("idle", "alone"),
               "of the rate", 0.95, hops=slices.hops("idle"))


def alone(context, rows):
    # The polling core has one processor; application and control thread share the other.
    with Bench(context, "alone", False, idle=("spin",), control=context.layout.application) as bench:
        rings(context, rows, bench)
        mapped(context, rows, bench)
        mapped_sweep(context, rows, bench)
        binds(context, rows, bench)
        registration(context, rows, bench, turns)
    with Bench(context, "idle", False, idle=("spin",), control=context.layout.application) as bench:
        idle_endpoints(context, rows, bench)


# ---- asleep ----

def sleeping(context, rows):
    seconds = 2 if context.quick else 5
    with Bench(context, "asleep", True, idle=("sleep", "sleep")) as bench:
        time.sleep(5)  # data planes announce their addresses for some seconds

        def processor_time():
            lines = bench.rates(["idle_cpu", "-D", seconds, *sum((["--pid", p.pid] for p in bench.planes), [])], None,
                                serve=False)
            return max(line["percent"] for line in lines)

        rows.add(SLEEPING, "processor time without work",
                 rows.attempt("idle_cpu", processor_time), "%", 1, LOWER)
    with Bench(context, "eager", True, idle=("yield", "yield")) as awake, \
            Bench(context, "dozing", True, idle=("sleep", "sleep")) as bench:
        busy_sleepers(context, rows, awake, bench)
    with Bench(context, "woken", True, idle=("yield", "sleep")) as bench:
        time.sleep(0.5)
        wake(context, rows, bench, "8 B write to a data plane asleep for 20 ms")
    with Bench(context, "napping", False, idle=("sleep",)) as bench:
        wake(context, rows, bench, "8 B write on one host, 20 ms after the last")


def busy_sleepers(context, rows, awake, bench):
    """Measures the cost of sleeping for busy flows, alternately with data planes that yield."""
    near = context.layout.application
    flows = {"64 KiB RDMA writes": ("write_bw", 65536), "1 MiB RDMA writes": ("write_bw", LARGE, *FEW),
             "4 MiB RDMA writes": ("write_bw", 4 * LARGE, *FEW), "64 KiB sends": ("send_bw", 65536),
             "8 B RDMA writes and back": ("write_pp", 8)}

    def functions(pair, mode):
        return {f"{work}, {mode}": lambda test=test, size=size, more=more: pair.perf([test, *more], near, size)["ops"]
                for work, (test, size, *more) in flows.items()}

    slices = turns(rows, awake, SLEEPING, functions(awake, "yield"), functions(bench, "sleep"))
    for work in flows:
        rows.ratio(SLEEPING, f"{work}, sleep / yield",
                   slices.ratios(f"{work}, sleep", f"{work}, yield"), "of yield", 0.8,
                   hops=slices.hops(f"{work}, sleep"))
    for mode, pair in (("sleep", bench), ("yield", awake)):
        rows.add(SLEEPING, f"retransmission timers expired meanwhile, {mode}",
                 rows.attempt("transport", pair.timeouts), "", 0, LOWER)


def wake(context, rows, bench, work):
    slices = turns(rows, bench, SLEEPING, {work: lambda: bench.rates(
        ["wake_lat", "-n", 20 if context.quick else 50, *context.layout.latency_options],
        context.layout.application)[-1]["latency_ns"],
    }, {"bare": lambda: rivals.wake(context) / 1e3})
    hops = slices.hops(work)
    rows.add(SLEEPING, work, slices.of(work, lambda x: x["p50"] / 1e3), "us", hops=hops,
             rivals=[("bare thread", slices.values("bare"), "us")])
    rows.ratio(SLEEPING, f"{work} / bare thread", slices.of_pairs(work, "bare", lambda a, b: a["p50"] / 1e3 / b),
               "of the bare thread", 1.5, LOWER, hops=hops)
    rows.add(SLEEPING, f"{work}: 99 %", slices.of(work, lambda x: x["p99"] / 1e3), "us", better=LOWER, hops=hops)


# ---- the simulator ----


def link_runs(context, what):
    """Returns a line per run over the modelled switch: (name, way of repeating, operation, MTU, loss %, Gb/s, Jain)."""
    program = os.path.join(context.build, "tests", "sim", "sim")
    simulator = Background([program, "--link", what], os.path.join(context.directory, f"sim-{what}.log"))
    try:
        simulator.finish(300)
    finally:
        simulator.stop()
    found = re.findall(r"^(\S+)\s+(\S+)\s+(\S+)\s+mtu\s+(\d+) loss\s+([\d.]+)%:\s+([\d.]+) Gb/s, Jain ([\d.]+)",
                       simulator.said(), re.MULTILINE)
    if not found:
        raise Failed(f"{program} --link {what}: {simulator.said().strip()[-200:]}")
    return [(n, how, op, int(mtu), float(loss), float(goodput), float(jain))
            for n, how, op, mtu, loss, goodput, jain in found]


def quotient(value, base):
    return [value / base] if value is not None and base else None


def simulator(context, rows):
    """Measures in virtual time, which gives the same figures on every machine, loaded or not."""
    loss = rows.attempt("loss in the simulator", lambda: link_runs(context, "loss")) or []
    for how, name in (("selective", "selective repeat"), ("go-back", "go-back-N")):
        goodput = {run[4]: run[5] for run in loss if run[1:4] == (how, "WRITE", 4096)}
        rows.ratio(SIMULATED, f"1 MiB writes, 1 % of frames lost, {name} / none lost",
                   quotient(goodput.get(1.0), goodput.get(0.0)), "of the goodput", 0.9 if how == "selective" else None)
    without = next((run[5] for run in loss if run[1:5] == ("selective", "WRITE", 4096, 0.0)), None)
    incast = rows.attempt("incast in the simulator", lambda: link_runs(context, "incast")) or []
    # The run with the most senders comes last.
    most = [run for run in incast if run[3] == 4096][-1:]
    rows.ratio(SIMULATED, "32 senders into one receiver / one sender",
               quotient(most[0][5] if most else None, without), "of the bottleneck", 0.9)
    rows.add(SIMULATED, "32 senders into one receiver: Jain fairness", most[0][6] if most else None, "", 0.95)


GROUPS = {"across": (across, tcp_rivals), "copied": (memory_copied,), "verbs": (verbs,), "alone": (alone,), "sleep": (sleeping,),
          "cores": (cores,), "esp": (esp,), "simulator": (simulator,), "takeover": (takeover,)}

# SPDX-License-Identifier: BSD-3-Clause
"""The work that is compared, and what is asked of oneside at each."""
import os
import re
import time

from . import rivals
from .planes import Bench
from .process import Background, Failed
from .rows import LOWER

WINDOW = ["--tx-depth", 256, "-Q", 16]
LARGE = 1 << 20

ALONE = "One host, through the rings of one data plane"
MAPPED = "One host, a mapped RSM segment"
CONTROL = "Binds, connections, many endpoints"
ACROSS = "Two data planes over memif"
SLEEPING = "An idle data plane, --idle sleep"
SIMULATED = "The transport in the simulator: 100 Gb/s, round trip 50 us"


def count_for(size, rate, bytes_a_second, seconds):
    """Operations that take about that long."""
    return max(100, int(seconds * min(rate, bytes_a_second / size)))


# ---- two data planes ----

def writes_across(context, rows, bench):
    near, far = context.layout.application, context.layout.latency_application

    def rate(endpoints, size=64):
        return bench.perf(["write_bw", *WINDOW, "-q", endpoints], near, size)["ops"] / 1e6

    rows.measure(ACROSS, "64 B RDMA writes, one endpoint", lambda: rate(1), "M/s", 8)
    rows.explain("64 B RDMA writes over memif", lambda: bench.explain(["write_bw", *WINDOW], near, 64))
    rows.measure(ACROSS, "64 B RDMA writes, 16 endpoints", lambda: rate(16), "M/s", 8)
    writes = rows.measure(ACROSS, "1 MiB RDMA writes, path MTU 4096", lambda: bench.perf(
        ["write_bw", "--tx-depth", 16], near, LARGE)["MBps"] / 1e3, "GB/s", 10)
    rows.explain("1 MiB RDMA writes over memif, path MTU 4096",
                 lambda: bench.explain(["write_bw", "--tx-depth", 16], near, LARGE))
    reads = rows.median("1 MiB RDMA reads", lambda: bench.perf(
        ["read_bw", "--tx-depth", 16], near, LARGE)["MBps"] / 1e3)
    rows.add(ACROSS, "1 MiB RDMA reads, path MTU 4096", reads, "GB/s")
    rows.ratio(ACROSS, "1 MiB RDMA reads / writes", reads, writes, "of writes", 0.9)
    rows.measure(ACROSS, "64 B RDMA writes, both directions, one endpoint each", lambda: bench.perf(
        ["write_bw", *WINDOW, "-b"], near, 64)["ops"] / 1e6, "M/s")
    rows.measure(ACROSS, "64 B sends, one endpoint", lambda: bench.perf(
        ["send_bw", *WINDOW], near, 64)["ops"] / 1e6, "M/s")
    rows.measure(ACROSS, "RSM puts of 1 MiB in spans", lambda: bench.perf(
        ["put_bw", "--tx-depth", 16], near, LARGE)["MBps"] / 1e3, "GB/s")
    latency(rows, ACROSS, "8 B RDMA write, post to completion", lambda: bench.perf(
        ["write_lat", *context.layout.latency_options], far, 8))
    latency(rows, ACROSS, "RSM put of 8 B, implicit mode", lambda: bench.perf(["put_lat"], far, 8))
    rows.measure(ACROSS, "RSM signal, half a round trip to sleeping waiters", lambda: bench.perf(
        ["signal_pp"], near, 8)["latency_ns"]["p50"] / 1e3, "us", better=LOWER)
    for endpoints in context.endpoints:
        depth = ["--tx-depth", max(16, min(256, 16384 // endpoints)), "-Q", 16]
        rows.point("endpoints", "oneside over memif", endpoints, rows.attempt(
            f"{endpoints} endpoints", lambda d=depth, n=endpoints: bench.perf(
                ["write_bw", *d, "-q", n], near, 64, context.sweep_seconds)["ops"] / 1e6))


def latency(rows, group, work, function, typical=3, ratio=3):
    """The typical time, and the 99.9th percentile as a multiple of it: both of one run, the one in the middle."""
    runs = [rows.attempt(work, function) for _ in range(rows.repeats)]
    if None in runs:
        rows.add(group, work, None, "us", typical, LOWER)
        return
    best = sorted((r["latency_ns"] for r in runs), key=lambda x: x["p50"])[len(runs) // 2]
    rows.add(group, work, best["p50"] / 1e3, "us", typical, LOWER)
    rows.add(group, f"{work}: 99.9 %", best["p99.9"] / best["p50"], "times typical", ratio, LOWER)


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
            rows.point("latency", name + ", write to completion", size, result["latency_ns"]["p50"] / 1e3)


def connections(context, rows, bench):
    core, count = context.layout.core, 1000 if context.quick else 5000

    def rate(pool=()):
        return bench.rates(["conn_rate", "-n", count, *pool], [core[1]], server_cpus=[core[2]])[-1]["ops"]

    rows.measure(CONTROL, "connects with disconnects across two data planes, endpoints made and freed with each",
                 rate, "/s", 10000)
    rows.measure(CONTROL, "the same, endpoints made beforehand", lambda: rate(["--pool", count]), "/s")


def memory(context, rows, bench):
    count = 2000 if context.quick else 10000

    def private():
        lines = bench.rates(["idle_memory", "-n", count, "--pid", bench.near.pid], context.layout.application, 180)
        return next(line["private"] for line in lines if "private" in line)

    rows.add(CONTROL, "memory in the data plane for an idle endpoint",
             rows.attempt("memory of an idle endpoint", private), "B", 4096, LOWER)


def across(context, rows):
    with Bench(context, "pair", True) as bench:
        time.sleep(0.5)
        writes_across(context, rows, bench)
        sweep(context, rows, bench, "oneside over memif")
    # Control thread and application of each side beside its polling core: doc/performance.md, "Control path".
    core = context.layout.core
    with Bench(context, "control", True, control=(core[1], core[2])) as bench:
        time.sleep(0.5)
        connections(context, rows, bench)
        memory(context, rows, bench)
    with Bench(context, "small", True, mtu=1500) as bench:
        time.sleep(0.5)
        rows.measure(ACROSS, "1 MiB RDMA writes, path MTU 1024", lambda: bench.perf(
            ["write_bw", "--tx-depth", 16], context.layout.application, LARGE)["MBps"] / 1e3, "GB/s", 6)
        rows.explain("1 MiB RDMA writes over memif, path MTU 1024", lambda: bench.explain(
            ["write_bw", "--tx-depth", 16], context.layout.application, LARGE))


def value_of(rows, work):
    return next((r["value"] for r in rows.rows if r["work"] == work), None)


def raw_frames(context, rows):
    """What testpmd moves in frames as long as those of RDMA writes."""
    for mtu, frame, bar in ((4096, 4154, 0.5), (1024, 1082, 0.5), (64, 138, None)):
        frames = rows.attempt(f"testpmd, frames of {frame} B", lambda f=frame: rivals.testpmd(context, f))
        if mtu == 64:
            if frames is not None:
                rows.point("bandwidth", "testpmd, payload in frames over memif", 64, frames * 64 / 1e9)
            for endpoints in ("one endpoint", "16 endpoints"):
                rows.rival(ACROSS, f"64 B RDMA writes, {endpoints}", "testpmd, frames of 138 B",
                           frames and frames / 1e6, "M/s")
            continue
        moved = frames and frames * frame / 1e9
        rows.rival(ACROSS, f"1 MiB RDMA writes, path MTU {mtu}", f"testpmd, frames of {frame} B", moved, "GB/s")
        rows.ratio(ACROSS, f"1 MiB RDMA writes, path MTU {mtu} / testpmd with frames of {frame} B",
                   value_of(rows, f"1 MiB RDMA writes, path MTU {mtu}"), moved, "of testpmd", bar)
        if moved:
            rows.point("bandwidth", "testpmd, payload in frames over memif", mtu, frames * mtu / 1e9)


def tcp_rivals(context, rows):
    seconds = context.sweep_seconds
    tests = {"rate64": ("ucp_put_bw", 64, count_for(64, 300e3, 1e9, context.seconds)),
             "large": ("ucp_put_bw", LARGE, count_for(LARGE, 300e3, 1e9, context.seconds)),
             "get": ("ucp_get", LARGE, count_for(LARGE, 100e3, 0.7e9, context.seconds)),
             "lat8": ("ucp_put_lat", 8, count_for(8, 60e3, 1e9, context.seconds))}
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
    for work in ("8 B RDMA write, post to completion", "RSM put of 8 B, implicit mode"):
        rows.rival(ACROSS, work, "UCX tcp put_lat", got["lat8"][0] if "lat8" in got else None, "us")
    for size in context.sizes:
        rows.point("bandwidth", "UCX put, tcp on loopback", size, rate(f"bw{size}", size / 1e9))
        rows.point("latency", "UCX put_lat, tcp on loopback", size, got.get(f"lat{size}x", (None,))[0])
    kernel(context, rows)


def kernel(context, rows):
    large = rows.attempt("iperf3", lambda: rivals.iperf(context, LARGE))
    for mtu in (4096, 1024):
        rows.rival(ACROSS, f"1 MiB RDMA writes, path MTU {mtu}", "kernel TCP (iperf3)", large and large / 1e9, "GB/s")
    for size in context.kernel_sizes:
        moved = rows.attempt("iperf3", lambda s=size: rivals.iperf(context, s))
        rows.point("bandwidth", "kernel TCP on loopback (iperf3)", size, moved and moved / 1e9)
    sent = rows.attempt("sockperf", lambda: rivals.sockperf(context, "tp", 64))
    rows.rival(ACROSS, "64 B RDMA writes, one endpoint", "kernel TCP (sockperf)", sent and sent / 1e6, "M/s")
    half = rows.attempt("sockperf", lambda: rivals.sockperf(context, "pp", 14))
    rows.rival(ACROSS, "8 B RDMA write, post to completion", "kernel TCP, half a round trip (sockperf)",
               half and half[50.0], "us")
    if half:
        rows.point("latency", "kernel TCP, half a round trip (sockperf)", 14, half[50.0])
    fabric = rows.attempt("libfabric over tcp", lambda: rivals.fabric(
        context, "tcp", context.fabric_sizes, 2000 if context.quick else 20000)) or {}
    rows.rival(ACROSS, "8 B RDMA write, post to completion", "libfabric tcp, half a round trip (fi_pingpong)",
               fabric.get(8), "us")
    for size, us in fabric.items():
        rows.point("latency", "libfabric tcp, half a round trip", size, us)


# ---- one data plane ----

def rings(context, rows, bench):
    near = context.layout.application
    small = rows.measure(ALONE, "8 B RDMA writes, one endpoint", lambda: bench.perf(
        ["write_bw", *WINDOW], near, 8)["ops"] / 1e6, "M/s", 20)
    stream = rows.attempt("64-byte slots", lambda: rivals.micro(context, "ring_stream")["items_per_second"])
    rows.rival(ALONE, "8 B RDMA writes, one endpoint", "slots of a ring, to the other processor and no further",
               stream and stream / 1e6, "M/s")
    rows.explain("8 B RDMA writes through the rings", lambda: bench.explain(["write_bw", *WINDOW], near, 8))
    hop = rows.attempt("the way of a cache line", lambda: rivals.micro(context, "hop")["real_time"])
    rows.measure(ALONE, "8 B RDMA write, post to completion", lambda: bench.perf(
        ["write_lat"], near, 8)["latency_ns"]["p50"], "ns", 500, LOWER,
        [("a cache line to the other processor and back", hop, "ns")])
    large = rows.median("1 MiB writes", lambda: bench.perf(
        ["write_bw", "--tx-depth", 8], near, LARGE)["MBps"] / 1e3)
    copied = rows.attempt("memcpy", lambda: rivals.memcpy(context, LARGE))
    rows.add(ALONE, "1 MiB RDMA writes", large, "GB/s", rivals=[("memcpy", copied and copied / 1e9, "GB/s")])
    rows.ratio(ALONE, "1 MiB RDMA writes / memcpy", large, copied and copied / 1e9, "of memcpy", 0.9)
    rows.explain("1 MiB RDMA writes through the rings",
                 lambda: bench.explain(["write_bw", "--tx-depth", 8], near, LARGE))
    sweep(context, rows, bench, "oneside through the rings")
    busy = rows.median("1,000 endpoints", lambda: bench.perf(
        ["write_bw", "--tx-depth", 16, "-Q", 8, "-q", 1000], near, 8)["ops"] / 1e6)
    rows.ratio(CONTROL, "8 B writes on 1,000 busy endpoints / on one", busy, small, "of the rate", 0.8)
    for endpoints in context.endpoints:
        depth = ["--tx-depth", max(16, min(256, 16384 // endpoints)), "-Q", 16]
        rows.point("endpoints", "oneside through the rings", endpoints, rows.attempt(
            f"{endpoints} endpoints", lambda d=depth, n=endpoints: bench.perf(
                ["write_bw", *d, "-q", n], near, 64, context.sweep_seconds)["ops"] / 1e6))


def binds(context, rows, bench):
    near = context.layout.application
    rows.measure(CONTROL, "RMR binds, 16 in flight on each of 16 endpoints", lambda: bench.rates(
        ["bind_rate"], near)[-1]["ops"], "/s", 300000)
    rows.measure(CONTROL, "RMR bind, post to completion", lambda: bench.rates(
        ["bind_lat", "-n", 5000 if context.quick else 50000, *context.layout.latency_options], near)[-1]["latency_ns"]["p50"] / 1e3, "us", 5, LOWER)


MAPPED_TESTS = (("put of 8 B", "map_put_bw", 8, "ucp_put_bw", 100e6), ("get of 8 B", "map_get_bw", 8, "ucp_get", 60e6),
                ("put of 4 KiB", "map_put_bw", 4096, "ucp_put_bw", 14e6),
                ("put of 1 MiB", "map_put_bw", LARGE, "ucp_put_bw", 55e9 / LARGE))


def mapped(context, rows, bench):
    near, seconds = context.layout.application, context.sweep_seconds
    tests = {f"t{i}": (t[3], t[2], count_for(t[2], t[4], 55e9, context.seconds)) for i, t in enumerate(MAPPED_TESTS)}
    for size in context.sizes:
        tests[f"bw{size}"] = ("ucp_put_bw", size, count_for(size, 50e6, 30e9, seconds))
        tests[f"lat{size}"] = ("ucp_put_lat", size, count_for(size, 5e6, 10e9, seconds / 2))
    got = rows.attempt("UCX over posix shared memory", lambda: rivals.ucx(context, "posix", tests)) or {}
    for i, (work, test, size, _, _) in enumerate(MAPPED_TESTS):
        theirs = got[f"t{i}"][1] if f"t{i}" in got else None
        unit, scale = ("M/s", 1e-6) if size < LARGE else ("GB/s", LARGE / 1e9)
        rate = rows.median(work, lambda t=test, s=size: bench.perf([t, "--tx-depth", 1024 if s <= 4096 else 64],
                                                                  near, s)["ops"])
        bar = theirs * scale if theirs else None
        rows.add(MAPPED, work, rate and rate * scale, unit, bar, bar_text="as UCX posix" if bar else None,
                 rivals=[("UCX posix", theirs and theirs * scale, unit)])
    for size in context.sizes:
        rows.point("bandwidth", "UCX put, posix shared memory", size,
                   got[f"bw{size}"][1] * size / 1e9 if f"bw{size}" in got else None)
        rows.point("latency", "UCX put_lat, posix shared memory", size, got.get(f"lat{size}", (None,))[0])
        moved = rows.attempt("mapped put", lambda s=size: bench.perf(
            ["map_put_bw", "--tx-depth", 256 if s <= 4096 else 16], near, s, seconds)["MBps"] / 1e3)
        rows.point("bandwidth", "oneside, mapped RSM put", size, moved)
        copied = rows.attempt("memcpy", lambda s=size: rivals.memcpy(context, s)) if size in (8, 64, 1024, 4096, 65536, LARGE) else None
        rows.point("bandwidth", "memcpy", size, copied and copied / 1e9)
    shm = rows.attempt("libfabric over shm", lambda: rivals.fabric(
        context, "shm", context.fabric_sizes, 2000 if context.quick else 20000)) or {}
    for size, us in shm.items():
        rows.point("latency", "libfabric shm, half a round trip", size, us)
    rows.rival(ALONE, "8 B RDMA write, post to completion", "libfabric shm, half a round trip (fi_pingpong)",
               shm[8] * 1e3 if 8 in shm else None, "ns")


def idle_endpoints(context, rows, bench):
    """On a data plane of their own, where no connections end meanwhile."""
    near = context.layout.application

    def rate(*more):
        return bench.perf(["write_bw", *WINDOW, *more], near, 8)["ops"] / 1e6

    without = rows.median("8 B writes", rate)
    idle = rows.attempt("10,000 idle endpoints", lambda: rate("--idle-qp", 10000))
    rows.ratio(CONTROL, "8 B writes beside 10,000 idle endpoints / alone", idle, without, "of the rate", 0.95)


def alone(context, rows):
    # The polling core has its processor for itself.
    with Bench(context, "alone", False, idle=("spin",), control=context.layout.application) as bench:
        rings(context, rows, bench)
        mapped(context, rows, bench)
        binds(context, rows, bench)
    with Bench(context, "idle", False, idle=("spin",), control=context.layout.application) as bench:
        idle_endpoints(context, rows, bench)


# ---- asleep ----

def sleeping(context, rows):
    seconds = 3 if context.quick else 10
    with Bench(context, "asleep", True, idle=("sleep", "sleep")) as bench:
        time.sleep(2)

        def processor_time():
            lines = bench.rates(["idle_cpu", "-D", seconds, *sum((["--pid", p.pid] for p in bench.planes), [])], None,
                                serve=False)
            return max(line["percent"] for line in lines)

        rows.measure(SLEEPING, "processor time of a data plane without work", processor_time, "%", 1, LOWER)
    with Bench(context, "woken", True, idle=("yield", "sleep")) as bench:
        time.sleep(0.5)
        wake(context, rows, bench, "8 B write from an awake data plane to one asleep for 20 ms, to completion")
    with Bench(context, "napping", False, idle=("sleep",)) as bench:
        wake(context, rows, bench, "8 B write on one host, 20 ms after the last, to completion")


def wake(context, rows, bench, work):
    runs = [rows.attempt(work, lambda: bench.rates(["wake_lat", "-n", 100 if context.quick else 300],
                                                   context.layout.application)[-1]["latency_ns"])
            for _ in range(rows.repeats)]
    middle = None if None in runs else sorted(runs, key=lambda x: x["p50"])[len(runs) // 2]
    rows.add(SLEEPING, work, middle and middle["p50"] / 1e3, "us", 100, LOWER)
    rows.add(SLEEPING, f"{work}: 99 %", middle and middle["p99"] / 1e3, "us")


# ---- the simulator ----


def link_runs(context, what):
    """Runs over the modelled switch, each a line: (name, way of repeating, operation, MTU, loss %, Gb/s, Jain)."""
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


def simulator(context, rows):
    """Virtual time: the same figures on every machine, loaded or not."""
    loss = rows.attempt("loss in the simulator", lambda: link_runs(context, "loss")) or []
    for how, name in (("selective", "selective repeat"), ("go-back", "go-back-N, as with others")):
        goodput = {run[4]: run[5] for run in loss if run[1:4] == (how, "WRITE", 4096)}
        rows.ratio(SIMULATED, f"1 MiB writes, 1 % of the frames lost, {name} / none lost", goodput.get(1.0),
                   goodput.get(0.0), "of the goodput", 0.9 if how == "selective" else None)
    without = next((run[5] for run in loss if run[1:5] == ("selective", "WRITE", 4096, 0.0)), None)
    incast = rows.attempt("incast in the simulator", lambda: link_runs(context, "incast")) or []
    # The one with the most senders comes last.
    most = [run for run in incast if run[3] == 4096][-1:]
    rows.ratio(SIMULATED, "32 senders into one receiver / one sender", most[0][5] if most else None, without,
               "of the bottleneck", 0.9)
    rows.add(SIMULATED, "32 senders into one receiver: Jain fairness", most[0][6] if most else None, "", 0.95)


GROUPS = {"across": (across, raw_frames, tcp_rivals), "alone": (alone,), "sleep": (sleeping,),
          "simulator": (simulator,)}

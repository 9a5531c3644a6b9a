# SPDX-License-Identifier: BSD-3-Clause
"""Rivals of oneside: each function measures one program of Debian's packages, or of oneside-micro."""
import json
import os
import re
import shutil
import signal
import time

from .machine import RIVALS
from .planes import cable_buffer, cable_ring, telemetry
from .process import Background, Failed, run, wait_for_port

SECONDS = 90


def need(program):
    if shutil.which(program) is None:
        raise Failed(f"{program} is missing: apt-get install {RIVALS[program]}")


def free_port(context):
    context.port += 1
    return context.port


# ---- UCX ----

def ucx(context, transport, tests, more=None, server=(), client=()):
    """Runs ucx_perftest. tests: {name: (test, size, iterations)}; returns {name: (typical us, operations per second)}.
    more: additional environment; server, client: command prefixes."""
    need("ucx_perftest")
    env = {"UCX_TLS": transport, "UCX_LOG_LEVEL": "error", **(more or {})}
    if transport == "tcp":
        env["UCX_NET_DEVICES"] = "lo"
    batch = os.path.join(context.directory, "ucx.batch")
    with open(batch, "w", encoding="ascii") as f:
        for name, (test, size, count) in tests.items():
            f.write(f"{name} -t {test} -s {size} -n {count} -w {max(10, count // 20)}\n")
    port = free_port(context)
    server = Background([*server, "ucx_perftest", "-p", str(port), "-b", batch], os.path.join(context.directory, "ucx.log"),
                        env, context.layout.server)
    try:
        wait_for_port(port, server)
        client = Background([*client, "ucx_perftest", "-p", str(port), "127.0.0.1", "-b", batch, "-v"],
                            os.path.join(context.directory, "ucx-client.log"), env, context.layout.client)
        try:
            client.finish(SECONDS)
        finally:
            client.stop()
        out = client.said()
    finally:
        server.stop()
    # Use the results of an incomplete run too.
    results = {}
    for line in out.splitlines():
        field = line.split(",")
        # Fields: name,iterations,typical,average,overall latency,bandwidths,rates
        if field[0] in tests and len(field) >= 9 and field[1].strip().isdigit():
            results[field[0]] = (float(field[2]), float(field[8]))
    if not results:
        raise Failed(f"ucx_perftest over {transport}: {out.strip()[-200:]}")
    return results


# ---- libfabric ----

def fabric(context, provider, sizes, count):
    """Runs fi_pingpong; returns {size: half a round trip in us}."""
    need("fi_pingpong")
    results = {}
    for size in sizes:
        port = free_port(context)
        common = ["-p", provider, "-e", "rdm", "-I", str(count if size < 65536 else max(50, count // 20)), "-S",
                  str(size)]
        if provider == "tcp":
            common += ["-d", "lo"]
        server = Background(["fi_pingpong", *common, "-B", str(port)],
                            os.path.join(context.directory, "fabric.log"), None, context.layout.server)
        try:
            wait_for_port(port, server)
            out = run(["fi_pingpong", *common, "-P", str(port), "127.0.0.1"], SECONDS, None, context.layout.client)
        finally:
            server.stop()
        found = re.search(r"^\S+\s+\S+\s+=?\S+\s+\S+\s+\S+s\s+\S+\s+(\S+)\s+\S+$", out, re.MULTILINE)
        if found is None:
            raise Failed(f"fi_pingpong with {provider}: {out.strip()[-200:]}")
        results[size] = float(found.group(1))
    return results


# ---- kernel TCP ----

def iperf(context, size):
    """Runs iperf3; returns bytes per second with writes of that size."""
    need("iperf3")
    port = free_port(context)
    server = Background(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", str(port)],
                        os.path.join(context.directory, "iperf.log"), None, context.layout.server)
    try:
        wait_for_port(port, server)
        out = run(["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", str(max(1, round(context.seconds))), "-l",
                   str(size), "-J"], SECONDS, None, context.layout.client)
    finally:
        server.stop()
    return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8


def sockperf(context, mode, size):
    """Runs sockperf; returns for mode pp {percentile: half a round trip in us}, for tp messages per second."""
    need("sockperf")
    port = free_port(context)
    common = ["--tcp", "-i", "127.0.0.1", "-p", str(port)]
    server = Background(["sockperf", "server", *common], os.path.join(context.directory, "sockperf.log"), None,
                        context.layout.server)
    try:
        wait_for_port(port, server)
        out = run(["sockperf", mode, *common, "-t", str(max(1, round(context.seconds))), "-m", str(max(size, 14))],
                  SECONDS, None, context.layout.client)
    finally:
        server.stop()
    if mode == "tp":
        found = re.search(r"Message Rate is (\d+)", out)
        if found is None:
            raise Failed("sockperf prints no rate")
        return float(found.group(1))
    percentiles = {float(p): float(v) for p, v in re.findall(r"percentile\s+([\d.]+)\s*=\s*([\d.]+)", out)}
    if not percentiles:
        raise Failed("sockperf prints no percentiles")
    return percentiles


# ---- raw DPDK ----

class TestPmd:
    """testpmd with frames of that size over an equal memif pair, one core per end; stopped except during rate()."""

    def __init__(self, context, frame):
        need("dpdk-testpmd")
        self.context, self.frame = context, frame
        self.ends = []
        self.prefix = f"oneside-compare{os.getpid()}-rxonly"

    def __enter__(self):
        layout = self.context.layout
        cable = os.path.join(self.context.directory, f"cable-testpmd{self.frame}")
        buffer, ring = cable_buffer(self.frame), cable_ring(self.frame)
        try:
            for role, mode, core in (("server", "txonly", layout.core[1]), ("client", "rxonly", layout.core[2])):
                command = ["dpdk-testpmd", f"--lcores={layout.control()},1@{core}", "--no-pci", "--iova-mode=va",
                           f"--file-prefix=oneside-compare{os.getpid()}-{mode}", *self.context.eal,
                           f"--vdev=net_memif0,role={role},id=0,socket={cable},socket-abstract=no,bsize={buffer},rsize={ring}",
                           "--", f"--forward-mode={mode}", "--nb-cores=1", f"--mbuf-size={buffer + 128}",
                           "--total-num-mbufs=16384", "--auto-start", "--stats-period=1"]
                if mode == "txonly":
                    command.append(f"--txpkts={self.frame}")
                self.ends.append(Background(command, os.path.join(self.context.directory, f"testpmd-{mode}.log")))
                # A memif client tries to connect once, at its start: wait until the server is ready.
                self.ends[-1].wait_for("Rx-pps", 30)
            deadline = time.time() + 20
            while self._received() == 0:
                if time.time() > deadline:
                    raise Failed("dpdk-testpmd received nothing")
                time.sleep(0.1)
        except BaseException:
            self.__exit__()
            raise
        self._signal(signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGINT)
        for end in self.ends:
            end.stop()

    def _signal(self, number):
        for end in self.ends:
            if end.process.poll() is None:
                end.process.send_signal(number)

    def _received(self):
        counters = telemetry(self.prefix, "/ethdev/stats,0")
        if "ipackets" not in counters:
            raise Failed("dpdk-testpmd does not answer at its telemetry socket")
        return counters["ipackets"]

    def rate(self, seconds):
        """Returns the frames per second."""
        self._signal(signal.SIGCONT)
        try:
            time.sleep(0.1)  # until the queues have filled
            before, start = self._received(), time.monotonic()
            time.sleep(seconds)
            moved, passed = self._received() - before, time.monotonic() - start
        finally:
            self._signal(signal.SIGSTOP)
        if moved <= 0:
            raise Failed(f"dpdk-testpmd received nothing in {passed:.1f} s")
        return moved / passed


# ---- the processor ----

def micro(context, name, cpus=None, seconds=0.2, policy=(), env=None):
    """Runs one benchmark of oneside-micro, and returns its JSON."""
    out = run([os.path.join(context.build, "perf", "oneside-micro"), f"--benchmark_filter=^{name}$",
               "--benchmark_format=json", f"--benchmark_min_time={seconds}"], SECONDS, env, cpus, policy)
    found = json.loads(out)["benchmarks"]
    if not found:
        raise Failed(f"oneside-micro has no {name}")
    return found[0]


def memcpy(context, size):
    """Returns bytes per second of memcpy, on the processor of a single data plane's polling core."""
    return micro(context, f"memcpy/{size}", [context.layout.alone_core])["bytes_per_second"]


def hop(context):
    """Returns the ns of a cache line to the other processor and back: {"p50": ..., "p99.9": ...}."""
    found = micro(context, "hop", None, 0.05)
    return {key: found[key] for key in ("p50", "p99.9")}


def relay(context, policy=()):
    """Returns {"p50": ns, "p99.9": ns} of three processes, placed like ours, that only pass a cache line on as a WRITE and
    its acknowledgement pass: the lower bound of time and jitter for three processes."""
    found = micro(context, "relay", None, 0.3, policy)
    return {key: found[key] for key in ("p50", "p99.9")}


def relay_frames(context, policy=()):
    """Like relay(), but the cores pass frames, of the same length as ours, over a memif by DPDK alone."""
    options = {"ONESIDE_EAL": " ".join([*context.eal, "--log-level=lib.eal:error"])}
    found = micro(context, "relay_frames/iterations:100000", policy=policy, env=options)
    return {key: found[key] for key in ("p50", "p99.9")}


def gaps(context, policy=()):
    """Returns how often per second a bare loop that polls the clock, on each of two processors, is interrupted for 6 us or
    more: operations that need both processors are late at least as often."""
    return micro(context, "gaps", None, 0.5, policy)["over_6us_per_second"]


def handover(context):
    """Returns the ns in which two threads hand one processor over and back."""
    return micro(context, "handover", None, 0.1)["real_time"]


def wake(context):
    """Returns the ns from a write to an eventfd to the run of the thread on the other processor, after 20 ms of sleep."""
    return micro(context, "wake", None, 1)["p50"]

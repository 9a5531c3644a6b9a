# SPDX-License-Identifier: BSD-3-Clause
"""What one would use instead: each function measures one program of Debian's packages."""
import json
import os
import re
import shutil
import signal
import time

from .machine import RIVALS
from .process import Background, Failed, run, wait_for_port

SECONDS = 90


def need(program):
    if shutil.which(program) is None:
        raise Failed(f"{program} is missing: apt-get install {RIVALS[program]}")


def free_port(context):
    context.port += 1
    return context.port


# ---- UCX ----

def ucx(context, transport, tests):
    """tests: {name: (test, size, iterations)}; {name: (typical us, operations a second)}."""
    need("ucx_perftest")
    env = {"UCX_TLS": transport, "UCX_NET_DEVICES": "lo", "UCX_LOG_LEVEL": "error"}
    if transport != "tcp":
        del env["UCX_NET_DEVICES"]
    batch = os.path.join(context.directory, "ucx.batch")
    with open(batch, "w", encoding="ascii") as f:
        for name, (test, size, count) in tests.items():
            f.write(f"{name} -t {test} -s {size} -n {count} -w {max(10, count // 20)}\n")
    port = free_port(context)
    server = Background(["ucx_perftest", "-p", str(port), "-b", batch], os.path.join(context.directory, "ucx.log"),
                        env, context.layout.server)
    try:
        wait_for_port(port, server)
        client = Background(["ucx_perftest", "-p", str(port), "127.0.0.1", "-b", batch, "-v"],
                            os.path.join(context.directory, "ucx-client.log"), env, context.layout.client)
        try:
            client.finish(SECONDS)
        finally:
            client.stop()
        out = client.said()
    finally:
        server.stop()
    # What it has said is worth something also when it did not come to its end.
    results = {}
    for line in out.splitlines():
        field = line.split(",")
        # name,iterations,typical,average,overall latency,bandwidths,rates
        if field[0] in tests and len(field) >= 9 and field[1].strip().isdigit():
            results[field[0]] = (float(field[2]), float(field[8]))
    if not results:
        raise Failed(f"ucx_perftest over {transport}: {out.strip()[-200:]}")
    return results


# ---- libfabric ----

def fabric(context, provider, sizes, count):
    """fi_pingpong: {size: us, half of a round trip}."""
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
    """Bytes a second by writes of that size."""
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
    """pp: {percentile: us} of half a round trip; tp: messages a second."""
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
            raise Failed("sockperf tells no rate")
        return float(found.group(1))
    percentiles = {float(p): float(v) for p, v in re.findall(r"percentile\s+([\d.]+)\s*=\s*([\d.]+)", out)}
    if not percentiles:
        raise Failed("sockperf tells no percentiles")
    return percentiles


# ---- raw DPDK ----

def testpmd(context, frame):
    """Frames of that many bytes over the same memif pair, one core at each end: frames a second."""
    need("dpdk-testpmd")
    layout, seconds = context.layout, max(2, round(context.seconds) + 1)
    ends = []
    cable = os.path.join(context.directory, f"cable-testpmd{frame}")
    for role, mode, core in (("server", "txonly", layout.core[1]), ("client", "rxonly", layout.core[2])):
        command = ["dpdk-testpmd", f"--lcores={layout.control()},1@{core}", "--no-pci", "--iova-mode=va",
                   f"--file-prefix=oneside-compare{os.getpid()}-{mode}", "--no-telemetry", *context.eal_memory,
                   f"--vdev=net_memif0,role={role},id=0,socket={cable},socket-abstract=no,bsize=4352,rsize=11", "--",
                   f"--forward-mode={mode}", "--nb-cores=1", "--mbuf-size=4608", "--total-num-mbufs=16384",
                   "--auto-start", "--stats-period=1"]
        if mode == "txonly":
            command.append(f"--txpkts={frame}")
        ends.append(Background(command, os.path.join(context.directory, f"testpmd-{mode}.log")))
        if mode == "txonly":
            time.sleep(0.5)
    try:
        ends[1].wait_for("Rx-pps", 30)
        deadline = time.time() + seconds + 30
        # The first figure is from before the link was up.
        while ends[1].said().count("Rx-pps") < seconds + 2 and time.time() < deadline:
            time.sleep(0.1)
        rates = [int(x) for x in re.findall(r"Rx-pps:\s+(\d+)", ends[1].said())][1:]
    finally:
        for end in ends:
            if end.process.poll() is None:
                end.process.send_signal(signal.SIGINT)
        for end in ends:
            end.stop()
    rates = sorted(r for r in rates if r > 0)
    if not rates:
        raise Failed("dpdk-testpmd received nothing")
    return rates[len(rates) // 2]


# ---- the processor ----

def micro(context, name, cpus=None):
    """One of oneside-micro: its JSON."""
    out = run([os.path.join(context.build, "perf", "oneside-micro"), f"--benchmark_filter=^{name}$",
               "--benchmark_format=json", "--benchmark_min_time=0.2"], SECONDS, None, cpus)
    found = json.loads(out)["benchmarks"]
    if not found:
        raise Failed(f"oneside-micro has no {name}")
    return found[0]


def memcpy(context, size):
    return micro(context, f"memcpy/{size}", context.layout.client)["bytes_per_second"]

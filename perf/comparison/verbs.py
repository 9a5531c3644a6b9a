# SPDX-License-Identifier: BSD-3-Clause
"""perftest as it is, on oneside's libibverbs, in turn with oneside-perf on the same two data planes."""
import os

from .process import Background, Failed, run, wait_for_port
from .rivals import SECONDS, free_port, need

GROUP = "Programs of verbs over memif"
WORKS = ((8, "8 B", 1024, 64, 2e6, "M/s"), (4096, "4 KiB", 256, 16, 5e5, "GB/s"), (1 << 20, "1 MiB", 4, 1, 3e3, "GB/s"))
COLUMNS = 5  # bytes, iterations, MB/s at most, MB/s (decimal), millions a second


def ib_write_bw(context, bench, size, depth, every, rate):
    """Writes a second."""
    need("ib_write_bw")
    program, port = os.path.join(context.build, "api", "verbs", "oneside-run"), free_port(context)
    command = ["ib_write_bw", "-F", "-s", str(size), "-t", str(depth), "-Q", str(every), "-p", str(port), "-n",
               str(max(depth, int(rate * context.seconds) // depth * depth))]
    server = Background([program, "--socket", bench.far.socket, *command],
                        os.path.join(context.directory, "ib_write_bw.log"), None, context.layout.server)
    try:
        wait_for_port(port, server)
        out = run([program, "--socket", bench.near.socket, *command, "127.0.0.1"], SECONDS, None,
                  context.layout.application)
        server.finish(10)
    finally:
        server.stop()
    for line in out.splitlines():
        field = line.split()
        if len(field) == COLUMNS and field[0] == str(size):
            return float(field[4]) * 1e6
    raise Failed(f"ib_write_bw: {out.strip()[-200:]}")


def programs(context, rows, bench, turns):
    """turns: of work.py."""
    for size, name, depth, every, rate, unit in WORKS:
        scale = 1e-6 if size == 8 else size / 1e9
        slices = turns(rows, bench, GROUP, {
            "perftest": lambda a=(size, depth, every, rate): ib_write_bw(context, bench, *a),
            "ours": lambda s=size, d=depth, q=every: bench.perf(
                ["write_bw", "--tx-depth", d, "-Q", q], context.layout.application, s)["ops"]}, {})
        hops = slices.hops("perftest")
        rows.add(GROUP, f"ib_write_bw, {name}", slices.of("perftest", lambda x, f=scale: x * f), unit, hops=hops,
                 rivals=[("oneside-perf", slices.of("ours", lambda x, f=scale: x * f), unit)])
        rows.ratio(GROUP, f"ib_write_bw, {name} / oneside-perf", slices.ratios("perftest", "ours"), "of oneside-perf", 0.9,
                   hops=hops)

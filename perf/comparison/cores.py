# SPDX-License-Identifier: BSD-3-Clause
"""Compares one pair of data planes with several polling cores each, and as many pairs with one core each: the same
number of polling threads on the same processors, and the same programs."""
import concurrent.futures
import contextlib
import json
import os

from .planes import PERF_SECONDS, Bench
from .process import Background, run
from .rows import LOWER

GROUP = "Two polling cores for each data plane, over memif"
LARGE = 1 << 20
FIRST_PORT = 18530
WORK = {"64 B RDMA writes, two programs of 16 endpoints": (64, ["--tx-depth", "64", "-Q", "16", "-q", "16"]),
        "1 MiB RDMA writes, two programs": (LARGE, ["--tx-depth", "4"])}


class Programs:
    """Programs on several benches: each has a server on the bench's far data plane. Benches are paused between slices."""

    def __init__(self, context, benches, each):
        self.context = context
        self.benches = benches
        self.servers = []
        self.ends = []  # (bench, port) of each server
        try:
            for bench in benches:
                for i in range(each):
                    self._serve(bench, FIRST_PORT + i)
        except BaseException:
            self.close()
            raise

    def _serve(self, bench, port):
        server = Background([self._program(), "-p", str(port)],
                            os.path.join(self.context.directory, f"server-{bench.name}-{port}.log"),
                            env=bench.far.environment())
        self.servers.append(server)
        server.wait_for("serving on", 20)
        self.ends.append((bench, port))

    def _program(self):
        return os.path.join(self.context.build, "perf", "oneside-perf")

    def close(self):
        for server in self.servers:
            server.stop()

    def _client(self, end, size, options):
        bench, port = end
        out = run([self._program(), "-t", "write_bw", "-p", str(port), "-s", str(size), "-D", str(self.context.seconds),
                   *options, "--json", bench.far.address], PERF_SECONDS, bench.near.environment())
        return json.loads(out.splitlines()[-1])["ops"]

    def rate(self, size, options):
        """Returns the operations per second of all programs together."""
        with concurrent.futures.ThreadPoolExecutor(len(self.ends)) as pool:
            return sum(pool.map(lambda end: self._client(end, size, options), self.ends))

    def handed_over(self):
        return sum(core["handed_over"] + core["tx_handed_over"] for bench in self.benches for plane in bench.planes
                   for core in plane.ask("/oneside/cores").values())


def alone(others, function):
    """Returns a function that calls `function` while the other benches are paused."""
    def without():
        with contextlib.ExitStack() as stack:
            for bench in others:
                stack.enter_context(bench.paused())
            return function()
    return without


def compare(rows, together, apart):
    for work, (size, options) in WORK.items():
        together_rate = alone(apart.benches, lambda s=size, o=options: together.rate(s, o))
        rows.attempt("the first frames", together_rate)  # each side learns which cores own the peer's queue pairs
        slices = rows.in_turn(GROUP, {
            "together": together_rate,
            "apart": alone(together.benches, lambda s=size, o=options: apart.rate(s, o))})
        convert, unit = ((lambda x: x / 1e6), "M/s") if size < LARGE else ((lambda x, s=size: x * s / 1e9), "GB/s")
        rows.add(GROUP, work, slices.of("together", convert), unit, hops=slices.hops("together"),
                 rivals=[("two pairs of data planes, one core each", slices.of("apart", convert), unit)])
        rows.ratio(GROUP, f"{work} / those over two pairs of data planes with one core each",
                   slices.ratios("together", "apart"), "of their sum", 0.95, hops=slices.hops("together"))


def settled(rows, together, apart):
    """Counts frames handed over; each slice makes new connections, so their first frames count too."""
    def handed():
        before = together.handed_over()
        together.rate(*next(iter(WORK.values())))
        return together.handed_over() - before

    rows.add(GROUP, "frames handed over in a slice, connections included",
             rows.attempt("frames handed over", alone(apart.benches, handed)), "frames", 0, LOWER)


def cores(context, rows):
    one, other = context.layout.core[1], context.layout.core[2]
    with contextlib.ExitStack() as stack:
        def bench(name, near, far):
            return stack.enter_context(Bench(context, name, True, cores=(near, far)))

        def programs(benches, each):
            return stack.enter_context(contextlib.closing(Programs(context, benches, each)))

        together = programs([bench("two", (one, other), (other, one))], 2)
        apart = programs([bench("first", (one,), (other,)), bench("second", (other,), (one,))], 1)
        hop, rows.hop = rows.hop, rows.hop and alone([*together.benches, *apart.benches], rows.hop)
        try:
            compare(rows, together, apart)
            settled(rows, together, apart)
        finally:
            rows.hop = hop

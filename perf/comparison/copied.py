# SPDX-License-Identifier: BSD-3-Clause
"""Memory that cannot be shared with the data plane and is copied by the library, in turn with memory that is shared."""
from .rows import HIGHER

GROUP = "Memory that is copied"
TESTS = (("write_bw", "RDMA writes"), ("send_bw", "sends"))
SIZES = ((1 << 20, "1 MiB", 16, 0.4), (4096, "4 KiB", 128, 0.25))


def copied(context, rows, bench, turns):
    """turns: of work.py."""
    for test, verb in TESTS:
        for size, name, depth, bar in SIZES:
            def rate(*more, t=test, s=size, d=depth):
                return lambda: bench.perf([t, "--tx-depth", d, *more], context.layout.application, s)["MBps"] / 1e3

            functions = {"shared": rate(), "sender": rate("--copied"), "receiver": rate("--copied-server")}
            slices = turns(rows, bench, GROUP, functions, {})
            for end in ("sender", "receiver"):
                hops = slices.hops(end)
                rows.add(GROUP, f"{verb} of {name}, memory of the {end} copied", slices.values(end), "GB/s", hops=hops,
                         rivals=[("shared memory", slices.values("shared"), "GB/s")])
                rows.ratio(GROUP, f"{verb} of {name}, memory of the {end}: copied / shared",
                           slices.ratios(end, "shared"), "of shared memory", bar, HIGHER, hops=hops)

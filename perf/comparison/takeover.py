# SPDX-License-Identifier: BSD-3-Clause
"""Measures how long a program waits while a new data plane takes over: the longest time between completions of 8 B writes in each
take-over, beside 1,000 idle connections and 1 GiB registered (tests/net/takeover.sh gaps)."""
import os

from .process import Failed, run
from .rows import LOWER

GROUP = "Taking over (1,000 connections, 1 GiB registered)"
SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "tests", "net", "takeover.sh")
# cable of the script: name, line of the plot, aims for the middle and the worst in ms
CABLES = {"memif": ("memif", "oneside over memif", 80, 250),
          "veth": ("af_packet on a veth", "oneside over af_packet", 80, 250),
          "local": ("one data plane", "oneside, one data plane", 50, 250)}
SECONDS = 30  # for one take-over


def gaps(context, cable, count):
    """Returns the times of each take-over in us: how long the data planes stood still, and a program's longest wait."""
    path = os.path.join(context.directory, f"gaps-{cable}")
    run(["bash", SCRIPT, "gaps", str(count)], SECONDS * (count + 2),
        {"BUILD": context.build, "DATAPLANE": os.path.join(context.build, "control", "oneside-dataplane"), "CABLE": cable, "GAPS": path})
    if not os.path.exists(path):
        raise Failed("takeover.sh gaps was skipped: it needs root, rdmacm-utils and libibverbs-dev")
    with open(path, encoding="utf-8") as lines:
        return list(zip(*(map(int, line.split()) for line in lines)))


def takeover(context, rows):
    count = 5 if context.quick else 20
    for cable, (name, line, usual, worst) in CABLES.items():
        times = rows.attempt(f"taking over, {name}", lambda cable=cable: gaps(context, cable, count))
        stopped, longest = ([t / 1e3 for t in column] for column in times) if times else ([], [])
        work = f"{name}: longest time between completions"
        rows.add(GROUP, work, longest, "ms", usual, LOWER, [("data plane stopped", stopped or None, "ms")])
        rows.add(GROUP, f"{work}, {count} take-overs, worst", max(longest, default=None), "ms", worst, LOWER)
        for rank, value in enumerate(sorted(longest), 1):
            rows.point("takeover", line, rank, value)

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the table of a run of perf/soft-roce.

    table.py CABLE FILE     FILE: the output of guest.sh
"""
import statistics
import sys

ASKED = {"rate": 5, "bandwidth": 3}


def kind(program, size):
    if program.endswith("_lat"):
        return "latency"
    return "rate" if size <= 4096 else "bandwidth"


def value(program, fields):
    """Returns the value in its kind's unit: us, thousands per second, or MB/s."""
    size = int(fields[0])
    if kind(program, size) == "latency":
        return float(fields[4])
    rate = float(fields[4]) * 1e6
    return rate / 1e3 if kind(program, size) == "rate" else rate * size / 1e6


UNIT = {"latency": "us", "rate": "thousand/s", "bandwidth": "MB/s"}


def read(path):
    """Returns {(program, size): {candidate: [a value for each round]}}."""
    works = {}
    with open(path, encoding="utf-8") as said:
        for line in said:
            word = line.split()
            if word[:1] == ["measured"]:
                candidate, program, fields = word[1], word[2], word[3:]
                works.setdefault((program, int(fields[0])), {}).setdefault(candidate, []).append(value(program, fields))
    return works


def cell(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def ratios(ours, theirs, latency):
    """Returns for each round how many times better than theirs ours is."""
    return [t / o if latency else o / t for o, t in zip(ours, theirs)]


def table(works):
    candidates = list(next(iter(works.values())))
    rest = candidates[1:]
    yield "| work | unit | " + candidates[0] + " | " + " | ".join(f"{c} | times" for c in rest) + " | asked for |"
    yield "|---" * (4 + 2 * len(rest)) + "|"
    for (program, size), measured in works.items():
        what = kind(program, size)
        row = [f"{program}, {size} B", UNIT[what], cell(measured[candidates[0]])]
        for c in rest:
            row += [cell(measured[c]), cell(ratios(measured[c], measured[candidates[0]], what == "latency"))]
        yield "| " + " | ".join(row + [str(ASKED.get(what, ""))]) + " |"


def main():
    cable, path = sys.argv[1:]
    works = read(path)
    if not works:
        sys.exit(f"{path}: nothing was measured")
    print(f"{cable}\n")
    print("\n".join(table(works)) + "\n")


if __name__ == "__main__":
    main()

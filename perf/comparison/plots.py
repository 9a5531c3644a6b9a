#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: plots.py compare.json: writes bandwidth.png, latency.png, endpoints.png and takeover.png next to it (python3-matplotlib)."""
import json
import os
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  the backend is chosen first

PLOTS = {
    "bandwidth": ("Bandwidth by message size", "bytes of a message", "GB/s"),
    "latency": ("Time of one operation by message size", "bytes of a message", "us"),
    "endpoints": ("Rate of 64-byte writes by busy endpoints", "endpoints", "million a second"),
    "takeover": ("Longest time between completions while a data plane is replaced", "take-overs, from the shortest", "ms"),
}

# Colours of programs in all plots, in the order of legends: the first entry whose words a label contains applies.
COLOURS = {
    "oneside over memif": "tab:blue", "oneside over af_packet": "tab:green", "oneside, one data plane": "tab:purple", "oneside through the rings": "tab:purple", "oneside, mapped": "tab:cyan",
    "UCX put, tcp": "tab:orange", "UCX put_lat, tcp": "tab:orange", "UCX put, posix": "tab:brown",
    "UCX put_lat, posix": "tab:brown", "libfabric tcp": "tab:red", "libfabric shm": "tab:pink", "kernel TCP": "tab:green",
    "testpmd": "tab:olive", "memcpy": "tab:gray",
}


def place(label):
    """Returns the number of the label's entry in COLOURS."""
    for number, words in enumerate(COLOURS):
        if words in label:
            return number
    raise SystemExit(f"plots.py: \"{label}\" has no colour: add it to COLOURS")


def size_name(size):
    for unit, factor in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def draw(name, lines, about, path):
    title, x_label, y_label = PLOTS[name]
    figure, axes = pyplot.subplots(figsize=(9, 5.5))
    ticks = sorted({int(x) for line in lines.values() for x in line})
    for label, line in sorted(lines.items(), key=lambda item: place(item[0])):
        points = sorted((int(x), y) for x, y in line.items())
        ours = label.startswith("oneside")
        axes.plot([p[0] for p in points], [p[1] for p in points], marker="o" if ours else "x",
                  linewidth=2 if ours else 1, linestyle="-" if ours else "--", color=[*COLOURS.values()][place(label)], label=label)
    sizes = name in ("bandwidth", "latency")
    if name != "takeover":
        axes.set_xscale("log", base=2)
    if sizes:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0, top=1.1 * max(y for line in lines.values() for y in line.values()))
    axes.set_xticks(ticks)
    axes.set_xticklabels([size_name(t) if sizes else str(t) for t in ticks], fontsize=8)
    axes.minorticks_off()
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8)
    figure.text(0.99, 0.01, f"{about['date']}, {about['processor']}", ha="right", fontsize=7, alpha=0.7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as f:
        results = json.load(f)
    for name in PLOTS:
        lines = {label: line for label, line in results["series"].get(name, {}).items() if line}
        if lines:
            path = os.path.join(os.path.dirname(sys.argv[1]), name + ".png")
            draw(name, lines, results["about"], path)
            print(path)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""The page, the summary and the files that are written from the results of a run, also from a saved compare.json."""
import json
import os
import shutil
import statistics

from .rows import LOWER, ORDINARY, number, spread
from .turns import APART

LEAST_STAGE = 0.05  # stages with a smaller share of a core's cycles are left out


def with_unit(text, row):
    """Appends the unit, except for ratios, whose name has their divisor."""
    return text if row["unit"].startswith("of ") or not row["unit"] else f"{text} {row['unit']}"


def value_cell(row):
    """The figure, bold if it misses the aim, and its spread."""
    if row["value"] is None:
        return f"– ({row['reason']})"
    figure = with_unit(number(row["value"]), row)
    return (f"**{figure}**" if row["met"] is False else figure) + spread(row["slices"])


def aim_cell(row):
    return "" if row["bar"] is None else f"{'≤' if row['better'] == LOWER else '≥'}{number(row['bar'])}"


def short_name(work, above):
    """The name, with an ellipsis for the last whole name above it."""
    rest = work.removeprefix(above)
    return f"…{rest.lstrip()}" if above and rest != work and rest[:1] in (" ", ",", ":") else work


def rival_cell(rival):
    if rival["value"] is None:
        return f"{rival['name']}: not measured"
    return f"{rival['name']}: {number(rival['value'])} {rival['unit']}{spread(rival['slices'])}"


def counted(slices, word):
    return f"{len(slices)} slice{'s' if len(slices) > 1 else ''} {word}"


def hop_lines(results, group):
    """Formats the hops beside the slices of a group that count, and the number of slices of another placement."""
    slices = [one for one in results["slices"] if one["group"] == group and one["hops"]]
    hops = [hop["p50"] for one in slices if one["kept"] for hop in one["hops"]]
    if not hops:
        return []
    parts = [f"Hop {number(statistics.median(hops))} ns{spread(hops)}"]
    left_out = [one for one in slices if not one["kept"]]
    limit = None if results["about"]["patience"] is None else APART * results["about"]["least_hop"]
    apart = [one for one in slices if one["kept"] and one["value"] is not None and limit is not None
             and max(hop["p50"] for hop in one["hops"]) > limit]
    parts += [counted(found, word) for found, word in ((left_out, "left out"), (apart, "**apart**")) if found]
    return ["; ".join(parts) + ".", ""]


def placement_line(about):
    if about["least_hop"] is None:
        return []
    if about["patience"] is None:
        return ["Slices count wherever the hypervisor had put the processors (`--any-placement`)."]
    return [f"A slice whose hop exceeds {APART} times the least of the run ({number(about['least_hop'])} ns) is left out and measured again, "
            f"for at most {about['patience']} s in all. Slices that exceed it and count are **apart**."]


TERMS = ("Hop: a cache line to the other processor and back. Bare relay: three processes that only pass a cache line on; bare frame relay: "
         "frames over a memif, by DPDK alone. Testpmd: bare frames of the same length. Late rounds: those in which a bare loop on each processor is off it for 6 us. Bare request: a "
         "message over a socket to another thread, and its answer. Bare thread: one asleep as long, woken by an eventfd. \"…\" is the last "
         "whole name above.")


def busy_line(about):
    busy = [f"{about[when] * 100:.0f} % of the processors {text}"
            for when, text in (("busy_before", "before it began"), ("busy_after", "after it ended"))
            if about[when] > 0.05]
    if about["stolen"] > 0.005:
        busy.append(f"{about['stolen'] * 100:.1f} % meanwhile (stolen by the hypervisor)")
    return [f"**The machine was not this program's alone: others had {', and '.join(busy)}.**"] if busy else []


def head(about):
    return [f"{about['date']}, {about['processor']}, {about['processors']} processors, "
            f"{'hugepages' if about['hugepages'] else 'ordinary pages'}, `{about['command']}`, GLIBC_TUNABLES={about['tunables']}.",
            f"Layout: {about['layout']}.",
            "Others: " + (", ".join(f"{k} {v}" for k, v in about["rivals"].items()) or "none installed") + ".",
            f"Work and its divisor ran in turn, {about['rounds']} rounds; figures are the median (least–most), **bold** where the aim is "
            "missed. Plots have these medians, else single figures.", *placement_line(about), TERMS, *busy_line(about)]


def table(results, group):
    """Returns the lines of the table of a group."""
    out, above, seen = ["work|oneside|aim|others", "---|---|---|---"], "", set()
    for row in (row for row in results["rows"] if row["group"] == group):
        name = short_name(row["work"], above)
        above = row["work"] if name == row["work"] else above
        others = [cell for cell in map(rival_cell, row["rivals"]) if cell not in seen]
        seen.update(others)
        out.append("|".join((name, value_cell(row), aim_cell(row), "; ".join(others))).rstrip("|"))
    return out


def markdown(results):
    out = head(results["about"])
    for group in dict.fromkeys(row["group"] for row in results["rows"]):
        out += ["", f"### {group}", "", *hop_lines(results, group), *table(results, group)]
    return "\n".join(out) + "\n"


def stages(explained):
    if not explained:
        return []
    out = ["", "### Where the time goes", "",
           "Cycles for an operation, by stage of a core's loop (`/oneside/stages`), measured in a run of its own. Stages below "
           f"{LEAST_STAGE * 100:.0f} % are left out.", "",
           "work|node, lcore|busy|cycles|operations in a busy loop|stages|stalls, drops", "---|---|---|---|---|---|---"]
    for work in explained:
        name = work["work"]
        for core in work["cores"]:
            total, per_loop = sum(core["cycles"].values()) or 1, core["operations_per_busy_loop"]
            cycles = sorted(core["cycles"].items(), key=lambda x: -x[1])
            lost = {**{k: v for k, v in core["stalls"].items() if v}, **core["drops"]}
            out.append("|".join((
                name, f"{core['node']}, {core['core']}", f"{core['busy'] * 100:.0f} %", number(total), number(per_loop) if per_loop else "–",
                ", ".join(f"{stage} {number(n)}" for stage, n in cycles if n >= total * LEAST_STAGE),
                ", ".join(f"{k} {v}" for k, v in lost.items()))).rstrip("|"))
            name = "…"
    return out


# ---- the summary for README ----

# (group, work): title, words with which the names of the others begin
SUMMARY = {("Two data planes over memif", "1 MiB RDMA writes, path MTU 4096"): ("1 MiB RDMA writes", ("kernel TCP", "UCX tcp")),
           ("Two data planes over memif", "64 B RDMA writes, one endpoint"): ("64 B RDMA writes", ("kernel TCP", "UCX tcp")),
           ("Two data planes over memif", "8 B RDMA write, post to completion"): ("8 B write, post to completion", ("UCX tcp",))}


def summary(results):
    """Returns the table of README: three figures of the run, each with those of others; None if one was not measured."""
    about = results["about"]
    found = {(row["group"], row["work"]): row for row in results["rows"]}
    if not all(found.get(key, {}).get("value") for key in SUMMARY):
        return None
    out = [f"over memif, {about['processors']} processors ({about['processor']}), {about['date']}|oneside|others", "---|---|---"]
    for key, (title, names) in SUMMARY.items():
        row, ordinary = found[key], found.get((key[0], key[1] + ORDINARY))
        figure = with_unit(number(row["value"]), row)
        if ordinary and ordinary["value"]:
            figure += f" ({number(ordinary['value'])} without round-robin scheduling)"
        others = [f"{name} {number(rival['value'])}" for name in names for rival in row["rivals"]
                  if rival["name"].startswith(name) and rival["value"] is not None]
        out.append(f"{title}|{figure}|{', '.join(others)}")
    return "\n".join(out) + "\n"


# ---- files ----

def write(results, directory):
    os.makedirs(directory, exist_ok=True)
    text = markdown(results) + "".join(f"{line}\n" for line in stages(results["stages"]))
    with open(os.path.join(directory, "compare.md"), "w", encoding="utf-8") as f:
        f.write(text)
    with open(os.path.join(directory, "compare.json"), "w", encoding="utf-8") as f:
        json.dump(results, f, indent=1)
        f.write("\n")
    return text


BEGIN, END = "<!-- perf/compare writes from here -->", "<!-- to here -->"


def into_document(text, path):
    """Writes the text between the marks of a document."""
    with open(path, encoding="utf-8") as f:
        document = f.read()
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise SystemExit(f"compare: {path}: needs one line \"{BEGIN}\" and one line \"{END}\"")
    before, rest = document.split(BEGIN)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}")


def into_documents(results, plots, root):
    """Writes doc/performance-results.md with its plots, and the figures of README.md: all of the same run."""
    figures = summary(results)
    if figures is None:
        raise SystemExit("compare: documents are written from a run with all of README's figures: run it without --only")
    pictures = ""
    for plot in plots:
        name = f"performance-{os.path.basename(plot)}"
        shutil.copyfile(plot, os.path.join(root, "doc", name))
        pictures += f"\n![{os.path.splitext(os.path.basename(plot))[0]}]({name})\n"
    into_document(markdown(results) + pictures, os.path.join(root, "doc", "performance-results.md"))
    into_document(figures, os.path.join(root, "README.md"))

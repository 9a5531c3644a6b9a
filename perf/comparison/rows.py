# SPDX-License-Identifier: BSD-3-Clause
"""The rows of the table, and what is written of them."""
import json
import os
import shutil
import statistics
import sys

from .process import Failed

HIGHER, LOWER = "higher", "lower"


def number(value):
    """Three significant figures, without an exponent."""
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:,.0f}"
    if magnitude >= 100:
        return f"{value:.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


class Rows:
    def __init__(self, repeats):
        self.repeats = repeats
        self.rows = []
        self.series = {"bandwidth": {}, "latency": {}, "endpoints": {}}
        self.explained = []

    def attempt(self, what, function):
        """What the function gives, or None: then the reason has been told."""
        try:
            return function()
        except (Failed, KeyError, IndexError, ValueError) as error:
            reason = str(error) if isinstance(error, Failed) else f"unexpected output: {error!r}"
            print(f"  {what}: {reason}", file=sys.stderr)
            self.last_reason = reason
            return None

    def median(self, what, function):
        """The median of several runs; None when one failed."""
        values = []
        for _ in range(self.repeats):
            value = self.attempt(what, function)
            if value is None:
                return None
            values.append(value)
        return statistics.median(values)

    def add(self, group, work, value, unit, bar=None, better=HIGHER, rivals=(), bar_text=None):
        """rivals: (name, value, unit); a value of None is said to be missing."""
        met = None
        if value is not None and bar is not None:
            met = value >= bar if better == HIGHER else value <= bar
        row = {"group": group, "work": work, "value": value, "unit": unit, "bar": bar, "better": better,
               "met": met, "bar_text": bar_text,
               "rivals": [{"name": n, "value": v, "unit": u} for n, v, u in rivals],
               "reason": None if value is not None else getattr(self, "last_reason", "not measured")}
        self.rows.append(row)
        said = f"{number(value)} {unit}" if value is not None else f"not measured ({row['reason']})"
        print(f"  {work}: {said}" + ("" if met is None else "" if met else "  (below what was asked for)"
                                      if better == HIGHER else "  (above what was asked for)"), file=sys.stderr)
        return value

    def measure(self, group, work, function, unit, bar=None, better=HIGHER, rivals=(), bar_text=None):
        return self.add(group, work, self.median(work, function), unit, bar, better, rivals, bar_text)

    def ratio(self, group, work, value, base, what, bar=None):
        """value / base; `what` says of what."""
        if value is None or not base:
            self.last_reason = "one of the two was not measured"
            return self.add(group, work, None, what, bar)
        return self.add(group, work, value / base, what, bar)

    def point(self, plot, name, x, y):
        if y is not None:
            self.series[plot].setdefault(name, {})[x] = y

    def explain(self, title, function):
        cores = self.attempt(f"where the time goes: {title}", function)
        if cores:
            self.explained.append({"work": title, "cores": cores})

    def rival(self, group, work, name, value, unit):
        """Another program's figure for a row that is there already."""
        for row in self.rows:
            if row["group"] == group and row["work"] == work:
                row["rivals"].append({"name": name, "value": value, "unit": unit})


def bar_cell(row):
    if row["bar"] is None:
        return row["bar_text"] or ""
    text = row["bar_text"] or f"{'at most ' if row['better'] == LOWER else ''}{number(row['bar'])} {row['unit']}"
    return text + {True: "", False: " (missed)", None: ""}[row["met"]]


def markdown(rows, about):
    out = [f"{about['date']}, {about['processor']}, {about['processors']} processors, "
           f"{'hugepages' if about['hugepages'] else 'ordinary pages'}, `{about['command']}`.",
           f"Layout: {about['layout']}.",
           "Rivals: " + (", ".join(f"{k} {v}" for k, v in about["rivals"].items()) or "none installed") + "."]
    if about["load"] > 0.5:
        out.append(f"**The machine was not idle when it began: load average {about['load']:.1f}.**")
    group = None
    groups = list(dict.fromkeys(row["group"] for row in rows.rows))
    for row in sorted(rows.rows, key=lambda r: groups.index(r["group"])):
        if row["group"] != group:
            group = row["group"]
            out += ["", f"### {group}", "", "| work | oneside | asked for | others, in the same run |", "|---|---|---|---|"]
        value = f"{number(row['value'])} {row['unit']}" if row["value"] is not None else f"– ({row['reason']})"
        others = "; ".join(f"{r['name']}: {number(r['value'])} {r['unit']}" if r["value"] is not None
                           else f"{r['name']}: not measured" for r in row["rivals"])
        out.append(f"| {row['work']} | {value} | {bar_cell(row)} | {others} |")
    return "\n".join(out) + "\n\n" + explained_markdown(rows)


def explained_markdown(rows):
    if not rows.explained:
        return ""
    out = ["### Where the time goes", "",
           "Cycles for one operation, by stage of a polling core's loop (`/oneside/stages`), while the work above is "
           "done again with the stages timed; stages below one per cent are left out.", ""]
    for work in rows.explained:
        out += [f"{work['work']}:", "", "| core | busy | cycles for one operation | operations in a busy loop | "
                "stalls and drops |", "|---|---|---|---|---|"]
        for core in work["cores"]:
            total = sum(core["cycles"].values()) or 1
            stages = ", ".join(f"{name} {number(cycles)}" for name, cycles in
                               sorted(core["cycles"].items(), key=lambda x: -x[1]) if cycles >= total / 100)
            lost = {**{k: v for k, v in core["stalls"].items() if v}, **core["drops"]}
            per_loop = core["operations_per_busy_loop"]
            out.append(f"| node {core['node']} lcore {core['core']} | {core['busy'] * 100:.0f} % | "
                       f"{number(total)}: {stages} | {number(per_loop) if per_loop else '–'} | "
                       + (", ".join(f"{k} {v}" for k, v in lost.items()) or "none") + " |")
        out.append("")
    return "\n".join(out)


def write(rows, about, directory):
    os.makedirs(directory, exist_ok=True)
    text = markdown(rows, about)
    with open(os.path.join(directory, "compare.md"), "w", encoding="utf-8") as f:
        f.write(text)
    with open(os.path.join(directory, "compare.json"), "w", encoding="utf-8") as f:
        json.dump({"about": about, "rows": rows.rows, "series": rows.series, "stages": rows.explained}, f, indent=1)
        f.write("\n")
    return text


BEGIN, END = "<!-- perf/compare writes from here -->", "<!-- to here -->"


def into_document(text, plots, path):
    """The table and the plots between the marks of a document; the plots are put beside it."""
    with open(path, encoding="utf-8") as f:
        document = f.read()
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise SystemExit(f"compare: {path}: needs one line \"{BEGIN}\" and one line \"{END}\"")
    head, rest = document.split(BEGIN)
    pictures = ""
    for plot in plots:
        name = f"performance-{os.path.basename(plot)}"
        shutil.copyfile(plot, os.path.join(os.path.dirname(path) or ".", name))
        pictures += f"![{os.path.splitext(os.path.basename(plot))[0]}]({name})\n\n"
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{head}{BEGIN}\n\n{text}\n{pictures}{END}{rest.split(END)[1]}")

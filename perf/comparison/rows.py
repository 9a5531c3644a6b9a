# SPDX-License-Identifier: BSD-3-Clause
"""The rows of the table, and the files written from them."""
import json
import os
import shutil
import statistics
import sys

from .process import Failed
from .turns import APART, Turns

HIGHER, LOWER = "higher", "lower"


def number(value):
    """Formats a number with three significant figures, without an exponent."""
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:,.0f}"
    if magnitude >= 100:
        return f"{value:.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def spread(values):
    """Formats the range of several values that differ."""
    if len(values) < 2 or number(min(values)) == number(max(values)):
        return ""
    return f" ({number(min(values))}–{number(max(values))})"


def middle(values):
    return statistics.median(values) if values else None


class Rows:
    def __init__(self, rounds, hop=None, patience=None):
        """hop: measures the time of a cache line from one processor to the other and back, {"p50": ns, ...}.
        patience: limits the time for measuring again slices of another placement; None: never."""
        self.hop = hop
        self.turns = Turns(rounds, self.attempt, patience)
        self.rows = []
        self.series = {"bandwidth": {}, "latency": {}, "endpoints": {}}
        self.explained = []

    def attempt(self, what, function):
        """Returns the function's result; if it fails, prints the reason and returns None."""
        try:
            return function()
        except (Failed, KeyError, IndexError, ValueError) as error:
            reason = str(error) if isinstance(error, Failed) else f"unexpected output: {error!r}"
            print(f"  {what}: {reason}", file=sys.stderr)
            self.last_reason = reason
            return None

    def in_turn(self, group, functions):
        """Calls each of {name: function} once per round; measures the hop before and after each call."""
        return self.turns.in_turn(group, functions, self.hop)

    def add(self, group, work, values, unit, bar=None, better=HIGHER, rivals=(), hops=None):
        """values: one, or those of several slices: the middle one counts.  rivals: (name, value, unit); a value
        of None is said to be missing."""
        values = [] if values is None else values if isinstance(values, list) else [values]
        value, met = middle(values), None
        if value is not None and bar is not None:
            met = value >= bar if better == HIGHER else value <= bar
        row = {"group": group, "work": work, "value": value, "unit": unit, "slices": values, "bar": bar,
               "better": better, "met": met, "hops_ns": hops,
               "rivals": [{"name": n, "value": middle(v) if isinstance(v, list) else v, "unit": u,
                           "slices": v if isinstance(v, list) else [] if v is None else [v]} for n, v, u in rivals],
               "reason": None if value is not None else getattr(self, "last_reason", "not measured")}
        self.rows.append(row)
        said = f"{number(value)} {unit}{spread(values)}" if value is not None else f"not measured ({row['reason']})"
        print(f"  {work}: {said}" + ("" if met is None else "" if met else "  (below the requirement)"
                                      if better == HIGHER else "  (above the requirement)"), file=sys.stderr)
        return value

    def ratio(self, group, work, ratios, what, bar=None, better=HIGHER, rivals=(), hops=None):
        """Adds a row with a ratio. ratios: result of Slices.ratios, or None; `what` names the divisor."""
        if not ratios:
            self.last_reason = "one of the two was not measured"
        return self.add(group, work, ratios or None, what, bar, better, rivals, hops)

    def point(self, plot, name, x, y):
        """Adds a point of a plot; the first one stays.  A row's median is added before the single figure of a sweep, so that plot
        and table have the same figure."""
        if y is not None:
            self.series[plot].setdefault(name, {}).setdefault(x, y)

    def points(self, plot, name, values):
        """Adds a point for each {x: slices}, with their median."""
        for x, slices in values.items():
            self.point(plot, name, x, middle(slices))

    def explain(self, title, function):
        cores = self.attempt(f"where the time goes: {title}", function)
        if cores:
            self.explained.append({"work": title, "cores": cores})

    def rival(self, group, work, name, value, unit):
        """Adds another program's figure to an existing row."""
        for row in self.rows:
            if row["group"] == group and row["work"] == work:
                values = value if isinstance(value, list) else [] if value is None else [value]
                row["rivals"].append({"name": name, "value": middle(values), "unit": unit, "slices": values})


def with_unit(text, row):
    """Appends the unit, except for ratios, whose name has their divisor."""
    return text if row["unit"].startswith("of ") else f"{text} {row['unit']}"


def value_cell(row):
    """The figure, its spread, and the aim if there is one."""
    text = with_unit(number(row["value"]), row) + spread(row["slices"]) if row["value"] is not None else f"– ({row['reason']})"
    if row["bar"] is not None:
        text += f"; aim {'≤' if row['better'] == LOWER else '≥'}{with_unit(number(row['bar']), row)}"
    return text + (", missed" if row["met"] is False else "")


def short_name(work, above):
    """The name, with an ellipsis for the last whole name above it."""
    rest = work.removeprefix(above)
    return f"…{rest}" if above and rest != work and rest[:1] in (" ", ",", ":") else work


def rival_cell(rival):
    if rival["value"] is None:
        return f"{rival['name']}: not measured"
    return f"{rival['name']}: {number(rival['value'])} {rival['unit']}{spread(rival['slices'])}"


def counted(values):
    """Formats the number of slices and their hops."""
    return f"{len(values)} slice{'s' if len(values) > 1 else ''} (hop {number(middle(values))} ns{spread(values)})"


def hop_lines(told):
    """Formats the hops of a group; told: the group's entry in Turns.told."""
    if not told or not told["kept"]:
        return []
    typical, late = [h["p50"] for h in told["kept"]], [h["p99.9"] for h in told["kept"]]
    out = f"Hop meanwhile: {number(middle(typical))} ns{spread(typical)}, 99.9 %: {number(middle(late))} ns{spread(late)}."
    if told["left out"]:
        out += f" Left out: {counted(told['left out'])}"
        out += f", {number(told['waited'])} s." if told["waited"] >= 1 else "."
    if told["unlike"]:
        out += (f" **{counted(told['unlike'])} count although the processors were farther apart than in others of "
                "the run**: there was no more time to measure them again.")
    return [out, ""]


def placement_line(about):
    if about.get("least_hop") is None:
        return []
    if about["patience"] is None:
        return ["Slices count wherever the hypervisor had put the processors (`--any-placement`)."]
    return [f"A slice beside which a hop takes more than {APART} times the least of this run ({number(about['least_hop'])} ns) "
            f"is left out and measured again, for at most {about['patience']} s in all; plots have these medians, else single figures."]


TERMS = ("Others ran in the same run. Hop: a cache line to the other processor and back. Bare relay: three processes that pass a cache line on and do nothing "
         "else; bare frame relay: the same with frames of that length over a memif, by DPDK alone. Late rounds: those in which a "
         "bare loop on each processor is off it for 6 us or more. Bare request: one over a socket to another thread, and its "
         "answer. Bare thread: one asleep as long, woken by an eventfd. A figure of others that belongs to several rows is in the first; "
         "\"…\" is the last whole name above.")


def head(about):
    out = [f"{about['date']}, {about['processor']}, {about['processors']} processors, "
           f"{'hugepages' if about['hugepages'] else 'ordinary pages'}, `{about['command']}`.",
           f"Layout: {about['layout']}. All programs run with GLIBC_TUNABLES={about['tunables']}.",
           "Rivals: " + (", ".join(f"{k} {v}" for k, v in about["rivals"].items()) or "none installed") + ".",
           f"Work and what it is divided by were measured in turn, {about['rounds']} times; figures are the median (least to most).",
           *placement_line(about), TERMS]
    busy = [f"{about[when] * 100:.0f} % of the processors {text}"
            for when, text in (("busy_before", "before it began"), ("busy_after", "after it ended"))
            if about[when] > 0.05]
    if about["stolen"] > 0.005:
        busy.append(f"{about['stolen'] * 100:.1f} % meanwhile (stolen by the hypervisor)")
    if busy:
        out.append(f"**The machine was not this program's alone: others had {', and '.join(busy)}.**")
    return out


def markdown(rows, about):
    out = head(about)
    group = None
    groups = list(dict.fromkeys(row["group"] for row in rows.rows))
    for row in sorted(rows.rows, key=lambda r: groups.index(r["group"])):
        if row["group"] != group:
            group, above, seen = row["group"], "", set()
            out += ["", f"### {group}", "", *hop_lines(rows.turns.told.get(group)), "work|oneside|others", "---|---|---"]
        name = short_name(row["work"], above)
        above = row["work"] if name == row["work"] else above
        others = [cell for cell in map(rival_cell, row["rivals"]) if cell not in seen]
        seen.update(others)
        out.append(f"{name}|{value_cell(row)}|{'; '.join(others)}".rstrip("|"))
    return "\n".join(out) + "\n\n" + explained_markdown(rows)


def explained_markdown(rows):
    if not rows.explained:
        return ""
    out = ["### Where the time goes", "",
           "Cycles for one operation, by stage of a core's loop (`/oneside/stages`), measured in a run of its own; operations in a "
           "busy loop; stalls and drops. Stages below one per cent are left out.", ""]
    for work in rows.explained:
        for core in work["cores"]:
            total = sum(core["cycles"].values()) or 1
            stages = ", ".join(f"{name} {number(cycles)}" for name, cycles in
                               sorted(core["cycles"].items(), key=lambda x: -x[1]) if cycles >= total / 100)
            lost = {**{k: v for k, v in core["stalls"].items() if v}, **core["drops"]}
            per_loop = core["operations_per_busy_loop"]
            out.append(f"* {work['work']}, node {core['node']} lcore {core['core']}, {core['busy'] * 100:.0f} % busy: {number(total)} "
                       f"({stages}); {number(per_loop) if per_loop else '–'}"
                       + "".join(f"; {k} {v}" for k, v in lost.items()))
    return "\n".join(out) + "\n"


def write(rows, about, directory):
    os.makedirs(directory, exist_ok=True)
    text = markdown(rows, about)
    with open(os.path.join(directory, "compare.md"), "w", encoding="utf-8") as f:
        f.write(text)
    with open(os.path.join(directory, "compare.json"), "w", encoding="utf-8") as f:
        json.dump({"about": about, "rows": rows.rows, "hops": {group: told["kept"] for group, told in rows.turns.told.items()},
                   "slices": rows.turns.all, "series": rows.series, "stages": rows.explained}, f, indent=1)
        f.write("\n")
    return text


BEGIN, END = "<!-- perf/compare writes from here -->", "<!-- to here -->"


def into_document(text, plots, path):
    """Writes the table and links to the plots between the marks of a document; copies the plots next to it."""
    with open(path, encoding="utf-8") as f:
        document = f.read()
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise SystemExit(f"compare: {path}: needs one line \"{BEGIN}\" and one line \"{END}\"")
    before, rest = document.split(BEGIN)
    pictures = ""
    for plot in plots:
        name = f"performance-{os.path.basename(plot)}"
        shutil.copyfile(plot, os.path.join(os.path.dirname(path) or ".", name))
        pictures += f"![{os.path.splitext(os.path.basename(plot))[0]}]({name})\n\n"
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{before}{BEGIN}\n\n{text}\n{pictures}{END}{rest.split(END)[1]}")

# SPDX-License-Identifier: BSD-3-Clause
"""The rows of the table, and all results of a run."""
import statistics
import sys

from .process import Failed
from .turns import Turns

HIGHER, LOWER = "higher", "lower"
ORDINARY = ", ordinary policy"  # ends the name of work that is also measured with round-robin scheduling


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
        self.series = {"bandwidth": {}, "latency": {}, "endpoints": {}, "takeover": {}}
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

    def results(self, about):
        """Returns all that compare.json has; about: the machine and the run."""
        return {"about": {**about, "least_hop": self.turns.least}, "rows": self.rows, "slices": self.turns.all,
                "series": self.series, "stages": self.explained}

# SPDX-License-Identifier: BSD-3-Clause
"""Measures several functions alternately in short slices, all with the processors at their least distance.

A hypervisor may move virtual processors among the host's processors within seconds. Communication between two then
takes several times as long, and a median would mix two machines. Therefore the time of a cache line to the other
processor and back (the hop) is measured before and after each slice, and a slice of another placement is measured
again, as long as the patience lasts. Slices left out are counted in the text, and listed with their figures in the
JSON.
"""
import time

APART = 3  # a hop of more than this many times the least hop is another placement, not noise


class Slices:
    """The results of all rounds: each round has one slice of each function, moments apart."""

    def __init__(self):
        self.rounds = []  # {name: value} without failed slices
        self.near = []    # {name: ns}, the mean hop of each slice

    def values(self, name):
        """Returns the values of all rounds; None if one failed, because half a comparison is none."""
        found = [r[name] for r in self.rounds if name in r]
        return found if found and len(found) == len(self.rounds) else None

    def of(self, name, convert):
        values = self.values(name)
        return None if values is None else [convert(v) for v in values]

    def of_pairs(self, name, base, convert):
        """Combines values round by round, so that a slow minute of the machine affects both."""
        one, other = self.values(name), self.values(base)
        if one is None or other is None or not all(other):
            return None
        return [convert(a, b) for a, b in zip(one, other)]

    def ratios(self, name, base, scale=1):
        return self.of_pairs(name, base, lambda a, b: scale * a / b)

    def hops(self, name):
        """Returns the hops of the slices of `name`."""
        found = [r[name] for r in self.near if name in r]
        return found if found and len(found) == len(self.rounds) else None


class Patience:
    """Seconds for waiting and for measuring again: in total, and for each part."""

    def __init__(self, total, part):
        self.total, self.part, self.here = total, part, 0

    def begin(self):
        self.here = min(self.part, self.total)

    def spend(self, since):
        now = time.monotonic()
        self.total -= now - since
        self.here -= now - since
        return now

    def left(self):
        return self.here > 0


class Slice:
    """A measurement between two hops."""

    def __init__(self, number, name, value, hops):
        self.number, self.name, self.value = number, name, value
        self.hops = [h for h in hops if h is not None]

    def far(self):
        return max((h["p50"] for h in self.hops), default=0)


class Turns:
    """The slices of the whole run. attempt(what, function) returns None if the function failed, and prints the reason."""

    LOOKS = 20  # hops measured first, to know the machine's least hop

    def __init__(self, repeats, attempt, patience=None):
        """patience: None accepts every placement."""
        self.repeats, self.attempt, self.patience = repeats, attempt, patience
        self.least = None
        self.last = None  # the last hop, if nothing was measured since
        self.all = []     # every slice, and whether it counts

    def _look(self, hop):
        found = None if hop is None else self.attempt("the hop", hop)
        if found is not None:
            self.least = found["p50"] if self.least is None else min(self.least, found["p50"])
        self.last = found
        return found

    def is_like(self, ns):
        return self.least is None or ns <= APART * self.least

    def _wait(self, hop):
        """Waits until the processors are near each other, or patience ends."""
        since = time.monotonic()
        while self.last is not None and not self.is_like(self.last["p50"]) and self.patience.left():
            self._look(hop)
            since = self.patience.spend(since)

    def _measure(self, number, name, function, hop):
        before = self.last or self._look(hop)
        value = self.attempt(name, function)
        return Slice(number, name, value, [before, self._look(hop)])

    def _unlike(self, one):
        """Whether a slice is of another placement; a failed slice is not, so that it is not repeated."""
        return one.value is not None and not self.is_like(one.far())

    def _again(self, one, function, hop, done):
        """Measures a slice again while it is of another placement and patience lasts."""
        while self._unlike(one) and self.patience.left():
            self._wait(hop)
            since = time.monotonic()
            one = self._measure(one.number, one.name, function, hop)
            done.append(one)
            self.patience.spend(since)
        return one

    def in_turn(self, group, functions, hop):
        """Calls each of {name: function} once per round."""
        done, counted, patience = [], {}, self.patience
        self.last = None
        if patience is not None:
            patience.begin()
            for _ in range(self.LOOKS if self.least is None else 1):
                self._look(hop)
        for number in range(self.repeats):
            for name, function in functions.items():
                if patience is not None:
                    self._wait(hop)
                one = self._measure(number, name, function, hop)
                done.append(one)
                counted[number, name] = one if patience is None else self._again(one, function, hop, done)
        if patience is not None:
            # The least hop may have become smaller since: slices that counted may be of another placement now.
            for key, one in counted.items():
                counted[key] = self._again(one, functions[key[1]], hop, done)
        self._record(group, done, list(counted.values()))
        return self._slices(counted)

    def _record(self, group, done, counted):
        self.all += [{"group": group, "name": one.name, "round": one.number, "value": one.value, "hops": one.hops,
                      "kept": any(one is c for c in counted)} for one in done]

    def _slices(self, counted):
        slices = Slices()
        for number in range(self.repeats):
            here = {one.name: one for (n, _), one in counted.items() if n == number and one.value is not None}
            near = {name: sum(h["p50"] for h in one.hops) / len(one.hops) for name, one in here.items() if one.hops}
            slices.rounds.append({name: one.value for name, one in here.items()})
            slices.near.append(near)
        return slices

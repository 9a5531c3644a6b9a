# SPDX-License-Identifier: BSD-3-Clause
"""Short measurements of several things in turn, all while the processors are as near to each other as they ever were.

A hypervisor moves its processors about among those of the host, within seconds: what crosses from one to the
other then takes several times as long, and a middle of such figures is one of two machines.  So the way of a
cache line there and back (the hop) is measured before and after each slice, and a slice of another placement
is measured again, for as long as the patience lasts.  Nothing of that is silent: what was left out is counted
in the text, and listed with its figures in the JSON.
"""
import time

APART = 3  # times the least hop seen: that is another placement, and no noise


class Slices:
    """What became of the rounds: each has one of everything, moments apart."""

    def __init__(self):
        self.rounds = []  # {name: value}; what failed is not there
        self.near = []    # {name: ns}, the hop of each of these slices

    def values(self, name):
        """None when it failed once: half a comparison is none."""
        found = [r[name] for r in self.rounds if name in r]
        return found if found and len(found) == len(self.rounds) else None

    def of(self, name, convert):
        values = self.values(name)
        return None if values is None else [convert(v) for v in values]

    def of_pairs(self, name, base, convert):
        """Round by round, so that a machine that is slower in some minutes is so for both."""
        one, other = self.values(name), self.values(base)
        if one is None or other is None or not all(other):
            return None
        return [convert(a, b) for a, b in zip(one, other)]

    def ratios(self, name, base, scale=1):
        return self.of_pairs(name, base, lambda a, b: scale * a / b)

    def hops(self, name):
        """Of those slices of everything in which `name` was measured."""
        found = [r[name] for r in self.near if name in r]
        return found if found and len(found) == len(self.rounds) else None


class Patience:
    """Seconds that may go into waiting and into measuring again: for all, and for each part."""

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
    """One measurement between two hops."""

    def __init__(self, number, name, value, hops):
        self.number, self.name, self.value = number, name, value
        self.hops = [h for h in hops if h is not None]

    def far(self):
        return max((h["p50"] for h in self.hops), default=0)


class Turns:
    """Of the whole run.  attempt(what, function) gives None for what failed, and has said why."""

    LOOKS = 20  # at first, to know what the machine has to offer

    def __init__(self, repeats, attempt, patience=None):
        """Without patience every placement is taken as it comes."""
        self.repeats, self.attempt, self.patience = repeats, attempt, patience
        self.least = None
        self.last = None  # the hop that was measured last, if nothing else has been since
        self.told = {}    # group: {"kept": hops, "left out": ns, "unlike": ns, "waited": seconds}
        self.all = []     # for the JSON: every slice, with whether it counts

    def _look(self, hop):
        found = None if hop is None else self.attempt("the hop", hop)
        if found is not None:
            self.least = found["p50"] if self.least is None else min(self.least, found["p50"])
        self.last = found
        return found

    def is_like(self, ns):
        return self.least is None or ns <= APART * self.least

    def _wait(self, hop):
        """Until the processors are near each other."""
        since = time.monotonic()
        while self.last is not None and not self.is_like(self.last["p50"]) and self.patience.left():
            self._look(hop)
            since = self.patience.spend(since)

    def _measure(self, number, name, function, hop):
        before = self.last or self._look(hop)
        value = self.attempt(name, function)
        return Slice(number, name, value, [before, self._look(hop)])

    def _unlike(self, one):
        """What failed is not tried again."""
        return one.value is not None and not self.is_like(one.far())

    def _again(self, one, function, hop, done):
        """While it is of another placement, and there is patience."""
        while self._unlike(one) and self.patience.left():
            self._wait(hop)
            since = time.monotonic()
            one = self._measure(one.number, one.name, function, hop)
            done.append(one)
            self.patience.spend(since)
        return one

    def in_turn(self, group, functions, hop):
        """Each of {name: function} once, and that as many times as there are rounds."""
        done, counted, patience = [], {}, self.patience
        self.last = None
        if patience is not None:
            patience.begin()
            for _ in range(self.LOOKS if self.least is None else 1):
                self._look(hop)
        waited = patience.here if patience is not None else 0
        for number in range(self.repeats):
            for name, function in functions.items():
                if patience is not None:
                    self._wait(hop)
                one = self._measure(number, name, function, hop)
                done.append(one)
                counted[number, name] = one if patience is None else self._again(one, function, hop, done)
        if patience is not None:
            # What was near when it was measured may not be so any more, since the processors have come nearer.
            for key, one in counted.items():
                counted[key] = self._again(one, functions[key[1]], hop, done)
            waited -= patience.here
        self._tell(group, done, list(counted.values()), waited)
        return self._slices(counted)

    def _tell(self, group, done, counted, waited):
        told = self.told.setdefault(group, {"kept": [], "left out": [], "unlike": [], "waited": 0})
        told["waited"] += waited
        for one in done:
            kept = any(one is c for c in counted)
            if kept:
                told["kept"] += one.hops
                if self._unlike(one):
                    told["unlike"].append(one.far())
            else:
                told["left out"].append(one.far())
            self.all.append({"group": group, "name": one.name, "round": one.number, "value": one.value,
                             "hops": one.hops, "kept": kept})

    def _slices(self, counted):
        slices = Slices()
        for number in range(self.repeats):
            here = {one.name: one for (n, _), one in counted.items() if n == number and one.value is not None}
            near = {name: sum(h["p50"] for h in one.hops) / len(one.hops) for name, one in here.items() if one.hops}
            slices.rounds.append({name: one.value for name, one in here.items()})
            slices.near.append(near)
        return slices

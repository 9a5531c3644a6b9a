# SPDX-License-Identifier: BSD-3-Clause
"""Resources of a data plane: objects, quota charges of users, descriptors, mappings, memory."""

import collections
import os
import re

OWN_MEMORY = 64 << 10       # KiB by which pools and the heap may grow
# KiB: the cable's buffers, of which each page counts once it was used (35,000 for the two rings in each direction of two
# polling cores), and buffers of the pools that are used for the first time.
SHARED_MEMORY = 48 << 10
THREADS = 32
# Messages of DPDK's memif driver while the other data plane is dead.
EXPECTED = ("memif_connect_client(): Failed to connect socket",)
# Resources that a library caches for its application's next import or connection, with their bounds: librsm caches
# four staging rings for four imports.
KEPT = {"mrs": 4, "cqs": 4, "keys": 8, "arena_bytes": 4 << 20, "bytes": 8 << 20}


def counted(lines, *names):
    return dict(collections.Counter(" ".join(str(line.get(name)) for name in names) for line in lines))


def mappings(plane):
    """Counts the shared mappings, by the names of their files."""
    with open(plane.proc("maps"), encoding="utf-8") as maps:
        shared = [line.split(None, 5) for line in maps]
    names = (re.sub(r"\d+", "N", words[5].strip()) for words in shared if words[1][3] == "s" and len(words) > 5)
    return dict(collections.Counter(names))


def exact(plane):
    """Resources that must be exactly the same again."""
    charged = {line["uid"]: {name: value for name, value in line.items()
                             if not name.endswith("_max") and name != "uid" and name not in KEPT and value}
               for line in plane.show("quota")}
    return {
        "clients": counted(plane.show("clients"), "api", "state", "qps", "srqs", "listeners", "requests_open", "windows",
                           "segments", "mapped_bytes"),
        "endpoints": counted(plane.show("endpoints"), "role", "state", "peer"),
        "connections": counted(plane.show("connections"), "role", "state", "side", "peer"),
        "listeners": counted(plane.show("listeners"), "service", "state"),
        "segments": counted(plane.show("segments"), "segment", "imports", "length"),
        "charged": {uid: values for uid, values in charged.items() if values},
        "descriptors": dict(collections.Counter(plane.descriptors())),
        "mappings": mappings(plane),
    }


def kept(plane):
    """Resources that may grow up to a bound."""
    return {f"{name} of {line.get('pid', 'user')} {line['uid']}": (line[name], more)
            for line in plane.show("clients") + plane.show("quota") for name, more in KEPT.items() if name in line}


class Baseline:
    """The resources of a data plane when only the applications that are never killed or stopped are attached."""

    def __init__(self):
        self.exact = self.kept = self.pid = self.difference = None
        self.own = self.shared = 0
        self.grown = self.grown_shared = self.threads = 0

    def is_reached(self, plane):
        self.difference = self.differs(plane)
        return self.difference is None

    def differs(self, plane):
        """None, or a description of the difference from the baseline."""
        now, least = exact(plane), kept(plane)
        if self.exact is None:
            self.exact, self.kept = now, least
        for name, value in now.items():
            if value != self.exact[name]:
                return f"{name} were {self.exact[name]}, are {value}"
        for name, (value, more) in least.items():
            if value > self.kept.get(name, (0, 0))[0] + more:
                return f"{name} were {self.kept.get(name, (0, 0))[0]}, are {value}"
        return self.more(plane)

    def more(self, plane):
        own, shared = plane.memory()
        if plane.process.pid != self.pid:
            self.pid, self.own, self.shared = plane.process.pid, own, shared
        threads = len(os.listdir(plane.proc("task")))
        self.grown, self.threads = max(self.grown, own - self.own), max(self.threads, threads)
        self.grown_shared = max(self.grown_shared, shared - self.shared)
        if own - self.own > OWN_MEMORY:
            return f"private memory was {self.own} KiB, is {own}"
        if shared - self.shared > SHARED_MEMORY:
            return f"shared memory was {self.shared} KiB, is {shared}"
        if threads > THREADS:
            return f"{threads} threads, at most {THREADS} are allowed"
        return None

    def __str__(self):
        return f"at rest at most {self.grown} KiB more private and {self.grown_shared} KiB more shared memory, {self.threads} threads"


def unexpected(line):
    """Whether a line of the log shows a fault of the data plane itself, rather than of its applications or its peer."""
    words = line.split(" ", 3)
    if any(text in line for text in EXPECTED):
        return False
    return "event=state_wrong" in line or (len(words) > 2 and words[1] in ("error", "critical", "alert", "emergency"))

# SPDX-License-Identifier: BSD-3-Clause
"""Compares one pair of data planes with several polling cores each, and as many pairs with one core each: the same
number of polling threads on the same processors, and the same programs.

The two sides run in turn in windows of a tenth of a second, and are paused in between: within seconds the hypervisor makes
the processors of shared machines a third slower or faster.
"""
import contextlib
import functools
import itertools
import json
import os
import signal
import time

from .planes import PERF_SECONDS, Bench
from .process import Background, Failed, run, tail
from .rows import LOWER

MEMIF = "Two polling cores, or two data planes of one, over memif"
LOCAL = "Two polling cores, or two data planes of one, one host"
THREE = "Three polling cores, or three data planes of one, one host"
THREE_MEMIF = "Three polling cores, or three data planes of one, over memif"
LANES = "Two cores in one thread"
ASLEEP = "Two polling cores, one host, --idle sleep"
LARGE = 1 << 20
FIRST_PORT = 18530
ROTATION_SECONDS = 0.05
WARM_UP_SECONDS = 1.2  # connections of one CQ within a host begin on one core, and are balanced after 0.4 s
WINDOWS = 12  # of each side in a round
WINDOW_SECONDS = 0.1
RESUME_SECONDS = 0.02  # until threads that were paused run as before
ROUND_SECONDS = 60  # limit of a round
SMALL = ["--tx-depth", "64", "-Q", "16", "-q"]
# Bytes of a write, options, and endpoints of each of several programs; one program in their place has as many endpoints and threads.
WORK = {"64 B writes": (64, SMALL, 16), "1 MiB writes": (LARGE, ["--tx-depth", "4", "-q"], 1)}
NUMBERS = {2: "two", 3: "three"}
ONE_ENDPOINT = {"8 B writes, one endpoint": (8, [*SMALL, "1"]),
                "1 MiB writes, one endpoint": (LARGE, ["--tx-depth", "4"])}


class Programs:
    """Programs on several benches: each has a server on the bench's far data plane. Benches are paused between slices."""

    def __init__(self, context, benches, each):
        self.context = context
        self.benches = benches
        self.servers = []
        self.ends = []  # (bench, port) of each server
        try:
            for bench in benches:
                for i in range(each):
                    self._serve(bench, FIRST_PORT + i)
        except BaseException:
            self.close()
            raise

    def _serve(self, bench, port):
        server = Background([self._program(), "-p", str(port)],
                            os.path.join(self.context.directory, f"server-{bench.name}-{port}.log"),
                            env=bench.far.environment())
        self.servers.append(server)
        server.wait_for("serving on", 20)
        self.ends.append((bench, port))

    def _program(self):
        return os.path.join(self.context.build, "perf", "oneside-perf")

    def processors(self):
        return [self.context.layout.core[i] for i in (1, 2)]

    def close(self):
        for server in self.servers:
            server.stop()

    def _client(self, end, size, options, seconds):
        bench, port = end
        return Background([self._program(), "-t", "write_bw", "-p", str(port), "-s", str(size), "-D", str(seconds),
                           *options, "--json", bench.far.address],
                          os.path.join(self.context.directory, f"client-{bench.name}-{port}.log"),
                          env=bench.near.environment())

    def start(self, size, options, programs, seconds):
        """Returns that many programs, each with a server of its own."""
        return [self._client(end, size, options, seconds) for end in self.ends[:programs]]

    def rate(self, size, options, programs):
        """Returns the operations per second of that many programs together."""
        clients = []
        try:
            clients += self.start(size, options, programs, self.context.seconds)
            rotate([client.process for client in clients], self.processors(), PERF_SECONDS)
        finally:
            for client in clients:
                client.stop()
        return sum(operations(client) for client in clients)

    def handed_over(self):
        return sum(core["handed_over"] + core["tx_handed_over"] for bench in self.benches for plane in bench.planes
                   for core in plane.ask("/oneside/cores").values())


def busiest(pid, count):
    """Returns the threads of a process that have used most processor time."""
    used = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as stat:
            used[int(tid)] = int(stat.read().split()[0])
    return sorted(sorted(used, key=used.get)[-count:])


def operations(client):
    if client.process.returncode != 0:
        raise Failed(f"{client.name}: status {client.process.returncode}: {tail(client.said())}")
    return json.loads(client.said().splitlines()[-1])["ops"]


def balanced(processors, count):
    """Returns all ways to give that many threads a processor each, with equally many threads on each, or one more."""
    return [places for places in itertools.product(processors, repeat=count)
            if all(places.count(p) in (count // len(processors), -(-count // len(processors))) for p in processors)]


def rotate(processes, processors, seconds):
    """Moves the programs from processor to processor until they end.  Within a host a program is three times as fast on its
    polling core's processor as on another one, so each spends the same time on each."""
    deadline = time.time() + seconds
    for places in itertools.cycle(balanced(processors, len(processes))):
        if all(process.poll() is not None for process in processes):
            return
        if time.time() > deadline:
            raise Failed(f"a program is not done after {seconds} s")
        for process, processor in zip(processes, places):
            with contextlib.suppress(OSError, IndexError):  # it may end meanwhile
                os.sched_setaffinity(busiest(process.pid, 1)[0], {processor})
        time.sleep(ROTATION_SECONDS)


class Traffic:
    """Programs that write all the time, on benches that run only in windows."""

    def __init__(self, programs, size, options, count, threads=1):
        """count: number of programs, with that many threads each."""
        self.benches = programs.benches
        self.processors = programs.processors()
        self.clients = []
        self._signal(signal.SIGCONT)
        try:
            self.clients += programs.start(size, options, count, ROUND_SECONDS)
            time.sleep(WARM_UP_SECONDS)
            self.threads = [tid for client in self.clients for tid in busiest(client.process.pid, threads)]
        except BaseException:
            self.close()
            raise
        self._signal(signal.SIGSTOP)

    def _signal(self, number):
        for process in [*(plane.process for bench in self.benches for plane in bench.planes),
                        *(client.process for client in self.clients)]:
            process.send_signal(number)

    def _done(self):
        return sum(core["work"] for bench in self.benches for core in bench.near.ask("/oneside/cores").values())

    def window(self, number):
        """Returns the requests done, and the seconds.  Each thread spends equally many windows on each processor."""
        every = balanced(self.processors, len(self.threads))
        for tid, processor in zip(self.threads, every[number % len(every)]):
            with contextlib.suppress(OSError):  # it has ended, which is noticed below
                os.sched_setaffinity(tid, {processor})
        self._signal(signal.SIGCONT)
        time.sleep(RESUME_SECONDS)
        before, begin = self._done(), time.monotonic()
        time.sleep(WINDOW_SECONDS)
        after, end = self._done(), time.monotonic()
        for client in self.clients:
            if client.process.poll() is not None:
                raise Failed(f"{client.name} ended: {tail(client.said())}")
        self._signal(signal.SIGSTOP)
        return after - before, end - begin

    def close(self):
        self._signal(signal.SIGCONT)
        for client in self.clients:
            client.stop()
        for bench in self.benches:
            bench.settle()
        self.clients = []
        self._signal(signal.SIGSTOP)


def in_windows(sides, windows=WINDOWS):
    """Returns the rates of {name: traffic}, measured in turn."""
    done, spent = dict.fromkeys(sides, 0), dict.fromkeys(sides, 0)
    for number in range(windows):
        for name, traffic in sides.items():
            requests, seconds = traffic.window(number)
            done[name] += requests
            spent[name] += seconds
    return {name: done[name] / spent[name] for name in sides}


def alone(others, function):
    """Returns a function that calls `function` while the other benches are paused."""
    def without():
        with contextlib.ExitStack() as stack:
            for bench in others:
                stack.enter_context(bench.paused())
            return function()
    return without


def in_unit(size):
    return ((lambda x: x / 1e6), "M/s") if size < LARGE else ((lambda x: x * size / 1e9), "GB/s")


def compare(group, rows, together, apart):
    """Compares several programs on data planes of as many cores, and one program with as many endpoints and threads."""
    count = len(apart.benches)
    planes = f"{NUMBERS[count]} data planes"
    for work, (size, options, each) in WORK.items():
        several = [*options, str(each)]
        convert, unit = in_unit(size)
        for title, side in ((f"{work}, {NUMBERS[count]} programs", (several, count, 1)),
                            (f"{work}, one program", ([*options, str(each * count), "--threads", str(count)], 1, count))):
            sides = {"cores": (together, size, *side), "planes": (apart, size, several, count)}
            slices = rows.in_turn(group, {title: functools.partial(compare_once, sides)})
            rows.add(group, title, slices.of(title, lambda rates: convert(rates["cores"])), unit, hops=slices.hops(title),
                     rivals=[(planes, slices.of(title, lambda rates: convert(rates["planes"])), unit)])
            rows.ratio(group, f"{title} / data planes", slices.of(title, lambda rates: rates["cores"] / rates["planes"]),
                       "of their sum", 0.95, hops=slices.hops(title))


def compare_once(sides):
    """Returns the rates of {name: arguments of Traffic}.  All benches are paused but in their windows."""
    with contextlib.ExitStack() as stack:
        for programs, *_ in sides.values():
            for bench in programs.benches:
                stack.enter_context(bench.paused())
        return in_windows({name: stack.enter_context(contextlib.closing(Traffic(*arguments)))
                           for name, arguments in sides.items()})


def compare_one_endpoint(rows, together, apart):
    """Measures one endpoint, which uses one core.  The other cores sleep, because cores that yield still take the
    application's processor."""
    for work, (size, options) in ONE_ENDPOINT.items():
        slices = rows.in_turn(ASLEEP, {
            "two": alone(apart.benches, lambda s=size, o=options: together.rate(s, o, 1)),
            "one": alone(together.benches, lambda s=size, o=options: apart.rate(s, o, 1))})
        convert, unit = in_unit(size)
        rows.add(ASLEEP, work, slices.of("two", convert), unit, hops=slices.hops("two"),
                 rivals=[("one core", slices.of("one", convert), unit)])
        rows.ratio(ASLEEP, f"{work} / one core", slices.ratios("two", "one"), "of them", 0.95,
                   hops=slices.hops("two"))


def settled(rows, together, apart):
    """Counts frames handed over; each slice makes new connections, so their first frames count too."""
    def handed():
        before = together.handed_over()
        size, options, each = next(iter(WORK.values()))
        together.rate(size, [*options, str(each)], len(apart.benches))
        return together.handed_over() - before

    rows.add(MEMIF, "frames handed over in a slice, connections included",
             rows.attempt("frames handed over", alone(apart.benches, handed)), "frames", 0, LOWER)


def compare_benches(context, rows, layout, functions, idle=None):
    """Compares the first bench of the layout with all others together: cores of each data plane, by bench."""
    with contextlib.ExitStack() as stack:
        def programs(name, layouts, each):
            benches = [stack.enter_context(Bench(context, f"{name}{i}-", len(own) > 1, cores=own,
                                                 idle=(idle, idle)))
                       for i, own in enumerate(layouts)]
            return stack.enter_context(contextlib.closing(Programs(context, benches, each)))

        together, apart = programs("together", layout[:1], len(layout) - 1), programs("apart", layout[1:], 1)
        hop, rows.hop = rows.hop, rows.hop and alone([*together.benches, *apart.benches], rows.hop)
        try:
            for function in functions:
                function(rows, together, apart)
        finally:
            rows.hop = hop


def cost_of_lanes(context, rows):
    """Measures the cycles of a 64 B write if an attachment's connections are on two lanes, and on one."""
    def measured():
        out = run([os.path.join(context.build, "tests", "unit", "engine", "engine-lane-cost")], PERF_SECONDS)
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    rounds = rows.attempt("the cycles of two lanes", measured) or []
    for work, title in (("local", "64 B write within a core"), ("frames", "64 B write by frames")):
        of = {key: [r[key] for r in rounds if r["work"] == work] for key in ("one", "two", "ratio")}
        rows.add(LANES, f"{title}, two lanes", of["two"], "cycles", rivals=[("one lane", of["one"], "cycles")])
        rows.ratio(LANES, f"{title} / one lane", of["ratio"], "of its cycles", 1.05, LOWER)


def cores(context, rows):
    cost_of_lanes(context, rows)
    one, other = context.layout.core[1], context.layout.core[2]
    compare_benches(context, rows, [((one, other), (other, one)), ((one,), (other,)), ((other,), (one,))],
                    [functools.partial(compare, MEMIF), settled])
    compare_benches(context, rows, [((one, other),), ((one,),), ((other,),)], [functools.partial(compare, LOCAL)])
    compare_benches(context, rows, [((one, other, one),), ((one,),), ((other,),), ((one,),)],
                    [functools.partial(compare, THREE)])
    compare_benches(context, rows, [((one, other, one), (other, one, other)), ((one,), (other,)), ((other,), (one,)),
                                    ((one,), (other,))], [functools.partial(compare, THREE_MEMIF)])
    compare_benches(context, rows, [((one, other),), ((one,),)], [compare_one_endpoint], "sleep")

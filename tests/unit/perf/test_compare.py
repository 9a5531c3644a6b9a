#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests perf/compare: rows and their judgement, the files written, programs that fail or do not end."""
import contextlib
import io
import json
import os
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv.pop(1))

from comparison import cores, machine, page, planes, process, rows, turns, work  # noqa: E402  the path is set first

EVER = 10 ** 6  # seconds: the timeout of the whole test ends a hang

ABOUT = {"date": "1 May 2026", "processor": "a processor", "processors": 2, "hugepages": True, "rounds": 3,
         "busy_before": 0.01, "busy_after": 0.02, "stolen": 0.0,
         "command": "perf/compare --quick", "patience": 60, "layout": "a layout", "tunables": "a=b",
         "rivals": {"iperf3": "3.12"}}


def markdown(table, about):
    return page.markdown(table.results(about))


def measure(table, group, work, function, unit, bar=None):
    slices = table.in_turn(group, {work: function})
    table.add(group, work, slices.values(work), unit, bar, hops=slices.hops(work))


def quietly(function, *arguments):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        result = function(*arguments)
    return result, said.getvalue()


class TestRows(unittest.TestCase):
    def test_judgement(self):
        table = rows.Rows(1)
        quietly(table.add, "g", "fast", 9.0, "M/s", 8)
        quietly(table.add, "g", "slow", 7.0, "M/s", 8)
        quietly(table.add, "g", "late", 4.0, "us", 3, rows.LOWER)
        quietly(table.add, "g", "early", 2.0, "us", 3, rows.LOWER)
        quietly(table.add, "g", "unasked", 2.0, "us")
        self.assertEqual([r["met"] for r in table.rows], [True, False, False, True, None])
        text = markdown(table, ABOUT)
        self.assertIn("\nslow|**7.00 M/s**|≥8.00\n", text)
        self.assertIn("\nearly|2.00 us|≤3.00\n", text)
        self.assertIn("\nunasked|2.00 us\n", text)
        self.assertNotIn("not this program's alone", text)
        self.assertIn("others had 40 % of the processors before it began, and 3.0 % meanwhile (stolen",
                      markdown(table, {**ABOUT, "busy_before": 0.4, "stolen": 0.03}))

    def test_failure_is_a_row_that_says_so(self):
        table = rows.Rows(2)

        def fail():
            raise process.Failed("the program is missing")

        (_, said) = quietly(measure, table, "g", "work", fail, "M/s", 8)
        self.assertIn("the program is missing", said)
        self.assertIsNone(table.rows[0]["value"])
        self.assertIsNone(table.rows[0]["met"])
        quietly(table.ratio, "g", "ratio", None, "of that", 0.9)
        text = markdown(table, ABOUT)
        self.assertIn("\nwork|– (the program is missing)|≥8.00\n", text)
        self.assertIn("\nratio|– (one of the two was not measured)", text)

    def test_unexpected_output_ends_nothing(self):
        table = rows.Rows(1)
        quietly(measure, table, "g", "work", lambda: {}["ops"], "M/s")
        self.assertIn("unexpected output", table.rows[0]["reason"])

    def test_median_of_the_repeats(self):
        values = iter([3.0, 1.0, 2.0])
        table = rows.Rows(3)
        quietly(measure, table, "g", "work", lambda: next(values), "M/s")
        self.assertEqual(table.rows[0]["value"], 2.0)

    def test_plots_have_the_medians_of_rows(self):
        table = rows.Rows(3)
        table.points("bandwidth", "ours", {64: [3.0, 1.0, 2.0], 128: None})
        table.point("bandwidth", "ours", 64, 9.0)
        table.point("bandwidth", "ours", 256, 4.0)
        self.assertEqual(table.series["bandwidth"]["ours"], {64: 2.0, 256: 4.0})

    def test_ratios_are_of_what_was_measured_in_turn(self):
        # The machine is four times slower in the second round and twice in the third: the ratio must not change.
        said, speed = [], iter([1, 1, 4, 4, 2, 2])

        def measure(name, value):
            said.append(name)
            return value / next(speed)

        table = rows.Rows(3)
        slices = table.in_turn("g", {"reads": lambda: measure("reads", 9.0), "writes": lambda: measure("writes", 10.0)})
        self.assertEqual(said, ["reads", "writes"] * 3)
        quietly(table.ratio, "g", "reads / writes", slices.ratios("reads", "writes"), "of writes", 0.9)
        quietly(table.add, "g", "reads", slices.values("reads"), "GB/s")
        self.assertEqual((table.rows[0]["value"], table.rows[0]["met"]), (0.9, True))
        text = markdown(table, ABOUT)
        self.assertIn("\nreads / writes|0.90|≥0.90\n", text)
        self.assertIn("\nreads|4.50 GB/s (2.25–9.00)\n", text)

    def test_the_hop_is_reported_beside(self):
        # Hops before the first slice and after each slice.
        hops = iter([{"p50": 130.0, "p99.9": 200.0}, {"p50": 430.0, "p99.9": 9000.0}, {"p50": 140.0, "p99.9": 300.0},
                     {"p50": 140.0, "p99.9": 300.0}])
        table = rows.Rows(3, lambda: next(hops))
        quietly(measure, table, "g", "work", lambda: 1.0, "us")
        self.assertEqual(table.rows[0]["hops_ns"], [280.0, 285.0, 140.0])
        text = markdown(table, {**ABOUT, "patience": None})
        self.assertIn("\nHop 140 ns (130–430).\n", text)
        self.assertIn("wherever the hypervisor had put the processors", text)

    def test_half_a_comparison_is_none(self):
        values = iter([1.0])

        def sometimes():
            try:
                return next(values)
            except StopIteration as error:
                raise process.Failed("it ended") from error

        table = rows.Rows(2)
        (slices, _) = quietly(table.in_turn, "g", {"a": sometimes, "b": lambda: 2.0})
        self.assertIsNone(slices.ratios("a", "b"))
        self.assertEqual(slices.values("b"), [2.0, 2.0])

    def test_latency_and_its_tail(self):
        runs = iter([{"p50": 3000, "p99.9": 6000}, {"p50": 1000, "p99.9": 9000}, {"p50": 2000, "p99.9": 5000}])
        table = rows.Rows(3)
        slices = table.in_turn("g", {"write": lambda: next(runs), work.BARE: lambda: {"p50": 2800, "p99.9": 28000},
                                     work.FRAMES: lambda: {"p50": 2500, "p99.9": 28000}, work.GAPS: lambda: 700})
        quietly(work.latency, table, "g", "write", slices, "", 1.15, 3)
        self.assertEqual([(r["value"], r["met"]) for r in table.rows], [(2.0, None), (2.0 / 2.8, True), (0.8, None), (2.5, True)])
        self.assertIn("bare relay: 2.80 us", markdown(table, ABOUT))
        self.assertIn("\n…/ bare relay|0.71 (0.36–1.07)|≤1.15\n", markdown(table, ABOUT))
        self.assertEqual(page.short_name("writes", "write"), "writes")
        self.assertIn("bare relay: 10.0 medians", markdown(table, ABOUT))
        self.assertIn("late rounds: 0.14 %", markdown(table, ABOUT))
        quietly(work.latency, table, "g", "write", slices, "", None, None)
        self.assertEqual([(r["work"], r["value"], r["met"]) for r in table.rows[4:]],
                         [("write", 2.0, None), ("write / bare relay", 2.0 / 2.8, None),
                          ("write / bare frame relay", 0.8, None), ("write: 99.9 %", 2.5, None)])

    def test_rivals(self):
        table = rows.Rows(1)
        quietly(table.add, "g", "work one", 1.0, "M/s")
        quietly(table.add, "g", "work two", 1.0, "M/s")
        quietly(table.add, "h", "work", 1.0, "M/s")
        quietly(table.add, "g", "work three", 1.0, "M/s")
        table.rival("g", "work one", "UCX", 1234.5, "M/s")
        table.rival("g", "work two", "UCX", None, "M/s")
        table.rival("h", "work one", "UCX", 99.0, "M/s")
        text = markdown(table, ABOUT)
        self.assertIn("\nwork one|1.00 M/s||UCX: 1,234 M/s\n", text)
        self.assertNotIn("99", text)
        table.rival("g", "work two", "UCX", 1234.5, "M/s")  # a figure of the row above is not repeated
        self.assertEqual(markdown(table, ABOUT), text)
        # Rows of a group are together, in any order of adding.
        self.assertEqual(text.count("### g"), 1)
        self.assertIn("\nwork two|1.00 M/s||UCX: not measured\n", text)

    def test_files(self):
        table = rows.Rows(1)
        quietly(table.add, "g", "work", 1.0, "M/s")
        table.point("bandwidth", "oneside", 8, 0.5)
        table.point("bandwidth", "oneside", 64, None)
        with tempfile.TemporaryDirectory() as directory:
            text = page.write(table.results(ABOUT), directory)
            with open(os.path.join(directory, "compare.md"), encoding="utf-8") as f:
                self.assertEqual(f.read(), text)
            with open(os.path.join(directory, "compare.json"), encoding="utf-8") as f:
                written = json.load(f)
            self.assertEqual(written["series"]["bandwidth"], {"oneside": {"8": 0.5}})
            self.assertEqual(written["rows"][0]["work"], "work")
            self.assertEqual(page.markdown(written), text)

    def test_documents_have_the_figures_of_one_run(self):
        table = rows.Rows(1)
        for (group, name), figure in zip(page.SUMMARY, (11.2, 8.22, 2.95)):
            quietly(table.add, group, name, figure, "unit", None, rows.HIGHER,
                    [("UCX tcp put", figure / 2, "unit"), ("testpmd", 77.7, "unit")])
        quietly(table.add, group, name + rows.ORDINARY, 3.35, "unit")
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "doc"))
            documents = [os.path.join(root, name) for name in ("README.md", "doc/performance-results.md")]
            for name in documents:
                with open(name, "w", encoding="utf-8") as f:
                    f.write(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
            plot = os.path.join(root, "bandwidth.png")
            with open(plot, "w", encoding="utf-8") as f:
                f.write("a picture")
            for _ in range(2):
                page.into_documents(table.results(ABOUT), [plot], root)
            for name in documents:
                with open(name, encoding="utf-8") as f:
                    text = f.read()
                self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
                self.assertNotIn("\nold\n", text)
                self.assertIn("8.22 unit", text)
            self.assertEqual(text.count("\n### Two data planes"), 1)
            self.assertIn("![bandwidth](performance-bandwidth.png)", text)
            self.assertTrue(os.path.exists(os.path.join(root, "doc/performance-bandwidth.png")))
            with open(documents[0], encoding="utf-8") as f:
                text = f.read()
            self.assertIn("1 May 2026", text)
            self.assertIn("post to completion|2.95 unit (3.35 without round-robin scheduling)|UCX tcp 1.48\n", text)
            self.assertNotIn("77.7", text)

            with open(documents[0], "w", encoding="utf-8") as f:
                f.write("no marks")
            with self.assertRaises(SystemExit):
                page.into_documents(table.results(ABOUT), [], root)
            del table.rows[0]
            with self.assertRaises(SystemExit):
                page.into_documents(table.results(ABOUT), [], root)


class TestPlacement(unittest.TestCase):
    """Tests a machine whose processors are `apart` in some slices, which changes the measured values."""

    def setUp(self):
        self.apart = False
        self.measured = 0

    def hop(self):
        return {"p50": 500.0 if self.apart else 120.0, "p99.9": 700.0}

    def work(self, moves):
        """Measures 1 if the processors are near, else 4; `moves`: numbers of the calls in which the processors move."""
        def measure():
            self.measured += 1
            if self.measured in moves:
                self.apart = not self.apart
            return 4.0 if self.apart else 1.0
        return measure

    def hop_for_a_while(self, looks):
        """Measures hops; the processors come near each other again after that many."""
        left = looks

        def hop():
            nonlocal left
            found = self.hop()
            if self.apart:
                left -= 1
                if left == 0:
                    self.apart, left = False, looks
            return found
        return hop

    def test_what_is_unlike_is_measured_again_and_reported(self):
        table = rows.Rows(3, self.hop_for_a_while(1), turns.Patience(EVER, EVER))
        quietly(measure, table, "g", "work", self.work((2, 3)), "us")
        self.assertEqual(table.rows[0]["slices"], [1.0] * 3)
        self.assertEqual(self.measured, 5)  # the second and the third were left out
        text = markdown(table, ABOUT)
        self.assertIn("\nHop 120 ns; 2 slices left out.\n", text)
        self.assertIn("exceeds 3 times the least of the run (120 ns) is left out and measured again, for at most 60 s", text)
        self.assertEqual([(one["value"], one["kept"]) for one in table.turns.all],
                         [(1.0, True), (4.0, False), (4.0, False), (1.0, True), (1.0, True)])

    def test_waits_for_them_to_come_near(self):
        table = rows.Rows(2, self.hop_for_a_while(5), turns.Patience(EVER, EVER))
        (slices, _) = quietly(table.in_turn, "g", {"a": self.work((2,)), "b": lambda: 5.0})
        self.assertEqual(slices.values("a"), [1.0, 1.0])
        self.assertEqual(slices.values("b"), [5.0, 5.0])
        self.assertEqual(slices.hops("a"), [120.0, 120.0])
        self.assertEqual(self.measured, 3)

    def test_comes_near_at_last_and_the_early_rounds_are_measured_again(self):
        self.apart = True
        table = rows.Rows(3, self.hop, turns.Patience(EVER, EVER))
        quietly(measure, table, "g", "work", self.work((3,)), "us")
        self.assertEqual(table.rows[0]["slices"], [1.0] * 3)
        self.assertEqual(self.measured, 6)

    def test_patience_ends(self):
        table = rows.Rows(3, self.hop, turns.Patience(0.2, 0.1))
        quietly(measure, table, "g", "work", self.work((2,)), "us")
        quietly(measure, table, "h", "work", lambda: 1.0, "us")
        quietly(measure, table, "i", "work", lambda: 1.0, "us")
        self.assertEqual(table.rows[0]["slices"], [1.0, 4.0, 4.0])
        text = markdown(table, ABOUT)
        self.assertIn("; 2 slices **apart**.", text)
        self.assertIn("; 3 slices **apart**.", text)

    def test_every_placement_when_asked_for(self):
        table = rows.Rows(3, self.hop)
        quietly(measure, table, "g", "work", self.work((2,)), "us")
        self.assertEqual(table.rows[0]["slices"], [1.0, 4.0, 4.0])
        self.assertEqual(self.measured, 3)
        self.assertNotIn("slices", markdown(table, {**ABOUT, "patience": None}).split("### g")[1])

    def test_a_failure_is_not_tried_again(self):
        def fail():
            self.measured += 1
            self.apart = True
            raise process.Failed("no")

        table = rows.Rows(2, self.hop, turns.Patience(0.05, 0.05))
        quietly(measure, table, "g", "work", fail, "us")
        self.assertEqual(self.measured, 2)


class TestExplanation(unittest.TestCase):
    def test_cycles_of_an_operation(self):
        class Plane:
            node = 1

        before = {"stages": {"1": {"on": 1, "hz": 1000, "busy_loops": 10, "work": 100, "idle": 50}},
                  "cores": {"1": {"backpressure": 5}}, "drops": {"1": {"icrc": 1, "qpn": 0}},
                  "transport": {"1": {"timeouts": 2}}}
        after = {"stages": {"1": {"on": 1, "hz": 1000, "busy_loops": 30, "work": 1100, "idle": 1050}},
                 "cores": {"1": {"backpressure": 8}}, "drops": {"1": {"icrc": 3, "qpn": 0}},
                 "transport": {"1": {"timeouts": 2}}}
        core = planes.explain_plane(Plane, before, after, 100)[0]
        self.assertEqual(core["cycles"], {"work": 10.0})
        self.assertEqual(core["busy"], 0.5)
        self.assertEqual(core["operations_per_busy_loop"], 5)
        self.assertEqual(core["stalls"]["backpressure"], 3)
        self.assertEqual(core["stalls"]["timeouts"], 0)
        self.assertEqual(core["drops"], {"icrc": 2})
        table = rows.Rows(1)
        table.explain("writes", lambda: [core])
        text = "\n".join(page.stages(table.results(ABOUT)["stages"])) + "\n"
        self.assertIn("\nwrites|1, 1|50 %|10.0|5.00|work 10.0|backpressure 3, icrc 2\n", text)


class TestPause(unittest.TestCase):
    def test_data_planes_stand_still_while_others_are_measured(self):
        def state(pid):
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                return f.read().rsplit(")", 1)[1].split()[0]

        def await_state(pid, wanted):
            while state(pid) != wanted:
                time.sleep(0.01)
            return wanted

        with tempfile.TemporaryDirectory() as directory:
            plane = process.Background(["sleep", "infinity"], os.path.join(directory, "log"))
            bench = planes.Bench.__new__(planes.Bench)
            bench.planes, bench.servers = [plane], {}
            try:
                self.assertEqual(bench.alone(lambda: await_state(plane.process.pid, "T"))(), "T")
                self.assertEqual(await_state(plane.process.pid, "S"), "S")

                def fail():
                    raise process.Failed("no")

                with self.assertRaises(process.Failed):
                    bench.alone(fail)()
                self.assertEqual(await_state(plane.process.pid, "S"), "S")
            finally:
                plane.stop()


class Windows:
    """Traffic whose machine slows down to a third during the round."""

    def __init__(self, name, rate, said):
        self.name, self.rate, self.said = name, rate, said

    def window(self, number):
        self.said.append((self.name, number))
        return self.rate * 0.1 / (1 if number < 2 else 3), 0.1


class TestCores(unittest.TestCase):
    def test_windows_are_in_turn(self):
        said = []
        rates = cores.in_windows({"cores": Windows("cores", 9.0, said), "planes": Windows("planes", 10.0, said)}, 4)
        self.assertEqual(said, [(name, number) for number in range(4) for name in ("cores", "planes")])
        self.assertAlmostEqual(rates["cores"] / rates["planes"], 0.9)
        self.assertAlmostEqual(rates["planes"], (10 + 10 / 3) / 2)

    def test_windows_give_threads_equal_shares_of_processors(self):
        for threads in (1, 2, 3, 4):
            every = cores.balanced([0, 1], threads)
            self.assertEqual(cores.WINDOWS % len(every), 0)
            for i in range(threads):
                self.assertEqual(sum(places[i] for places in every) * 2, len(every))


class TestPrograms(unittest.TestCase):
    def test_a_program_that_does_not_end(self):
        with self.assertRaisesRegex(process.Failed, "not done after 1 s"):
            process.run(["sleep", "infinity"], 1)

    def test_a_program_that_fails_or_is_missing(self):
        with self.assertRaisesRegex(process.Failed, "status 3: it went wrong"):
            process.run(["sh", "-c", "echo it went wrong >&2; exit 3"], EVER)
        with self.assertRaisesRegex(process.Failed, "no-such-program"):
            process.run(["no-such-program"], EVER)

    def test_place_and_policy(self):
        cpu = min(os.sched_getaffinity(0))
        printed = process.run([sys.executable, "-c", "import os; print(os.sched_getaffinity(0), os.sched_getscheduler(0))"],
                           EVER, cpus=[cpu], policy=("chrt", "-b", "0"))
        self.assertEqual(printed.split(), [f"{{{cpu}}}", str(os.SCHED_BATCH)])

    def test_only_the_polling_core_is_scheduled_round_robin(self):
        if not machine.may_round_robin():
            self.skipTest("round-robin scheduling is not permitted")
        core = ("import threading, time, os, sys\n"
                "def poll():\n"
                "    open('/proc/thread-self/comm', 'w').write('rte-worker-1')\n"
                "    print(threading.get_native_id(), flush=True)\n"
                f"    time.sleep({EVER})\n"
                "threading.Thread(target=poll).start()\n")
        with tempfile.TemporaryDirectory() as directory:
            plane = planes.DataPlane.__new__(planes.DataPlane)
            process.Background.__init__(plane, [sys.executable, "-c", core], os.path.join(directory, "log"))
            try:
                plane.wait_for("\n", EVER)
                tid = int(plane.said())
                with plane.round_robin():
                    self.assertEqual(os.sched_getscheduler(tid), os.SCHED_RR)
                    self.assertEqual(os.sched_getscheduler(plane.pid), os.SCHED_OTHER)
                self.assertEqual(os.sched_getscheduler(tid), os.SCHED_OTHER)
            finally:
                plane.stop()

    def test_a_server(self):
        with tempfile.TemporaryDirectory() as directory:
            log = os.path.join(directory, "log")
            server = process.Background(["sh", "-c", "echo ready; exec sleep infinity"], log)
            try:
                server.wait_for("ready", EVER)
                with self.assertRaisesRegex(process.Failed, "not ready after 0.1 s"):
                    server.wait_for("never said", 0.1)
            finally:
                server.stop()
            self.assertIsNotNone(server.process.returncode)
            server = process.Background(["sh", "-c", "echo gone"], log)
            with self.assertRaisesRegex(process.Failed, "ended: gone"):
                server.wait_for("ready", EVER)

    def test_simulator(self):
        line = "{:10} {:9} {:5} mtu {:4} loss {:5.3f}%: {:6.2f} Gb/s, Jain {:.3f}, least  1.00; sent again 0"
        runs = {"loss": [("loss", "selective", "WRITE", 4096, 0, 90, 1), ("loss", "selective", "WRITE", 4096, 1, 85.5, 1),
                         ("loss", "go-back", "WRITE", 4096, 0, 90, 1), ("loss", "go-back", "WRITE", 4096, 1, 9, 1),
                         ("loss", "selective", "READ", 4096, 1, 60, 1), ("loss", "selective", "WRITE", 1024, 1, 1, 1)],
                "incast": [("incast", "selective", "WRITE", 4096, 0, 50, 0.5),
                           ("incast", "selective", "WRITE", 4096, 0, 81, 0.96),
                           ("incast", "selective", "WRITE", 1024, 0, 1, 0.1)]}

        class Context:
            pass

        with tempfile.TemporaryDirectory() as directory:
            Context.build = Context.directory = directory
            os.makedirs(os.path.join(directory, "tests", "sim"))
            program = os.path.join(directory, "tests", "sim", "sim")
            table = rows.Rows(1)
            quietly(work.simulator, Context, table)  # the program is missing
            self.assertEqual([r["value"] for r in table.rows], [None] * 4)
            with open(program, "w", encoding="utf-8") as f:
                # Status 1 reports a missed limit; the figures count nevertheless.
                f.write("#!/bin/sh\ncase $2 in\n" + "".join(
                    f"{what}) printf '%s\\n' " + " ".join(f"'{line.format(*run)}'" for run in lines) + ";;\n" for what, lines in runs.items()) + "esac\nexit 1\n")
            os.chmod(program, 0o755)
            table = rows.Rows(1)
            quietly(work.simulator, Context, table)
            self.assertEqual([(round(r["value"], 3), r["met"]) for r in table.rows],
                             [(0.95, True), (0.1, None), (0.9, True), (0.96, True)])

    def test_counts(self):
        self.assertEqual(work.count_for(8, 1e6, 1e9, 2), 2000000)
        self.assertEqual(work.count_for(1 << 20, 1e6, 1e9, 2), 1907)
        self.assertEqual(work.count_for(1 << 30, 1e6, 1e9, 1), 100)

    def test_each_rival_has_a_package(self):
        self.assertEqual(set(machine.RIVALS.values()),
                         {"ucx-utils", "libfabric-bin", "iperf3", "sockperf", "dpdk-dev", "perftest"})


if __name__ == "__main__":
    unittest.main()

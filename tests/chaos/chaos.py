#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs random uDAPL and RSM applications on a pair of data planes, kills and stops applications and data planes at
random, and loses, duplicates and delays frames.

    chaos.py [--cable memif|lossy] [--seconds N] [--kills N] [--seed N] [--idle MODE] [--moves] [--keep]

BUILD names the build directory. The printed seed determines all actions; their effects also depend on the machine's
timing. After each round only four applications are left, which are never killed or stopped; then the data planes must
have the resources that they had at the beginning.
"""

import argparse
import heapq
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from applications import Application, Board, CONTROLS, FACES, PHASES
from planes import Cable, Failure, NAMES, Plane
from state import Baseline, unexpected

APPLICATIONS = 8        # number of applications that are killed
ROUND_KILLS = 48
ROUND_SECONDS = (1.0, 3.0)
STEP = 0.002
SETTLE_STEPS = (0.02, 1.0)    # increasing: the last query's own resources must be released before the next


class Chaos:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.build = os.environ["BUILD"]
        self.board = Board(os.path.join(work, "board"), CONTROLS + APPLICATIONS)
        self.cable = Cable(work, self.build, options.lossy if options.cable == "lossy" else None, options.seed)
        self.planes = [Plane(work, self.build, self.cable, index, options.idle, options.moves) for index in range(2)]
        self.applications = [Application(self, slot) for slot in range(CONTROLS + APPLICATIONS)]
        self.agenda, self.number = [], itertools.count()
        self.kills = dict.fromkeys(("application", *PHASES, "stopped application", "data plane", "stopped data plane"), 0)
        self.stops = dict.fromkeys(("application", "data plane"), 0)
        self.rounds = self.ended = 0
        self.baselines = []

    # ---- agenda of timed actions

    def after(self, seconds, what, *arguments):
        heapq.heappush(self.agenda, (time.monotonic() + seconds, next(self.number), what, arguments))

    def work_off(self):
        while self.agenda and self.agenda[0][0] <= time.monotonic():
            what, arguments = heapq.heappop(self.agenda)[2:]
            what(*arguments)

    # ---- data planes

    def begin_end(self, index):
        """Announces the end of a data plane to all applications, before it ends."""
        plane = self.board.plane[index]
        plane.gone_ns = 0
        plane.killed_ns = time.monotonic_ns()
        plane.life += 1

    def kill_plane(self, index, how, delay):
        plane = self.planes[index]
        if plane.down:
            return
        plane.down = True
        self.begin_end(index)
        plane.process.send_signal(how)
        if how == signal.SIGTERM:
            plane.process.send_signal(signal.SIGCONT)
        else:
            self.kills["stopped data plane" if plane.stopped else "data plane"] += 1
        plane.stopped = False
        self.await_plane_gone(index, how, delay)

    def await_plane_gone(self, index, how, delay):
        status = self.planes[index].process.poll()
        if status is None:
            self.after(STEP, self.await_plane_gone, index, how, delay)
            return
        self.board.plane[index].gone_ns = time.monotonic_ns()
        if status != (0 if how == signal.SIGTERM else -how):
            raise Failure(f"data plane {NAMES[index]} ended with status {status}")
        self.after(delay, self.restart_plane, index)

    def restart_plane(self, index):
        self.planes[index].start()
        self.await_plane_up(index)

    def await_plane_up(self, index):
        if not self.planes[index].serves():
            self.after(STEP, self.await_plane_up, index)
            return
        self.planes[index].down = False
        self.planes[index].start_moves()
        self.board.plane[index].life += 1

    def stop_plane(self, index, seconds):
        plane = self.planes[index]
        if plane.down or plane.stopped:
            return
        plane.stopped = True
        self.stops["data plane"] += 1
        plane.process.send_signal(signal.SIGSTOP)
        self.after(seconds, self.continue_plane, index, plane.process)

    def continue_plane(self, index, process):
        plane = self.planes[index]
        if plane.process is process and plane.stopped:
            plane.stopped = False
            process.send_signal(signal.SIGCONT)

    # ---- a round

    def plan(self, rng, seconds):
        """Plans the random actions of a round."""
        for _ in range(ROUND_KILLS):
            application = self.applications[rng.randrange(CONTROLS, CONTROLS + APPLICATIONS)]
            at, kind, stop = rng.uniform(0, seconds), rng.random(), rng.uniform(0, 0.5)
            if kind < 0.7:
                self.after(at, application.kill)
            else:
                self.after(at, application.stop, stop, kind < 0.8)
        for index in range(2):
            at, kind, stop, delay = rng.uniform(0, seconds), rng.random(), rng.uniform(0, 0.3), rng.uniform(0, 0.3)
            if kind < 0.3:
                self.after(at, self.kill_plane, index, signal.SIGKILL, delay)
            elif kind < 0.4:
                self.after(at, self.kill_plane, index, signal.SIGTERM, delay)
            elif kind < 0.5:
                self.after(at, self.stop_plane, index, stop + 1)
                self.after(at + stop, self.kill_plane, index, signal.SIGKILL, delay)
            elif kind < 0.8:
                self.after(at, self.stop_plane, index, stop)

    def reap(self):
        self.ended += sum(application.reap() for application in self.applications)
        for plane in self.planes:
            if not plane.down and plane.process.poll() is not None:
                raise Failure(f"data plane {NAMES[plane.index]} ended with status {plane.process.returncode}")
        if self.board.failures:
            raise Failure("an application has failed")

    def round(self):
        rng = random.Random(f"{self.options.seed}/{self.rounds}")
        seconds = rng.uniform(*ROUND_SECONDS)
        blocks = [self.board.slot[slot].blocks for slot in range(CONTROLS)]
        self.board.stop = 0
        self.plan(rng, seconds)
        for application in self.applications[CONTROLS:]:
            self.after(rng.uniform(0, 0.1), application.start)
        begun = time.monotonic()
        while time.monotonic() < begun + seconds:
            self.work_off()
            self.reap()
            time.sleep(STEP)
        self.board.stop, ended = 1, time.monotonic()
        self.until(lambda: not self.agenda and all(a.process is None for a in self.applications[CONTROLS:]),
                   self.options.patience, self.hanging)
        settling = time.monotonic()
        for slot, before in enumerate(blocks):
            self.until(lambda: self.board.slot[slot].blocks > before, self.options.patience,
                       lambda: f"application {slot}, which is never killed or stopped, makes no progress")
        self.settle()
        self.rounds += 1
        if self.options.verbose:
            print(f"round {self.rounds}: {time.monotonic() - begun:.1f} s, of which {settling - ended:.1f} to end and "
                  f"{time.monotonic() - settling:.1f} to settle", flush=True)

    def until(self, condition, seconds, complaint, step=STEP, longest=STEP):
        end = time.monotonic() + seconds
        while not condition():
            self.work_off()
            self.reap()
            if time.monotonic() > end:
                raise Failure(complaint())
            time.sleep(step)
            step = min(2 * step, longest)

    def hanging(self):
        left = [a for a in self.applications[CONTROLS:] if a.process is not None]
        return "; ".join(f"the application in slot {a.slot} does not end: {a.stacks()}" for a in left)

    def settle(self):
        self.until(lambda: all(self.board.slot[slot].ready == 3 for slot in range(CONTROLS)), self.options.patience,
                   lambda: "applications that are never killed or stopped are not connected: " +
                   str([self.board.slot[slot].ready for slot in range(CONTROLS)]))
        for plane, baseline in zip(self.planes, self.baselines):
            self.until(lambda: baseline.is_reached(plane), self.options.patience,
                       lambda: f"data plane {NAMES[plane.index]}: {baseline.difference}", *SETTLE_STEPS)
            for line in plane.new_log_lines():
                if unexpected(line):
                    raise Failure(f"unexpected line in the log of data plane {NAMES[plane.index]}: {line}")

    # ---- the whole run

    def begin(self):
        for plane in self.planes:
            plane.start()
        for plane in self.planes:
            plane.await_service()
            plane.start_moves()
            self.board.plane[plane.index].life = 2
        self.board.stop = 1
        for application in self.applications[:CONTROLS]:
            application.start()
        self.baselines = [Baseline(), Baseline()]
        self.settle()

    def go(self):
        end = time.monotonic() + self.options.seconds
        while self.rounds == 0 or (self.killed() < self.options.kills if self.options.kills else time.monotonic() < end):
            self.round()
            if self.options.verbose:
                print(self.figures(), flush=True)

    def killed(self):
        return sum(self.kills.values())

    def end(self):
        self.board.stop = 2
        self.until(lambda: all(a.process is None for a in self.applications), self.options.patience,
                   lambda: "applications that are never killed or stopped do not end")
        for plane in self.planes:
            plane.down = True
            plane.stop()
            if self.options.moves:
                print(f"data plane {NAMES[plane.index]}: {plane.made_moves()} moves between polling cores")

    def figures(self):
        slots = self.board.slot[:CONTROLS + APPLICATIONS]
        lines = [f"{self.rounds} rounds, {self.killed()} kills: " + ", ".join(f"{n} {what}" for what, n in self.kills.items()),
                 "stops: " + ", ".join(f"{n} {what}" for what, n in self.stops.items()) + f"; {self.ended} ended by themselves"]
        for face, name in enumerate(FACES):
            mine = [s for number, s in enumerate(slots) if number // 2 % 2 == face]
            lines.append(f"{name}: {sum(s.connected for s in mine)} connections, {sum(s.excused for s in mine)} ended by "
                         f"others; {sum(s.blocks for s in mine)} blocks compared by their senders, "
                         f"{sum(s.received for s in mine)} by their receivers; notified of a dead data plane "
                         f"{sum(s.noticed for s in mine)} times, at most {max(s.noticed_ms for s in mine)} ms after the kill and "
                         f"{max(s.late_ms for s in mine)} ms after its end; {sum(s.unended for s in mine)} connections with "
                         "work that never completed")
        lines += [f"data plane {NAMES[p.index]}: {b}" for p, b in zip(self.planes, self.baselines)]
        return "\n".join(lines)

    def clean_up(self):
        for application in self.applications:
            application.clean_up()
        for plane in self.planes:
            if plane.process and plane.process.poll() is None:
                plane.process.kill()
                plane.process.wait()
        counted = self.cable.end()
        if counted:
            print("cable:", counted)

    def tails(self):
        for name in sorted(os.listdir(self.work)):
            if name.endswith(".log"):
                with open(os.path.join(self.work, name), encoding="utf-8", errors="replace") as log:
                    lines = [line for line in log.read().splitlines() if "event=command command=move" not in line]
                    if lines:
                        print(f"---- {name}", *lines[-15:], sep="\n", file=sys.stderr)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cable", choices=("memif", "lossy"), default="memif")
    parser.add_argument("--lossy", default="10,5,50", metavar="LOST,DOUBLED,DELAYED",
                        help="number of frames lost, duplicated and delayed out of 1000 RoCEv2 frames")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, default=0, help="run until N processes were killed, however long that takes")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--idle", choices=("spin", "yield", "sleep"), default="sleep")
    parser.add_argument("--moves", action="store_true", help="all queue pairs move between two polling cores")
    parser.add_argument("--patience", type=float, default=300,
                        help="seconds to wait for each expected event; long, because a busy machine may leave us 2 %% of a processor")
    parser.add_argument("--keep", action="store_true", help="keep the logs after a failure")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def skip(why):
    if os.environ.get("NO_SKIP"):
        sys.exit(f"NO_SKIP is set: {why}")
    print(f"SKIPPED: {why}")
    sys.exit(77)


def need_namespaces():
    if os.getuid() != 0:
        skip("network namespaces need root")
    probe = f"oneside-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode != 0:
        skip("network namespaces cannot be made here")
    subprocess.run(["ip", "netns", "del", probe])


def main():
    options = arguments()
    options.seed &= 0xffffffff
    if options.cable == "lossy":
        need_namespaces()
    print(f"seed {options.seed}", flush=True)
    work = tempfile.mkdtemp(prefix="oneside-chaos.", dir="/tmp")
    os.chmod(work, 0o755)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    status, chaos = 1, None
    try:
        chaos = Chaos(options, work)
        chaos.begin()
        chaos.go()
        chaos.end()
        status = 0
    except Failure as failure:
        chaos and chaos.tails()
        print(f"FAILED (seed {options.seed}): {failure}", file=sys.stderr)
    finally:
        if chaos:
            print(chaos.figures())
            chaos.clean_up()
        if options.keep and status:
            print(f"logs are kept in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""The applications of a chaos run, and the board that they share with the driver (chaos.h)."""

import ctypes
import mmap
import os
import random
import shutil
import signal
import subprocess

from planes import Failure

SLOTS, PLANES = 16, 2
CONTROLS = 4
FACES = ("dat", "rsm")
PHASES = ("attach", "register", "listen", "connect", "accept", "transfer", "map", "end")
USERS = (20001, 20002, 20003)


class PlaneLine(ctypes.Structure):
    _fields_ = [("life", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("killed_ns", ctypes.c_uint64),
                ("gone_ns", ctypes.c_uint64)]


class SlotLine(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in
                ("killed", "life", "paused", "ready", "imports", "doomed", "noticed_ms", "late_ms", "noticed", "unended")] + \
               [(name, ctypes.c_uint64) for name in ("blocks", "received", "connected", "excused")]


class StreamLine(ctypes.Structure):
    _fields_ = [("begun", ctypes.c_uint64), ("done", ctypes.c_uint64), ("publication", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32)]


class BoardPage(ctypes.Structure):
    _fields_ = [("stop", ctypes.c_uint32), ("failures", ctypes.c_uint32), ("slots", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("plane", PlaneLine * PLANES), ("slot", SlotLine * SLOTS),
                ("stream", StreamLine * SLOTS * SLOTS)]


def Board(path, slots):
    with open(path, "w+b") as file:
        os.fchmod(file.fileno(), 0o666)
        file.truncate(ctypes.sizeof(BoardPage))
        board = BoardPage.from_buffer(mmap.mmap(file.fileno(), 0))
    board.slots = slots
    for line in board.slot:
        line.killed = 1     # odd: the slot has no process
    return board


class Application:
    """A slot, which runs one process after the other."""

    def __init__(self, chaos, slot):
        self.chaos, self.slot, self.line = chaos, slot, chaos.board.slot[slot]
        self.face, self.plane = FACES[slot // 2 % 2], slot % 2
        self.process, self.lives, self.stopped = None, 0, False
        self.log = open(os.path.join(chaos.work, f"slot{slot}.log"), "ab")

    def start(self):
        if self.process is not None or self.chaos.board.stop > (self.slot < CONTROLS):
            return
        rng = random.Random(f"{self.chaos.options.seed}/{self.slot}/{self.lives}")
        doom = (0, 0, 0)
        # Half of the processes die within the n-th call of some phase, some microseconds after it begins.
        if self.slot >= CONTROLS and rng.random() < 0.5:
            doom = (rng.randrange(len(PHASES)), int(2 ** rng.uniform(0, 3)), int(10 ** rng.uniform(0, 4)))
        user = rng.choice(USERS) if self.slot >= CONTROLS and os.getuid() == 0 else os.getuid()
        cache = rng.choice(("0", "1M", "2G")) if self.slot >= CONTROLS else "0"
        self.lives += 1
        self.line.doomed = self.line.ready = 0
        self.line.killed += 1       # even: the process lives
        self.process = subprocess.Popen(
            [os.path.join(self.chaos.build, f"tests/chaos/chaos-{self.face}"), os.path.join(self.chaos.work, "board"),
             str(self.slot), str(rng.randrange(1 << 62)), self.chaos.planes[self.plane].socket, str(user),
             *map(str, doom)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={"PATH": os.environ["PATH"], "ONESIDE_REGISTRATION_CACHE": cache})
        self.stopped = self.killing = False

    def kill(self):
        if self.process is None or self.killing:
            return
        self.killing = True
        self.line.killed += 1       # before the kill, as chaos.h requires
        self.process.kill()
        self.chaos.kills["stopped application" if self.stopped else "application"] += 1

    def stop(self, seconds, then_kill):
        if self.process is None or self.killing or self.stopped:
            return
        self.stopped = True
        self.line.paused += 1
        self.chaos.stops["application"] += 1
        self.process.send_signal(signal.SIGSTOP)
        self.chaos.after(seconds, self.resume, self.process, then_kill)

    def resume(self, process, then_kill):
        if self.process is not process:
            return
        if then_kill:
            self.kill()
        process.send_signal(signal.SIGCONT)
        self.stopped = False

    def reap(self):
        """Reaps an ended process; true if it ended by itself with status 0."""
        if self.process is None or self.process.poll() is None:
            return False
        status, self.process = self.process.returncode, None
        doomed = self.line.doomed
        if not self.killing:
            self.line.killed += 1
        self.line.life += self.line.life & 1
        if status == -signal.SIGKILL and doomed and not self.killing:
            self.chaos.kills[PHASES[doomed - 1]] += 1
        elif status != 0 and not (status == -signal.SIGKILL and self.killing):
            raise Failure(f"the application in slot {self.slot} ended with status {status}")
        if self.slot < CONTROLS and self.chaos.board.stop < 2:
            raise Failure(f"the application in slot {self.slot}, which is never killed or stopped, has ended")
        self.chaos.after(0.01, self.start)
        return status == 0

    def stacks(self):
        if shutil.which("gdb") is None:
            return "no gdb here, no stacks"
        stacks = subprocess.run(["gdb", "-p", str(self.process.pid), "-batch", "-ex", "thread apply all bt"],
                              capture_output=True, text=True)
        return stacks.stdout

    def clean_up(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.log.close()

# SPDX-License-Identifier: BSD-3-Clause
"""Starts programs, limits their time, and ends them by process id."""
import os
import signal
import subprocess
import sys
import time


class Failed(Exception):
    """A measurement failed; the text is one sentence with the reason."""


def placed(cpus, policy, command):
    """Returns the command with prefixes for its processors and its scheduling policy (a command prefix)."""
    on = [] if cpus is None else ["taskset", "-c", ",".join(str(c) for c in cpus)]
    return [*policy, *on, *command]


def tail(text, lines=3):
    return " / ".join(text.strip().splitlines()[-lines:])


def run(command, timeout, env=None, cpus=None, policy=()):
    """Runs a command, which must succeed, and returns its standard output."""
    try:
        done = subprocess.run(placed(cpus, policy, command), capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{os.path.basename(command[0])}: not done after {timeout} s") from error
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise Failed(f"{os.path.basename(command[0])}: status {done.returncode}: {tail(done.stderr or done.stdout)}")
    return done.stdout


class Background:
    """A program that runs until stop(); its output is in a file."""

    def __init__(self, command, log, env=None, cpus=None, policy=()):
        self.name = os.path.basename(command[0])
        self.log = log
        with open(log, "w", encoding="utf-8") as out:
            try:
                self.process = subprocess.Popen(placed(cpus, policy, command), stdout=out,
                                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                                env={**os.environ, **(env or {})})
            except OSError as error:
                raise Failed(f"{command[0]}: {error.strerror}") from error

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as out:
            return out.read()

    def wait_for(self, words, seconds):
        """Waits until the output contains the words."""
        deadline = time.time() + seconds
        while words not in self.said():
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended: {tail(self.said())}")
            if time.time() > deadline:
                raise Failed(f"{self.name} is not ready after {seconds} s: {tail(self.said())}")
            time.sleep(0.02)

    def finish(self, seconds):
        """Waits until the program ends, for at most that time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"  {self.name}: not done after {seconds} s", file=sys.stderr)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def wait_for_port(port, program, seconds=10):
    """Waits until a program listens on that TCP port, by /proc: a trial connection might be accepted."""
    wanted = f":{port:04X}"
    deadline = time.time() + seconds
    while True:
        for name in ("/proc/net/tcp", "/proc/net/tcp6"):
            try:
                with open(name, encoding="ascii") as table:
                    sockets = [line.split() for line in table.readlines()[1:]]
                if any(s[1].endswith(wanted) and s[3] == "0A" for s in sockets):
                    return
            except OSError:
                pass
        if program.process.poll() is not None:
            raise Failed(f"{program.name} ended: {tail(program.said())}")
        if time.time() > deadline:
            raise Failed(f"{program.name} does not listen on port {port} after {seconds} s")
        time.sleep(0.02)

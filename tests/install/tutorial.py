#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Follows a tutorial: writes its pieces of code to files, runs its commands, and compares their output.

    tutorial.py DOCUMENT        works in the current directory; exit 1 if the output differs from the document

Blocks of the document, which are executed in order:

    ```c FILE           appends the block to FILE
    ```console          commands, each followed by its whole output; "..." matches anything, and any lines if it is a
                        line by itself
        $ COMMAND       runs COMMAND (also client$ COMMAND); exported variables stay for the next commands; a last line
                        [N] is the expected status, else 0
        NAME$ COMMAND   starts COMMAND in a terminal NAME, and waits until it has printed the output shown
        (NAME)          waits for the end of NAME's program, with status 0, after printing the rest of the output shown
"""

import os
import re
import signal
import subprocess
import sys
import time

PATIENCE = 120
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)
PROMPT = re.compile(r"^(\w*)\$ (.*)$|^\((\w+)\)$")


def pattern(lines, more):
    text = "".join(r"(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n" for line in lines)
    return re.compile(text + (r"(?:.*\n?)*" if more else ""))


class Terminal:
    """A program that runs in the background while other commands run."""

    def __init__(self, name, command, environment):
        self.path = f"{name}.out"
        with open(self.path, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, env=environment)
        self.lines = []

    def said(self):
        with open(self.path, encoding="utf-8") as out:
            return out.read()

    def expect(self, lines):
        self.lines += lines
        wanted, deadline = pattern(self.lines, True), time.monotonic() + PATIENCE
        while not wanted.fullmatch(self.said()):
            if self.process.poll() is not None and not wanted.fullmatch(self.said()):
                return f"it ended with status {self.process.returncode}, and printed\n{self.said()}"
            if time.monotonic() > deadline:
                return f"in {PATIENCE} seconds it printed\n{self.said()}"
            time.sleep(0.05)
        return None

    def finish(self, lines):
        self.lines += lines
        status = self.process.wait(PATIENCE)
        return None if status == 0 and pattern(self.lines, False).fullmatch(self.said()) else \
            f"it ended with status {status}, and printed\n{self.said()}"

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)


def steps(text):
    """Yields (kind, name, command or code, lines of output) of each step of the document."""
    for kind, name, body in BLOCK.findall(text):
        if kind != "console":
            if name:
                yield "file", name, body, []
            continue
        lines = body.splitlines()
        starts = [i for i, line in enumerate(lines) if PROMPT.match(line)] + [len(lines)]
        if starts[0] != 0:
            sys.exit(f"a console begins without a prompt: {lines[0]}")
        for start, end in zip(starts, starts[1:]):
            prompt, command, goes_on = PROMPT.match(lines[start]).groups()
            what = "goes on" if goes_on else "run" if prompt in ("", "client") else "start"
            yield what, goes_on or prompt, command, lines[start + 1:end]


def run(command, lines, environment):
    """Runs a command; variables that it exports are added to the environment of the next commands."""
    status = 0
    if lines and re.fullmatch(r"\[\d+\]", lines[-1]):
        status = int(lines[-1][1:-1])
        lines = lines[:-1]
    done = subprocess.run(["bash", "-c", command + "\nstatus=$?; env -0 >environment; exit $status"], env=environment,
                          capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL)
    with open("environment", encoding="utf-8") as variables:
        environment.update(line.split("=", 1) for line in variables.read().split("\0") if "=" in line)
    printed = done.stdout + done.stderr
    if done.returncode != status or not pattern(lines, False).fullmatch(printed):
        return f"status {done.returncode}, and printed\n{printed}"
    return None


def follow(path):
    with open(path, encoding="utf-8") as document:
        todo = list(steps(document.read()))
    terminals, environment, ran = {}, dict(os.environ), 0
    try:
        for what, name, command, lines in todo:
            wrong = None
            if what == "file":
                with open(name, "a", encoding="utf-8") as code:
                    code.write(command)
                continue
            if what == "run":
                wrong = run(command, lines, environment)
            elif what == "goes on":
                wrong = terminals.pop(name).finish(lines)
            else:
                if name in terminals:
                    terminals.pop(name).end()
                terminals[name] = Terminal(name, command, environment)
                wrong = terminals[name].expect(lines)
            ran += 1
            if wrong:
                print(f"{os.path.basename(path)}: {command or name}: {wrong}\ninstead of\n" + "\n".join(lines))
                return 1
    finally:
        for terminal in terminals.values():
            terminal.end()
    if ran == 0:
        print(f"{path}: no command")
        return 1
    print(f"{os.path.basename(path)}: {ran} commands, as it says")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(follow(os.path.abspath(sys.argv[1])))

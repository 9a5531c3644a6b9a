#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests onesidectl with a mock data plane: its requests, output and status.

Usage: test_onesidectl.py ONESIDECTL"""
import json
import os
import pty
import re
import socket
import subprocess
import sys
import tempfile
import threading

ONESIDECTL = sys.argv[1]
TRANSITION = {"transition": {"time_ns": 1, "object": "attachment", "id": 1, "from": "a", "to": "b", "why": "c", "allowed": True}}


class DataPlane:
    """Answers each request by answer(request), a list of packets; None among them ends the connection."""

    def __init__(self, path, answer):
        self.asked, self.answer = [], answer
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:  # end() has shut the listener down
                return
            with connection:
                try:
                    self.converse(connection)
                except ConnectionError:
                    pass

    def converse(self, connection):
        while packet := connection.recv(65536):
            request = json.loads(packet)
            self.asked.append(request)
            for answer in self.answer(request):
                if answer is None:
                    return
                connection.send(json.dumps(answer).encode())

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


def empty(request):
    """Answers like a data plane without objects."""
    if request["command"] == "trace":
        return [{"done": "tracing"}, TRANSITION, TRANSITION, None]
    if request["command"] == "metrics":
        return [{"metrics": "# EOF\n"}]
    what = request.get("what")
    return [{"done": "it is done"}] if what is None else [{what: [{}] if what in ("version", "ports") else []}]


def run(words, output=subprocess.PIPE, answer=empty):
    """Runs the command; returns its status, output, errors and requests."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "ctl")
        plane = DataPlane(path, answer)
        try:
            done = subprocess.run([ONESIDECTL, "--socket", path, *words], stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.PIPE)
        finally:
            plane.end()
    return done.returncode, done.stdout, done.stderr.decode(errors="replace"), plane.asked


def check(words, status, says, asks=None, **more):
    returned, _, errors, asked = run(words, **more)
    if returned != status or says not in errors:
        sys.exit(f"{words}: status {returned}, {errors!r}; not {status}, {says!r}")
    if asks is not None and asked != asks:
        sys.exit(f"{words}: it has asked {asked}, not {asks}")


# A word that is not UTF-8 is an error: without that word the request would have another meaning.
for words in ([b"log", b"level", b"\xff", b"debug"], [b"log", b"level", b"\xff"], [b"show", b"clients", b"port=\xff"],
              [b"show", b"clients", b"peer=192.0.2.\xff"], [b"peer", b"add", b"3", b"\xff"],
              [b"peer", b"add", b"3", b"192.0.2.3", b"port=\xff"], [b"capture", b"port=\xff"], [b"capture", b"file=\xff"]):
    check(words, 2, "not UTF-8", asks=[])
check(["log", "level", "oneside.*", "debug"], 0, "", asks=[{"command": "log-level", "level": "debug", "pattern": "oneside.*"}])
check(["peer", "add", "3", "192.0.2.3", "port=p0"], 0, "",
      asks=[{"command": "peer-add", "node": 3, "address": "192.0.2.3", "port": "p0"}])

# A failure to write the output is an error.
for words in (["--help"], ["--version"], ["show"], ["show", "clients"], ["show", "clients", "--json"], ["drain"],
              ["reload", "--json"], ["metrics"], ["trace"], ["top", "count=1"], ["setup", "--dry-run"]):
    with open("/dev/full", "wb") as full:
        check(words, 1, "standard output: ", output=full)

# A trace ends after the requested number of transitions, not before.
check(["trace", "count=2"], 0, "tracing")
check(["trace", "count=3"], 1, "closed the connection")
check(["trace"], 1, "closed the connection")

# An upgrade reports the reason of a refusal, and afterwards which process serves.
def upgrading(*versions, refused=None):
    versions = list(versions)

    def answer(request):
        if request["command"] == "upgrade":
            return [refused or None]
        return [{"version": [versions.pop(0)]}]
    return answer


OLD, NEW = {"pid": 1}, {"pid": 2, "stopped_us": 36001}
check(["upgrade"], 0, "", answer=upgrading(OLD, NEW),
      asks=[{"command": "show", "what": "version"}, {"command": "upgrade"}, {"command": "show", "what": "version"}])
status, output, _, _ = run(["upgrade"], answer=upgrading(OLD, NEW))
if output.decode() != "process 2 has taken over from process 1, which stopped for 37 ms\n":
    sys.exit(f"upgrade: {output}")
check(["upgrade", "a/b"], 1, "serves on", answer=upgrading(OLD, OLD),
      asks=[{"command": "show", "what": "version"}, {"command": "upgrade", "binary": os.path.join(os.getcwd(), "a/b")},
            {"command": "show", "what": "version"}])
check(["upgrade", "/a"], 1, "connections are lost", answer=upgrading(OLD, {"pid": 3}))
check(["upgrade"], 1, "too old", answer=upgrading(OLD, refused={"error": "upgrade: too old"}))
check(["reload", "upgrade"], 0, "", answer=upgrading(OLD, refused={"done": "nothing has changed"}),
      asks=[{"command": "show", "what": "version"}, {"command": "upgrade", "reload": True}])

# onesidectl recognizes the socket for applications, which closes its connection, if the control socket exists next to it.
for name, beside in (("oneside.sock", "ctl"), ("a.sock", "a.sock.ctl")):
    with tempfile.TemporaryDirectory() as directory:
        path, other = os.path.join(directory, name), os.path.join(directory, beside)
        plane = DataPlane(path, lambda request: [None])
        try:
            for exists in (False, True):
                if exists:
                    open(other, "wb").close()
                done = subprocess.run([ONESIDECTL, "--socket", path, "show"], stdin=subprocess.DEVNULL, capture_output=True)
                says = f"this socket is for applications; give --socket {other}" if exists else "closed the connection"
                if done.returncode != 1 or f"socket {path}: " not in done.stderr.decode() or says not in done.stderr.decode():
                    sys.exit(f"the socket for applications: status {done.returncode}, {done.stderr}; not {says!r}")
        finally:
            plane.end()

# A data plane of another version reports less.
for words, status in ((["show"], 0), (["show", "ports"], 0), (["top", "count=1"], 0), (["capture"], 1), (["capture", "port=p0"], 1)):
    check(words, status, "")

# A long node number or a long line is not truncated: the rest of a line would answer the next question.
check(["setup", "--dry-run", "--port", "memif", "--node", "1", "--peer", "00000063=192.0.2.2"], 1, "write NODE=ADDRESS")
control, terminal = pty.openpty()
with tempfile.TemporaryDirectory() as directory:
    setup = subprocess.Popen([ONESIDECTL, "setup", "--output", os.path.join(directory, "oneside.conf")], stdin=terminal,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.write(control, b"x" * 511 + b"\n\x04")
    printed = setup.communicate()[0].decode()
if printed.count("no such NIC") != 1 or "Its own address" in printed or "Driven by" in printed or "end of input" not in printed:
    sys.exit(f"setup, printed a line of 511 bytes: {printed}")

# The help, the manual page and the completion must have the same commands and lists.
ROOT = os.path.join(os.path.dirname(__file__), "../../../..")
with open(os.path.join(ROOT, "control/onesidectl/onesidectl.bash"), encoding="utf-8") as file:
    completion = file.read()
with open(os.path.join(ROOT, "doc/man/onesidectl.8"), encoding="utf-8") as file:
    page = re.sub(r"\\f[BIR]", "", file.read())
helped = run(["--help"])[1].decode()
lists = re.search(r"local whats='(.*)'", completion)[1].split()
commands = re.search(r"_onesidectl_offer (show .*) --socket", completion)[1].split()
named = re.split(r"\.SS Names\n|\.SH PROTOCOL\n", page)[1]
for what in lists:
    check(["show", what], 0, "", asks=[{"command": "show", "what": what}])
for text, where in ((helped.split("WHAT:")[1].split("top [")[0], "--help"), (named, "the names of JSON"), (page, "the list of show")):
    if missing := [what for what in lists if not re.search(rf"\b{what}\b", text)]:
        sys.exit(f"{where} lacks {missing}")
if set(re.findall(r"(?m)^  ([a-z]+)\b", helped)) != set(commands):
    sys.exit(f"completion has {commands}, and the help not the same")
if missing := [command for command in commands if f"\n{command}" not in page]:
    sys.exit(f"the manual page lacks {missing}")

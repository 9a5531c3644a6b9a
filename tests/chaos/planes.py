# SPDX-License-Identifier: BSD-3-Clause
"""A pair of data planes, 192.0.2.1 and 192.0.2.2, and the cable between them: memif, or two veth pairs that net-shuffle
joins, which loses, duplicates and delays frames."""

import json
import os
import re
import signal
import socket
import subprocess
import time

NAMES = ("a", "b")
MTU = 4200      # as in tests/net/lib.sh
BUFFER = 4352
START_SECONDS = 300
END_SECONDS = 300


class Failure(Exception):
    pass


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stderr or done.stdout}")
    return done.stdout


class Cable:
    """The cable; memif needs no set-up, because its ends find each other."""

    def __init__(self, work, build, lossy, seed):
        self.work, self.shuffle, self.namespaces = work, None, []
        self.lossy = lossy
        if lossy:
            self.make(build, lossy, seed)

    def namespace(self, name):
        return f"oneside-{os.getpid()}-{name}"

    def make(self, build, lossy, seed):
        for name in ("a", "b", "cable"):
            run("ip", "netns", "add", self.namespace(name))
            self.namespaces.append(self.namespace(name))
        for name in NAMES:
            run("ip", "link", "add", "veth0", "netns", self.namespace(name), "mtu", str(MTU), "type", "veth",
                "peer", "name", f"end-{name}", "netns", self.namespace("cable"), "mtu", str(MTU))
            for ns, link in ((name, "veth0"), ("cable", f"end-{name}")):
                inside = ("ip", "netns", "exec", self.namespace(ns))
                # No offloads, so that frames are complete as on a cable; no IPv6 packets of the kernel's own.
                subprocess.run([*inside, "ethtool", "-K", link, "tx", "off", "rx", "off", "gso", "off", "gro", "off"],
                               capture_output=True)
                run(*inside, "sysctl", "-qw", f"net.ipv6.conf.{link}.disable_ipv6=1")
                run("ip", "-n", self.namespace(ns), "link", "set", link, "up")
        self.log = open(os.path.join(self.work, "cable.log"), "w+", encoding="utf-8")
        self.shuffle = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self.namespace("cable"),
             os.path.join(build, "tests/net/net-shuffle"), "end-a", "end-b", str(seed), *lossy.split(",")],
            stdout=self.log, stderr=subprocess.STDOUT)

    def device(self, index):
        if self.lossy:
            return "net_af_packet0", ",iface=veth0,framesz=8192,blocksz=65536,framecnt=1024"
        role = ("server", "client")[index]
        return "net_memif0", f",role={role},id=0,socket={self.work}/cable,socket-abstract=no,bsize={BUFFER},rsize=10"

    def prefix(self, index):
        return ["ip", "netns", "exec", self.namespace(NAMES[index])] if self.lossy else []

    def end(self):
        """Ends the cable; returns the last line that net-shuffle printed."""
        printed = ""
        if self.shuffle:
            self.shuffle.terminate()
            self.shuffle.wait()
            self.log.seek(0)
            printed = self.log.read().split("\n")[-2]
            self.shuffle = None
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        self.namespaces = []
        return printed


class Plane:
    def __init__(self, work, build, cable, index, idle, moves):
        self.work, self.build, self.cable, self.index, self.idle = work, build, cable, index, idle
        self.socket = os.path.join(work, f"{NAMES[index]}.sock")
        self.log = os.path.join(work, f"{NAMES[index]}.log")
        self.process, self.read, self.moves = None, 0, moves
        self.down = self.stopped = False
        self.movers = []

    def start(self):
        own, peer = self.index + 1, 2 - self.index
        cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        device, arguments = self.cable.device(self.index)
        command = ["setpriv", "--pdeathsig", "KILL", *self.cable.prefix(self.index),
                   os.path.join(self.build, "control/oneside-dataplane"),
                   f"--lcores=0@({cpus}),1@({cpus})" + (f",2@({cpus})" if self.moves else ""), "--no-huge", "-m", "512", "--no-pci", "--iova-mode=va",
                   f"--file-prefix={os.path.basename(self.work)}-{NAMES[self.index]}",
                   "--log-level=lib.eal:warning", f"--vdev={device}{arguments}", "--",
                   "--node", str(own), "--idle", self.idle, "--socket", self.socket, "--socket-mode", "0666",
                   "--port", f"name=p0,device={device},address=192.0.2.{own}/24,mtu={MTU}",
                   "--peer", f"node={peer},address=192.0.2.{peer}",
                   # Even on a busy machine only a dead peer is silent for 20 s.
                   "--keepalive-ms", "20000"]
        with open(self.log, "ab") as log:
            self.began = log.tell()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def serves(self):
        if self.process.poll() is not None:
            raise Failure(f"data plane {NAMES[self.index]} ended with status {self.process.returncode}")
        with open(self.log, "rb") as log:
            log.seek(self.began)
            return b"serving on" in log.read()

    def start_moves(self):
        """Moves all queue pairs between two polling cores from now on; the mover ends with the data plane."""
        if self.moves:
            mover = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../net/mover.py")
            with open(self.log + ".moves", "ab") as log:
                self.movers.append(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "/usr/bin/python3", mover,
                                                     self.socket + ".ctl"], stdout=log, stderr=log))

    def made_moves(self):
        """Waits for the movers; returns the number of moves that they have seen made."""
        if any(mover.wait() for mover in self.movers):
            raise Failure(f"a mover of data plane {NAMES[self.index]} has failed")
        return sum(map(int, re.findall(r"accepted, (\d+) made", self.read_moves())))

    def read_moves(self):
        with open(self.log + ".moves", encoding="utf-8") as log:
            return log.read()

    def await_service(self):
        end = time.monotonic() + START_SECONDS
        while not self.serves():
            if time.monotonic() > end:
                raise Failure(f"data plane {NAMES[self.index]} does not serve within {START_SECONDS} seconds")
            time.sleep(0.01)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"data plane {NAMES[self.index]} does not end") from None
        if status != 0:
            raise Failure(f"data plane {NAMES[self.index]} ended with status {status}")

    def show(self, what):
        """Returns a list as onesidectl(8) shows it, by its protocol: a process for each query would dominate the run time."""
        lines, place = [], 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.connect(self.socket + ".ctl")
            while place is not None:
                asked.send(json.dumps({"command": "show", "what": what, "from": place}).encode())
                page = json.loads(asked.recv(1 << 16))
                if "error" in page:
                    raise Failure(f"data plane {NAMES[self.index]}: {page['error']}")
                lines += page[what]
                place = page.get("next")
        return lines

    def proc(self, name):
        return f"/proc/{self.process.pid}/{name}"

    def asked_by(self):
        """Returns the data plane's ends of connections to its control socket, as descriptors name them. The kernel lists
        them in the network namespace of those that ask, which is this process's."""
        with open("/proc/self/net/unix", encoding="utf-8") as sockets:
            lines = [line.split() for line in sockets]
        return {f"socket:[{words[6]}]" for words in lines if words[7:] == [self.socket + ".ctl"] and words[5] == "03"}

    def descriptors(self):
        """Yields the targets of all descriptors, without those that are closed meanwhile, and without connections to the
        control socket: the data plane closes one a moment after its client."""
        asked_by = self.asked_by()
        for fd in os.listdir(self.proc("fd")):
            try:
                target = os.readlink(self.proc(f"fd/{fd}"))
            except FileNotFoundError:
                continue
            if target not in asked_by:
                yield re.sub(r"\d+", "N", target)

    def memory(self):
        """Resident memory in KiB: private, and shared with applications."""
        with open(self.proc("status"), encoding="utf-8") as status:
            found = dict(re.findall(r"^(RssAnon|RssShmem):\s+(\d+)", status.read(), re.M))
        return int(found["RssAnon"]), int(found["RssShmem"])

    def new_log_lines(self):
        with open(self.log, "rb") as log:
            log.seek(self.read)
            text = log.read()
        whole = text.rfind(b"\n") + 1
        self.read += whole
        return text[:whole].decode(errors="replace").splitlines()

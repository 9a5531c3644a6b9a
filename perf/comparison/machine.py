# SPDX-License-Identifier: BSD-3-Clause
"""The machine: the assignment of its processors, hugepages, packages."""
import os
import platform
import shutil
import subprocess
import sys
import time

HUGE = "/sys/kernel/mm/hugepages/hugepages-2048kB"
HUGE_WANTED = 1870  # pages of 2 MiB, for the eight data planes of comparison/cores.py

# program: Debian package that has it
RIVALS = {"ucx_perftest": "ucx-utils", "fi_pingpong": "libfabric-bin", "iperf3": "iperf3", "sockperf": "sockperf",
          "dpdk-testpmd": "dpdk-dev", "ib_write_bw": "perftest", "ib_write_lat": "perftest", "ib_send_lat": "perftest"}


ROUND_ROBIN = ("chrt", "-r", "1")


def may_round_robin():
    return shutil.which("chrt") is not None and subprocess.run([*ROUND_ROBIN, "true"], stderr=subprocess.DEVNULL,
                                                               check=False).returncode == 0


class Layout:
    """Assigns processors to programs; doc/performance.md, "How to lay out cores", explains why."""

    def __init__(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise SystemExit("compare: two processors are needed")
        self.all = cpus
        self.spare = len(cpus) >= 4
        # Processors of each data plane's polling core, and of the application in bandwidth and latency tests.
        self.core = {1: cpus[-1], 2: cpus[-2]} if self.spare else {1: cpus[0], 2: cpus[1]}
        self.application = [cpus[0]]
        self.latency_application = [cpus[0]] if self.spare else [cpus[1]]
        # An application that shares the far core's processor must not spin while it waits.
        self.latency_options = [] if self.spare else ["--spin", 0]
        self.idle = "spin" if self.spare else "yield"
        # On a shared processor the scheduler determines the latency.
        self.round_robin = not self.spare and may_round_robin()
        # A single data plane's core and the application have a processor each.
        self.alone_core = cpus[-1]
        # Client and server of rivals.
        self.client, self.server = [cpus[0]], [cpus[1]]

    def control(self):
        return "0@(" + ",".join(str(c) for c in self.all) + ")"

    def describe(self):
        if self.spare:
            return (f"polling cores alone on processors {self.core[1]} and {self.core[2]}, applications on "
                    f"{self.application[0]}, --idle spin")
        return (f"polling cores on processors {self.core[1]} and {self.core[2]}, --idle yield; programs beside their own data plane's "
                f"core (bandwidth) or the peer's (latency); on one host the core on {self.alone_core}, programs on {self.application[0]}; "
                + ("latencies across data planes by round-robin scheduling" if self.round_robin else
                   "round-robin scheduling is not permitted"))


class Load:
    """The processor time that other programs and the hypervisor use."""

    FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

    def __init__(self):
        self.begin = self._look()

    def _look(self):
        with open("/proc/stat", encoding="ascii") as f:
            return dict(zip(self.FIELDS, map(int, f.readline().split()[1:])))

    @staticmethod
    def busy(seconds=1):
        """Returns the share of the processors that is used while this program sleeps."""
        before = Load()
        time.sleep(seconds)
        passed = before.passed()
        return 1 - (passed["idle"] + passed["iowait"]) / (sum(passed.values()) or 1)

    def passed(self):
        return {k: v - self.begin[k] for k, v in self._look().items()}

    def stolen(self):
        """Returns the share of stolen time since this object was made."""
        passed = self.passed()
        return passed["steal"] / (sum(passed.values()) or 1)


class Hugepages:
    """Reserves missing hugepages as root; restore() releases them."""

    def __init__(self, wanted, pages=HUGE_WANTED):
        self.before = None
        self.available = False
        if not wanted or os.geteuid() != 0 or not os.path.isdir(HUGE):
            return
        total, free = self._read("nr_hugepages"), self._read("free_hugepages")
        if free < pages:
            self.before = total
            self._write(total + pages - free)
        self.available = self._read("free_hugepages") >= pages
        if not self.available:
            self.restore()

    @staticmethod
    def _read(name):
        with open(os.path.join(HUGE, name), encoding="ascii") as f:
            return int(f.read())

    @staticmethod
    def _write(value):
        with open(os.path.join(HUGE, "nr_hugepages"), "w", encoding="ascii") as f:
            f.write(str(value))

    def restore(self):
        if self.before is not None:
            self._write(self.before)
            self.before = None


def install(packages):
    """Installs packages by apt-get, with sudo if not root, like ./quickstart; False if that is impossible."""
    if shutil.which("apt-get") is None:
        return False
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    if sudo and shutil.which("sudo") is None:
        return False
    print(f"compare: installing {' '.join(packages)}", file=sys.stderr)
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    subprocess.run([*sudo, "apt-get", "update", "-q"], stdout=subprocess.DEVNULL, check=False)
    done = subprocess.run([*sudo, *environment, "apt-get", "install", "-y", "-q", "--no-install-recommends",
                           *packages], stdout=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def have_plots():
    return subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], capture_output=True,
                          check=False).returncode == 0


def missing_packages(plots):
    missing = [package for program, package in RIVALS.items() if shutil.which(program) is None]
    if plots and not have_plots():
        missing.append("python3-matplotlib")
    return missing


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def versions():
    """Returns the versions of the packages of the installed rivals."""
    out = {}
    for package in dict.fromkeys(package for program, package in RIVALS.items() if shutil.which(program)):
        done = shutil.which("dpkg-query") and subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True,
                                                             text=True, check=False).stdout.strip()
        out[package] = done or "(version unknown)"
    return out

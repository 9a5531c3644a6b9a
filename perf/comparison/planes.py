# SPDX-License-Identifier: BSD-3-Clause
"""Data planes, and programs that measure on them."""
import contextlib
import json
import os
import signal
import socket
import time

from .process import Background, Failed, run, tail

LCORE = "rte-worker"  # DPDK's name of its lcores' threads
PERF_SECONDS = 60  # time limit in addition to the duration of a test


def telemetry(prefix, question):
    """Returns the answer of DPDK's telemetry, {} if there is none."""
    runtime = "/var/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
    path = os.path.join(runtime, "dpdk", prefix, "dpdk_telemetry.v2")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(5)
            s.connect(path)
            s.recv(65536)
            s.send(question.encode())
            return json.loads(s.recv(1 << 20)).get(question.split(",")[0]) or {}
    except (OSError, ValueError):
        return {}


def cable_buffer(mtu):
    """Returns the size of memif's buffers: buffers much larger than a frame are slower, smaller ones slower still."""
    return 2048 if mtu <= 1500 else 4352


def cable_ring(frame):
    """Returns log2 of the number of memif's buffers per direction: so many small buffers that a buffer has left the peer
    processor's cache before it is reused; few large buffers."""
    return 12 if frame <= 256 else 10


class DataPlane(Background):
    """A oneside-dataplane process at one end of a memif cable, with a polling core on each of the given processors."""

    def __init__(self, context, name, node, cores, role, mtu=4200, idle=None, control=None, frame=None,
                 options=()):
        self.node = node
        self.address = f"192.0.2.{node}"
        self.socket = os.path.join(context.directory, f"{name}.sock")
        self.prefix = f"oneside-compare{os.getpid()}-{name}"
        # The control thread may use all processors, unless one is given.
        where = context.layout.control() if control is None else f"0@{control}"
        polling = ",".join(f"{i}@{core}" for i, core in enumerate(cores, 1))
        eal = [f"--lcores={where},{polling}", "--no-pci", "--iova-mode=va",
               f"--file-prefix={self.prefix}", "--log-level=lib.eal:warning"]
        own = ["--node", str(node), "--socket", self.socket, "--idle", idle or context.layout.idle]
        cable = os.path.join(context.directory, f"cable-{name[:-1]}")
        eal.append(f"--vdev=net_memif0,role={role},id=0,socket={cable},socket-abstract=no,"
                   f"bsize={cable_buffer(mtu)},rsize={cable_ring(frame or mtu)}")
        own += ["--port", f"name=p0,device=net_memif0,address={self.address}/24,mtu={mtu}",
                "--peer", f"node={3 - node},address=192.0.2.{3 - node}"]
        eal += context.eal
        own += options
        super().__init__([os.path.join(context.build, "control", "oneside-dataplane"), *eal, "--", *own],
                         os.path.join(context.directory, f"{name}.log"))
        try:
            self.wait_for("serving on", 30)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self):
        return self.process.pid

    def environment(self):
        return {"ONESIDE_SOCKET": self.socket}

    def ask(self, question):
        return telemetry(self.prefix, question)

    @contextlib.contextmanager
    def round_robin(self):
        """Schedules the polling core round-robin: only that thread, since threads of the ordinary policy would get little
        of its processor."""
        polling = [tid for tid in map(int, os.listdir(f"/proc/{self.pid}/task")) if self._comm(tid).startswith(LCORE)]
        if not polling:
            raise Failed(f"no thread of process {self.pid} is called {LCORE}...")
        for tid in polling:
            os.sched_setscheduler(tid, os.SCHED_RR, os.sched_param(1))
        try:
            yield
        finally:
            for tid in polling:
                os.sched_setscheduler(tid, os.SCHED_OTHER, os.sched_param(0))

    def _comm(self, tid):
        with open(f"/proc/{self.pid}/task/{tid}/comm", encoding="utf-8") as f:
            return f.read()


class Bench:
    """A data plane or a pair, and the servers of oneside-perf and oneside-rates on them."""

    def __init__(self, context, name, pair, idle=(None, None), control=(None, None), mtu=4200, frame=None,
                 options=((), ()), cores=None):
        self.context = context
        self.name = name
        self.pair = pair
        self.planes = []
        self.servers = {}
        if cores is None:
            cores = [(context.layout.core[1],), (context.layout.core[2],)] if pair else [(context.layout.alone_core,)]
        try:
            for i, own in enumerate(cores):
                self.planes.append(DataPlane(context, f"{name}{i + 1}", i + 1, own, ("server", "client")[i], mtu,
                                             idle[i], control[i], frame, options[i]))
        except BaseException:
            self.close()
            raise
        self.near, self.far = self.planes[0], self.planes[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for server in self.servers.values():
            server.stop()
        for plane in self.planes:
            plane.stop()

    @contextlib.contextmanager
    def paused(self):
        """Stops the data planes, which poll all the time, so that other programs get the processors."""
        for plane in self.planes:
            plane.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for plane in self.planes:
                plane.process.send_signal(signal.SIGCONT)

    def alone(self, function):
        """Returns a function that calls `function` while the data planes are stopped."""
        def without():
            with self.paused():
                return function()
        return without

    def settle(self, seconds=20):
        """Waits until the endpoints of earlier clients are gone, so that control threads no longer work on them."""
        deadline = time.time() + seconds
        while time.time() < deadline:
            clients = [client for plane in self.planes
                       for name, client in plane.ask("/oneside/clients").items() if name != "next"]
            # A control thread that is busy refuses, with a sentence.
            if all(isinstance(client, dict) for client in clients) and sum(client["qps"] for client in clients) <= 4:
                return
            time.sleep(0.05)
        raise Failed(f"endpoints of earlier measurements still exist after {seconds} s")

    def _program(self, name):
        return os.path.join(self.context.build, "perf", name)

    def _server(self, kind, command, ready):
        """Returns the server of a kind; starts it for the first client, and again if it has ended."""
        server = self.servers.get(kind)
        if server is None or server.process.poll() is not None:
            server = Background(command, os.path.join(self.context.directory, f"server-{self.name}-{kind}.log"),
                                env=self.far.environment())
            self.servers[kind] = server
            server.wait_for(ready, 20)
        return server

    def perf(self, arguments, cpus, size=64, seconds=None, policy=()):
        """Runs oneside-perf, and returns its JSON; arguments begin with the test's name. --copied-server: the server's
        memory is copied."""
        copied = "--copied-server" in arguments
        arguments = [a for a in arguments if a != "--copied-server"]
        test = arguments[0]
        rsm = test.split("_")[0] in ("put", "get", "putv", "getv", "map", "barrier", "signal")
        api = "rsm" if rsm else "dat"
        options = ["--copied", "-p", "18516"] if copied else []
        server = self._server(api + "-copied" * copied, [self._program("oneside-perf"), "-A", api, *options],
                              "published on" if rsm else "serving on")
        seconds = self.context.seconds if seconds is None else seconds
        # Ping-pong tests of uDAPL take a number of messages, others a duration.
        long = ["-n", "3000"] if test.endswith("_pp") and not rsm else ["-D", str(seconds)]
        command = [self._program("oneside-perf"), "-t", *(str(a) for a in arguments), "-s", str(size), *long, "--json",
                   *options[1:], "--node", str(self.far.node), self.far.address]
        try:
            out = run(command, seconds + PERF_SECONDS, self.near.environment(), cpus, policy)
        except Failed as error:
            if server.process.poll() is not None:
                raise Failed(f"{error}; the server: {tail(server.said())}") from error
            raise
        return json.loads(out.splitlines()[-1])

    def rates(self, arguments, cpus, timeout=90, serve=True, server_cpus=None):
        """Runs oneside-rates, and returns its JSON lines; arguments begin with the test's name."""
        # Each client has its own server, so that growth of the data plane is due to this client alone.
        server = None
        if serve:
            extra = []
            if "--pool" in arguments:
                extra = ["--pool", str(2 * arguments[arguments.index("--pool") + 1])]
            server = Background([self._program("oneside-rates"), *extra],
                                os.path.join(self.context.directory, "server-rates.log"),
                                env=self.far.environment(), cpus=server_cpus)
        try:
            if server is not None:
                server.wait_for("serving", 20)
            command = [self._program("oneside-rates"), "-t", *(str(a) for a in arguments), "--json"]
            if serve:
                command.append(self.far.address)
            out = run(command, timeout, self.near.environment(), cpus)
            return [json.loads(line) for line in out.splitlines()]
        finally:
            if server is not None:
                server.stop()

    def timeouts(self):
        """Returns the number of expired retransmission timers, which is 0 if no frame is lost."""
        return sum(core["timeouts"] for plane in self.planes for core in plane.ask("/oneside/transport").values())

    # ---- where the time goes ----

    def _look(self):
        return [{key: plane.ask(f"/oneside/{key}") for key in ("stages", "cores", "drops", "transport")}
                for plane in self.planes]

    def explain(self, arguments, cpus, size):
        """Repeats a measurement for a shorter time while cycles are counted by stage."""
        for plane in self.planes:
            plane.ask("/oneside/stages,on")
        try:
            before = self._look()
            result = self.perf(arguments, cpus, size, max(0.5, self.context.seconds / 2))
            after = self._look()
        finally:
            for plane in self.planes:
                plane.ask("/oneside/stages,off")
        return [core for plane, b, a in zip(self.planes, before, after)
                for core in explain_plane(plane, b, a, result["iterations"])]


def difference(after, before):
    return {core: {key: value - before.get(core, {}).get(key, 0) for key, value in counters.items()}
            for core, counters in after.items()}


def explain_plane(plane, before, after, operations):
    """Returns for each core: cycles of each stage per operation, busy share of the time, drops and stalls by reason."""
    changed = {key: difference(after[key], before[key]) for key in after}
    cores = []
    for core, stages in changed["stages"].items():
        hz = after["stages"][core]["hz"]
        cycles = {k: v for k, v in stages.items() if k not in ("on", "hz", "busy_loops")}
        total = sum(cycles.values()) or 1
        busy = total - cycles.get("idle", 0)
        counters = changed["cores"].get(core, {})
        loops = stages.get("busy_loops", 0)
        cores.append({
            "node": plane.node, "core": core, "hz": hz, "busy": busy / total, "operations": operations,
            "cycles": {k: v / operations for k, v in cycles.items() if k != "idle"},
            "operations_per_busy_loop": operations / loops if loops else None,
            "frames_received": counters.get("rx_packets", 0), "frames_sent": counters.get("tx_packets", 0),
            "stalls": {"backpressure": counters.get("backpressure", 0),
                       **{k: changed["transport"].get(core, {}).get(k, 0)
                          for k in ("retransmitted", "timeouts", "rnr_received", "nak_sequence_received")}},
            "drops": {k: v for k, v in changed["drops"].get(core, {}).items() if v},
        })
    return cores

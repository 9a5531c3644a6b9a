# SPDX-License-Identifier: BSD-3-Clause
"""Compares two pairs of data planes over memif, one of them with ESP, and the crypto device alone."""
import contextlib
import os
import re

from . import machine
from .planes import Bench
from .process import Failed, run
from .rivals import SECONDS, need
from .rows import LOWER

GROUP = "IPsec ESP (AES-256-GCM) over memif, path MTU 4096"
LARGE, PAYLOAD = 1 << 20, 4096
TEXT = 4124  # bytes encrypted in a frame with 4096 bytes of a WRITE: also UDP, BTH, ICRC and ESP's trailer
MTU = 4228
PROGRAM = "dpdk-test-crypto-perf"
TOLD = re.compile(r"event=esp_crypto device=(crypto_[a-z_]+?)(?:_oneside|\d*) ")


def options(context, node):
    """Options of the data plane with that node number; both data planes have the key of each direction."""
    keys = []
    for sender in (1, 2):
        path = os.path.join(context.directory, f"esp-from-{sender}.key")
        if not os.path.exists(path):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(os.urandom(36).hex() + "\n")
        keys.append(f"{0x1000 + sender:#x}:{path}")
    return ["--state", os.path.join(context.directory, f"esp-state-{node}"),
            f"--ipsec=name=peer,address=192.0.2.{3 - node},out={keys[node - 1]},in={keys[2 - node]}"]


def device(plane):
    found = TOLD.search(plane.said())
    if not found:
        raise Failed("the data plane has not logged which crypto device it uses")
    return found[1]


def crypto_alone(context, driver, operation, core):
    """Returns the bytes of payload per second that the device can encrypt, or decrypt, on that processor."""
    need(PROGRAM)
    out = run([PROGRAM, f"--lcores={context.layout.control()},1@{core}", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry",
               f"--file-prefix=oneside-compare{os.getpid()}-crypto", "--vdev", driver, "--", "--ptest", "throughput",
               "--devtype", driver, "--optype", "aead", "--aead-algo", "aes-gcm", "--aead-op", operation, "--aead-key-sz", "32",
               "--aead-iv-sz", "12", "--aead-aad-sz", "12", "--digest-sz", "16", "--buffer-sz", str(TEXT), "--burst-sz", "32",
               "--total-ops", "100000", "--csv-friendly"], SECONDS)
    lines = [line.strip().split(",") for line in out.splitlines() if line.count(",") > 5]
    return float(lines[-1][lines[0].index("Ops(Millions)")]) * 1e6 * PAYLOAD  # from operations per second


@contextlib.contextmanager
def pairs(context):
    """Yields the plain pair and the pair with keys; each is paused while the other is measured."""
    with Bench(context, "plain", True, mtu=MTU) as plain, \
         Bench(context, "esp", True, mtu=MTU, options=(options(context, 1), options(context, 2))) as encrypted:
        yield plain, encrypted


def both(plain, encrypted, function):
    """Returns the functions to measure on each pair: function(bench)."""
    return {"plain": encrypted.alone(lambda: function(plain)), "encrypted": plain.alone(lambda: function(encrypted))}


def bandwidth(context, rows, plain, encrypted):
    driver, core = device(encrypted.near), context.layout.core
    near = context.layout.application
    functions = both(plain, encrypted, lambda bench: bench.perf(["write_bw", "--tx-depth", 4], near, LARGE)["MBps"] / 1e3)
    # The near data plane's core encrypts WRITEs, the far one's decrypts them.
    for operation, processor in (("encrypt", core[1]), ("decrypt", core[2])):
        functions[operation] = plain.alone(encrypted.alone(
            lambda o=operation, p=processor: crypto_alone(context, driver, o, p) / 1e9))
    slices = rows.in_turn(GROUP, functions)
    hops = slices.hops("encrypted")
    rows.add(GROUP, "1 MiB RDMA writes, encrypted", slices.values("encrypted"), "GB/s", hops=hops,
             rivals=[("plain", slices.values("plain"), "GB/s"),
                     *((f"{driver}, {o}", slices.values(o), "GB/s") for o in ("encrypt", "decrypt"))])
    rows.ratio(GROUP, "1 MiB RDMA writes, encrypted / plain", slices.ratios("encrypted", "plain"), "of plain", hops=hops)
    columns = [slices.values(name) for name in ("encrypted", "plain", "encrypt", "decrypt")]
    # Per byte a core needs the time of a plain transfer plus the time of the crypto device.
    ratios = None if None in columns else [e * (1 / p + 1 / min(c, d)) for e, p, c, d in zip(*columns)]
    rows.ratio(GROUP, f"1 MiB RDMA writes, encrypted / what plain and {driver} allow", ratios,
               "of that", 0.7, hops=hops)


def latency(context, rows, plain, encrypted):
    def typical(bench):
        command = ["write_lat", *context.layout.latency_options]
        far, policy = context.layout.latency_application, ()
        with contextlib.ExitStack() as stack:
            if context.layout.round_robin:
                stack.enter_context(bench.far.round_robin())
                policy = machine.ROUND_ROBIN
            return bench.perf(command, far, 8, policy=policy)["latency_ns"]["p50"] / 1e3

    slices = rows.in_turn(GROUP, both(plain, encrypted, typical))
    hops = slices.hops("encrypted")
    work = "8 B RDMA write, post to completion"
    rows.add(GROUP, f"{work}, encrypted", slices.values("encrypted"), "us", better=LOWER, hops=hops,
             rivals=[("plain", slices.values("plain"), "us")])
    rows.add(GROUP, f"{work}, encrypted - plain", slices.of_pairs("encrypted", "plain", lambda e, p: e - p), "us", 1,
             LOWER, hops=hops)


def esp(context, rows):
    with pairs(context) as (plain, encrypted):
        hop, rows.hop = rows.hop, rows.hop and plain.alone(encrypted.alone(rows.hop))
        try:
            bandwidth(context, rows, plain, encrypted)
            latency(context, rows, plain, encrypted)
        finally:
            rows.hop = hop

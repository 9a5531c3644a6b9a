#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_capture.py FILE [LEAST]: checks a capture of at least LEAST (100) RoCEv2 frames with software that is not ours.

tshark must dissect every RoCEv2 frame without an error, and each ICRC must be right by zlib's CRC-32. scapy also checks
a sample of each opcode and sender; scapy is slow, and supports the ICRC over IPv4 only.
"""
import collections
import os
import struct
import subprocess
import sys
import tempfile
import zlib


def read_pcap(path):
    """Converts a capture file of any format to a pcap file of this machine's byte order."""
    return subprocess.run(["editcap", "-F", "pcap", path, "-"], capture_output=True, check=True).stdout


def frames(data):
    """Yields the frames of a pcap file."""
    at = 24
    while at + 16 <= len(data):
        have = struct.unpack("=IIII", data[at:at + 16])[2]
        yield data[at + 16:at + 16 + have]
        at += 16 + have


def icrc(frame):
    """Returns (computed, carried) ICRC of a RoCEv2 frame, None for other frames."""
    kind = frame[12:14]
    if kind == b"\x08\x00" and frame[23] == 17:
        ip_len = 20
    elif kind == b"\x86\xdd" and frame[20] == 17:
        ip_len = 40
    else:
        return None
    udp = 14 + ip_len
    if struct.unpack(">H", frame[udp + 2:udp + 4])[0] != 4791:
        return None
    length = struct.unpack(">H", frame[udp + 4:udp + 6])[0]
    end = udp + length - 4
    ip, masked = bytearray(frame[14:udp]), bytearray(frame[udp:end])
    if ip_len == 20:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF
    else:
        ip[0] |= 0x0F
        ip[1] = ip[2] = ip[3] = ip[7] = 0xFF
    masked[6] = masked[7] = masked[8 + 4] = 0xFF
    return zlib.crc32(b"\xff" * 8 + bytes(ip) + bytes(masked)), struct.unpack("<I", frame[end:end + 4])[0]


SAMPLE = 5  # frames of each sender and opcode that scapy checks


class Scapy:
    """Checks a sample of the frames with scapy's contrib/roce; prints a line if scapy is not installed."""

    def __init__(self):
        self.looked, self.wrong = collections.Counter(), 0
        try:
            from scapy.contrib.roce import BTH
            from scapy.layers.l2 import Ether
            self.ether, self.bth = Ether, BTH
        except ImportError as error:
            self.ether = None
            print(f"without scapy ({error}; {sys.executable})")
            if os.environ.get("NO_SKIP"):
                sys.exit(1)

    def look(self, number, frame):
        kind = (frame[6:12], frame[42])
        if self.ether is None or frame[12:14] != b"\x08\x00" or self.looked[kind] == SAMPLE:
            return
        self.looked[kind] += 1
        header = self.ether(frame)[self.bth]
        computed, carried = header.compute_icrc(b""), struct.pack("!I", header.icrc)
        if computed != carried:
            self.wrong += 1
            print(f"frame {number}: ICRC {carried.hex()} instead of {computed.hex()} by scapy")

    def summary(self):
        return f"{sum(self.looked.values())} checked by scapy, {self.wrong} wrong"


# Protocols as which tshark would dissect the payload of SENDs, and which are disabled.
GUESSES = [word for name in ("rpcordma", "smc", "smb_direct", "nvme-rdma", "lnet", "iser", "infiniband_sdp", "fcoib", "drbd",
                                    "infiniband.eoib")
           for word in ("--disable-protocol", name)] + ["--disable-heuristic", "eth_over_ib"]


def tshark_complaints(path):
    """Errors by frame number, without the UDP checksum of 0, which RoCEv2 has over IPv6 too."""
    lines = subprocess.run(["tshark", "-r", path, *GUESSES, "-Y", "infiniband && _ws.expert.severity == error",
                            "-T", "fields", "-E", "aggregator=;", "-e", "frame.number", "-e", "_ws.expert.message",
                            "-e", "frame.protocols", "-e", "infiniband.bth.opcode", "-e", "frame.len"],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    return {int(line.split("\t")[0]): line for line in lines
            if set(line.split("\t")[1].split(";")) - {"Illegal checksum value (0)"}}


def wrong_icrc_noticed(frame):
    bad, udp = bytearray(frame), 34 if frame[12:14] == b"\x08\x00" else 54
    bad[udp + 8 + 9] ^= 1  # the first byte of the PSN
    computed, carried = icrc(bytes(bad))
    return computed != carried


def too_short(frame):
    """Returns a frame whose header is truncated."""
    udp = 34 if frame[12:14] == b"\x08\x00" else 54
    short = bytearray(frame[:udp + 8 + 12 + 4])
    short[udp + 8] = 0x14  # fetch-and-add, without its header
    struct.pack_into(">H", short, udp + 4, len(short) - udp)
    struct.pack_into(">H", short, 16 if udp == 34 else 18, len(short) - 14 if udp == 34 else len(short) - udp)
    return bytes(short)


def main():
    path, least = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    opcodes, wrong, scapy, last, number = collections.Counter(), 0, Scapy(), None, 0
    data = read_pcap(path)
    for number, frame in enumerate(frames(data), 1):
        pair = icrc(frame)
        if pair is None:
            continue
        udp = 34 if frame[12:14] == b"\x08\x00" else 54
        opcodes[frame[udp + 8]] += 1
        if pair[0] != pair[1]:
            wrong += 1
            print(f"frame {number}: ICRC {pair[1]:08x} instead of {pair[0]:08x}")
        scapy.look(number, frame)
        last = frame
    # Prove that bad frames are noticed, with one of each kind.
    if last is None or not wrong_icrc_noticed(last):
        print("no RoCEv2 frames" if last is None else "a wrong ICRC is not noticed")
        return 1
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        short = too_short(last)
        file.write(data + struct.pack("=IIII", 0, 0, len(short), len(short)) + short)
        file.flush()
        complaints = tshark_complaints(file.name)
    if complaints.pop(number + 1, None) is None:
        print("tshark does not complain of a header that ends too early")
        return 1
    print(f"{sum(opcodes.values())} RoCEv2 frames, {wrong} wrong ICRCs, {scapy.summary()}, {len(complaints)} complaints of tshark; "
          + ", ".join(f"0x{o:02x}: {n}" for o, n in sorted(opcodes.items())))
    for line in list(complaints.values())[:10]:
        print("tshark:", line)
    if sum(opcodes.values()) < least:
        print(f"fewer than {least} RoCEv2 frames: the capture missed the traffic")
        return 1
    return 1 if wrong or scapy.wrong or complaints else 0


if __name__ == "__main__":
    sys.exit(main())

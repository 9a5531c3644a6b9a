#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_capture.py FILE [LEAST]: looks through a capture, of at least so many frames, with eyes that are not ours.

Every RoCEv2 frame must dissect in tshark without an error, and its ICRC must be
right by zlib's CRC-32.  tshark guesses at the payload of small SENDs and then
calls the payload malformed: only what it says of the InfiniBand layers counts.
"""
import collections
import struct
import subprocess
import sys
import zlib


def frames(path):
    """The frames of a pcap or pcapng file, by tshark's own reader converted to pcap."""
    data = subprocess.run(["tshark", "-r", path, "-F", "pcap", "-w", "-"], capture_output=True, check=True).stdout
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        have = struct.unpack(order + "IIII", data[at:at + 16])[2]
        yield data[at + 16:at + 16 + have]
        at += 16 + have


def icrc(frame):
    """(computed, carried) of a RoCEv2 frame; None for another."""
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


def main():
    path, least = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    opcodes, wrong = collections.Counter(), 0
    for number, frame in enumerate(frames(path), 1):
        pair = icrc(frame)
        if pair is None:
            continue
        udp = 34 if frame[12:14] == b"\x08\x00" else 54
        opcodes[frame[udp + 8]] += 1
        if pair[0] != pair[1]:
            wrong += 1
            print(f"frame {number}: ICRC {pair[1]:08x} instead of {pair[0]:08x}")
    # A dissector's complaint of an InfiniBand header; not of what it takes the payload for.
    text = subprocess.run(["tshark", "-r", path, "-Y",
                           "infiniband && (infiniband.invariant.crc.status == 0 || _ws.expert.severity == error) && "
                           "!(_ws.malformed && infiniband.payload)",
                           "-T", "fields", "-e", "frame.number", "-e", "_ws.expert.message"],
                          capture_output=True, text=True).stdout
    complaints = text.splitlines()
    print(f"{sum(opcodes.values())} RoCEv2 frames, {wrong} wrong ICRCs, {len(complaints)} complaints of tshark; "
          + ", ".join(f"0x{o:02x}: {n}" for o, n in sorted(opcodes.items())))
    for line in complaints[:10]:
        print("tshark:", line)
    if sum(opcodes.values()) < least:
        print(f"fewer than {least} RoCEv2 frames: the capture missed the traffic")
        return 1
    return 1 if wrong or complaints else 0


if __name__ == "__main__":
    sys.exit(main())

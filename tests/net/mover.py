# SPDX-License-Identifier: BSD-3-Clause
# Moves every queue pair of a data plane to the next polling core, again and again, until SIGTERM or the data plane's end;
# then prints how many moves the data plane has accepted, and how many it has made.  Prints "moving" after the first round.
#   mover.py CONTROL-SOCKET
#   mover.py CONTROL-SOCKET CORE    moves all to this core, once
import json
import signal
import socket
import sys
import time


class Gone(Exception):
    pass


class Plane:
    def __init__(self, path):
        self.accepted = self.made = 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.path = path

    def ask(self, **request):
        try:
            self.socket.send(json.dumps(request).encode())
            answer = self.socket.recv(1 << 17)
        except ConnectionError:
            answer = b""
        if not answer:
            raise Gone
        return json.loads(answer)

    def connect(self):
        try:
            self.socket.connect(self.path)
        except OSError:
            raise Gone from None

    def move_all(self, to=None):
        counts = self.ask(command="show", what="cores")["cores"]
        cores = [core["core"] for core in counts]
        self.made = sum(core["moves"] for core in counts)
        page = {}
        while page is not None:
            answer = self.ask(command="show", what="endpoints", **page)
            for endpoint in answer.get("endpoints", []):
                if "core" not in endpoint:  # not connected yet
                    continue
                after = to or cores[(cores.index(endpoint["core"]) + 1) % len(cores)]
                self.accepted += "done" in self.ask(command="move", qp=int(endpoint["qpn"], 16), core=after)
            page = {"from": answer["next"]} if "next" in answer else None


def main():
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    plane = Plane(sys.argv[1])
    try:
        plane.connect()
        if len(sys.argv) > 2:
            plane.move_all(int(sys.argv[2]))
            return
        plane.move_all()
        print("moving", flush=True)
        while not ended:
            time.sleep(0.001)
            plane.move_all()
    except Gone:
        pass
    print(f"{plane.accepted} accepted, {plane.made} made", flush=True)


main()

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two data planes start over memif. SIGTERM and Ctrl-C end them, other common signals do not. A second data plane on the same
# socket is refused; leftovers of a killed one do not block the next. The socket's directory is created.
. "$(dirname "$0")/lib.sh"
net_init

# refused_on NAME: fails unless a second data plane with the socket of NAME refuses to start.
refused_on() {
	# shellcheck disable=SC2046
	"$DATAPLANE" $(plane_cores 0) $(eal_options other) --vdev=net_ring0 -- \
		--socket "$(plane_socket "$1")" --port name=p0,device=net_ring0,address=192.0.2.9/24 \
		>"$WORK/refused" 2>&1 && fail "a second data plane starts on one socket"
	expect "socket $(plane_socket "$1"): a data plane runs there already" "$WORK/refused"
}

PLANE_MEMORY="$PLANE_MEMORY --log-level=pmd.net.memif:debug"
start_memif_pair
say "both data planes serve"
[ -S "$(plane_socket a)" ] && [ -S "$(plane_socket b)" ] || fail "a socket is missing"
expect 'port p0: 192.0.2.1/24, MTU 4200, path MTU 4096' "$(plane_log a)"

# The memif client must not disconnect during its first handshake.
until grep -q 'the link is up' "$(plane_log a)" && grep -q 'the link is up' "$(plane_log b)"; do
	kill -0 "$(plane_pid a)" "$(plane_pid b)" 2>/dev/null || fail "a data plane is gone"
	sleep 0.1
done
[ "$(grep -c 'Connection request accepted' "$(plane_log a)")" = 1 ] || fail "the cable was connected more than once"
say "the cable is up at its first connection"

# A client disconnects before the stopped server greets it; the server must survive its answer.
kill -STOP "$(plane_pid a)"
python3 - "$WORK/cable" <<'PYTHON' || fail "the cable's socket takes no connection"
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
    s.connect(sys.argv[1])
PYTHON
kill -CONT "$(plane_pid a)"
until [ "$(grep -c 'Connection request accepted' "$(plane_log a)")" = 2 ]; do
	kill -0 "$(plane_pid a)" 2>/dev/null || fail "it does not take the connection, or is gone"
	sleep 0.1
done
"$BUILD/tests/net/net-dat-transfer" "$(plane_socket a)" "$(plane_socket b)" send >"$WORK/out" 2>&1 || {
	cat "$WORK/out" >&2
	fail "after a connection to the cable that came and went"
}
say "a connection to the cable that comes and goes does no harm"

refused_on a
kill -0 "$(plane_pid a)" || fail "the refused one ended the first"
[ -S "$(plane_socket a)" ] || fail "the refused one removed the socket"
say "a second one on the same socket is refused"

for signal in USR1 USR2 ALRM IO PIPE HUP; do
	kill -"$signal" "$(plane_pid a)"
done
until grep -q 'event=changed command=reload text="nothing has changed"' "$(plane_log a)"; do
	kill -0 "$(plane_pid a)" 2>/dev/null || fail "it does not say what SIGHUP does, or is gone"
	sleep 0.1
done
"$BUILD/tests/net/net-dat-ia" "$(plane_socket a)" "$(plane_socket a)" >"$WORK/out" 2>&1 || {
	cat "$WORK/out" >&2
	fail "after SIGHUP applications are not served"
}
say "SIGHUP and those that are ignored do not end it"

stop_plane a
say "SIGTERM: status 0, socket removed"
pid=$(plane_pid b)
kill -INT "$pid"
wait "$pid" || fail "after SIGINT: status $?"
unset "PLANE_PID[b]"
[ ! -e "$(plane_socket b)" ] || fail "SIGINT leaves the socket"
say "SIGINT: status 0, socket removed"

start_memif_plane a
kill_plane a
[ -S "$(plane_socket a)" ] || fail "kill -9 should leave the socket"
start_memif_plane a
say "a stale socket is replaced, and so is the stale end of the cable"
stop_plane a

# DPDK's memif listens until the process has ended: clients connect and disconnect all the while.
memif_device() { printf -- '--vdev=net_memif0,role=%s,id=0,socket=%s/abstract,bsize=%s' "$1" "$WORK" "$CABLE_BUFFER"; }
start_memif_plane a
python3 - "$WORK/abstract" >"$WORK/clients" 2>&1 <<'PYTHON' &
import socket, struct, sys
INIT = struct.pack("<HHIB24s32s", 2, 2 << 8, 0, 0, b"", b"client").ljust(128, b"\0")  # memif version 2.0, interface id 0
connected = False
while True:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        try:
            s.connect("\0" + sys.argv[1])
            s.recv(128)
            s.send(INIT)
            s.recv(128)
        except OSError as error:
            if connected and isinstance(error, ConnectionRefusedError):
                break
            continue
        if not connected:
            print("connected", flush=True)
        connected = True
PYTHON
clients=$!
APPLICATIONS+=("$clients")
until grep -q connected "$WORK/clients"; do
	kill -0 "$clients" 2>/dev/null || fail "no client: $(cat "$WORK/clients")"
	sleep 0.05
done
stop_plane a
wait "$clients" || fail "the client of the cable: $(cat "$WORK/clients")"
say "clients that come and go while it ends do no harm"

# The data plane must not remove a file that is not a socket.
echo precious >"$(plane_socket c)"
# shellcheck disable=SC2046
"$DATAPLANE" $(plane_cores 0) $(eal_options c) --vdev=net_ring0 -- \
	--socket "$(plane_socket c)" --port name=p0,address=192.0.2.9/24 >"$WORK/refused" 2>&1 &&
	fail "a data plane starts over a file"
[ "$(cat "$(plane_socket c)")" = precious ] || fail "a file in the socket's place was removed"
expect "$(plane_socket c)" "$WORK/refused"
say "a file in the socket's place is kept and named"

# Only the socket's directory is created, not its parents, with mode 0755 regardless of the umask.
plane_socket() { printf '%s/made/%s.sock' "$WORK" "$1"; }
umask 077
start_memif_plane a
umask 022
[ -S "$(plane_socket a)" ] || fail "no socket in a directory that was not there"
[ "$(stat -c %a "$WORK/made")" = 755 ] || fail "the directory has mode $(stat -c %a "$WORK/made")"
stop_plane a
plane_socket() { printf '%s/not/there/%s.sock' "$WORK" "$1"; }
# shellcheck disable=SC2046
"$DATAPLANE" $(plane_cores 0) $(eal_options d) --vdev=net_ring0 -- \
	--socket "$(plane_socket d)" --port name=p0,device=net_ring0,address=192.0.2.9/24 >"$WORK/refused" 2>&1 &&
	fail "a data plane starts without a directory for its socket"
expect "cannot create directory $WORK/not/there" "$WORK/refused"
say "the socket's directory is made, and named where it cannot be"

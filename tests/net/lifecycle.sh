#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two data planes start over memif; end by SIGTERM and Ctrl-C; a second one on the same socket is
# refused; what a killed one leaves behind does not stop the next.
. "$(dirname "$0")/lib.sh"
net_init

# refused_on NAME: a data plane with that name's socket does not start.
refused_on() {
	# shellcheck disable=SC2046
	timeout 30 "$DATAPLANE" $(plane_cores 0) $(eal_options other) --vdev=net_ring0 -- \
		--socket "$(plane_socket "$1")" --port name=p0,device=net_ring0,address=192.0.2.9/24 \
		>"$WORK/refused" 2>&1 && fail "a second data plane starts on one socket"
	expect "socket $(plane_socket "$1"): a data plane runs there already" "$WORK/refused"
}

PLANE_MEMORY="$PLANE_MEMORY --log-level=pmd.net.memif:debug"
start_memif_pair
say "both data planes serve"
[ -S "$(plane_socket a)" ] && [ -S "$(plane_socket b)" ] || fail "a socket is missing"
expect 'port p0: 192.0.2.1/24, MTU 4200, path MTU 4096' "$(plane_log a)"

# The client does not hang up in the middle of its first handshake.
tenths=100
until grep -q 'the link is up' "$(plane_log a)" && grep -q 'the link is up' "$(plane_log b)"; do
	[ "$tenths" -gt 0 ] || fail "the cable is not up within 10 seconds"
	sleep 0.1
	tenths=$((tenths - 1))
done
[ "$(grep -c 'Connection request accepted' "$(plane_log a)")" = 1 ] || fail "the cable was connected more than once"
say "the cable is up at its first connection"

refused_on a
kill -0 "$(plane_pid a)" || fail "the refused one ended the first"
[ -S "$(plane_socket a)" ] || fail "the refused one removed the socket"
say "a second one on the same socket is refused"

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

# Another file that is in the way is not ours to remove.
echo precious >"$(plane_socket c)"
# shellcheck disable=SC2046
timeout 30 "$DATAPLANE" $(plane_cores 0) $(eal_options c) --vdev=net_ring0 -- \
	--socket "$(plane_socket c)" --port name=p0,address=192.0.2.9/24 >"$WORK/refused" 2>&1 &&
	fail "a data plane starts over a file"
[ "$(cat "$(plane_socket c)")" = precious ] || fail "a file in the socket's place was removed"
expect "$(plane_socket c)" "$WORK/refused"
say "a file in the socket's place is kept and named"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Invalid values of the libraries' environment variables are reported, and the defaults apply. A connection request of a
# peer off the link, to a port without a gateway, is logged.
. "$(dirname "$0")/lib.sh"
net_init
PERF=${PERF:-$BUILD/perf/oneside-perf}
[ -x "$PERF" ] || skip "there is no oneside-perf (-Dperf=false)"
start_memif_plane a

ONESIDE_SPIN_US=soon ONESIDE_REGISTRATION_CACHE=much \
	"$BUILD/tests/net/net-dat-transfer" "$(plane_socket a)" "$(plane_socket a)" send >"$WORK/out" 2>&1 ||
	fail "bad values of variables end a program: $(cat "$WORK/out")"
expect 'ONESIDE_SPIN_US = soon: not a number of microseconds; using ' "$WORK/out"
expect 'ONESIDE_REGISTRATION_CACHE = much: this is not a size; write bytes, as in 512M' "$WORK/out"
say "bad values of variables are reported"

# shellcheck disable=SC2046 # words are wanted
start_plane b $(plane_cores 2) $(eal_options b) "$(memif_device client)" -- --node 2 --idle "$(plane_idle)" \
	--port "name=p0,device=net_memif0,address=198.51.100.2/24,gateway=192.0.2.1,mtu=$CABLE_MTU"
: >"$WORK/server"
ONESIDE_SOCKET=$(plane_socket a) "$PERF" --once 2>"$WORK/server" &
APPLICATIONS+=($!)
until grep -q 'serving on' "$WORK/server"; do
	kill -0 "${APPLICATIONS[0]}" 2>/dev/null || fail "a server: $(cat "$WORK/server")"
	sleep 0.05
done
ONESIDE_SOCKET=$(plane_socket b) "$PERF" -t write_lat -n 1 192.0.2.1 >"$WORK/out" 2>&1 &
APPLICATIONS+=($!)
until grep -q event=no_route "$(plane_log a)"; do
	kill -0 "${APPLICATIONS[1]}" 2>/dev/null || fail "the connection has ended: $(cat "$WORK/out")"
	sleep 0.05
done
expect 'event=no_route port=p0 peer=198.51.100.2 ' "$(plane_log a)"
expect 'remedy="give the port a gateway"' "$(plane_log a)"
say "a peer that cannot be answered without a gateway is logged"
kill "${APPLICATIONS[@]}" 2>/dev/null
wait "${APPLICATIONS[@]}" 2>/dev/null
APPLICATIONS=()
stop_plane a
stop_plane b

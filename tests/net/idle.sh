#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Sleeping data planes use next to no processor time, and arriving work wakes them.
#
#   idle.sh memif|veth

. "$(dirname "$0")/lib.sh"
net_init
RATES=$BUILD/perf/oneside-rates
[ -x "$RATES" ] || skip "oneside-rates is not built (-Dperf=true)"

# The test bounds how often threads wake, which depends on the data plane; the cost of a wake-up depends on the machine
# (perf/compare measures it). memif wakes no thread: after a third of a second without work it is polled every 5 ms. A
# thread that spins rarely wakes, so the test also bounds the processor time, far from both cases.
quiet() { # WHEN
	local line wakes
	"$RATES" -t idle_cpu -D 1 --pid "$(plane_pid a)" --pid "$(plane_pid b)" --json >"$WORK/cpu" ||
		fail "idle_cpu"
	while read -r line; do
		wakes=$(sed -n 's/.*"wakes_per_s":\([0-9]*\).*/\1/p' <<<"$line")
		[ "$wakes" -le "$WAKES" ] || fail "$1: more than $WAKES wakes a second: $line"
		[ "$(sed -n 's/.*"percent":\([0-9]*\)\..*/\1/p' <<<"$line")" -lt 20 ] || fail "$1: spins: $line"
		say "$1: $line"
	done <"$WORK/cpu"
}

# Half of the writes must complete well before a sleeping core polls by itself (100 ms), even on a loaded machine.
answers() { # WHEN
	local p50
	: >"$WORK/server"
	ONESIDE_SOCKET=$(plane_socket b) "$RATES" --once >"$WORK/server" 2>&1 &
	APPLICATIONS+=($!)
	until grep -q serving "$WORK/server"; do
		kill -0 "${APPLICATIONS[-1]}" 2>/dev/null || fail "no server: $(cat "$WORK/server")"
		sleep 0.1
	done
	ONESIDE_SOCKET=$(plane_socket a) "$RATES" -t wake_lat -n 30 --pause 30000 --json 192.0.2.2 >"$WORK/lat" ||
		fail "$1: wake_lat"
	p50=$(sed -n 's/.*"p50":\([0-9]*\).*/\1/p' "$WORK/lat")
	[ "$p50" -lt 30000000 ] || fail "$1: $(cat "$WORK/lat")"
	say "$1: a write between two sleepers takes $((p50 / 1000)) us"
}

PLANE_IDLE=sleep
case $1 in
memif)
	WAKES=400
	start_memif_pair
	;;
veth)
	WAKES=100
	start_veth_pair
	;;
*) fail "idle.sh: \"$1\" is neither memif nor veth" ;;
esac
# A driver without interrupts is no error: the core polls its device.
! grep 'Rx Intr handle' "$(plane_log a)" "$(plane_log b)" || fail "DPDK reports an error at a good start"
sleep 7 # until the cable is up and the addresses are claimed: probes, then announcements for four seconds
quiet "at first"
answers "at first"
sleep 1
quiet "after use"
if [ "$1" = memif ]; then
	# The peer restarts with new rings.
	stop_plane b
	start_memif_plane b
	sleep 7 # until the addresses are claimed again
	quiet "with a new peer"
	answers "with a new peer"
fi
stop_plane a
stop_plane b

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Data planes that sleep: they use next to no processor time, and what comes still wakes them.
#
#   idle.sh memif|veth

. "$(dirname "$0")/lib.sh"
net_init
RATES=$BUILD/perf/oneside-rates
[ -x "$RATES" ] || skip "oneside-rates is not built (-Dperf=true)"

# What is bounded is how often threads wake, which is the data plane's own; what a wake costs is the machine's
# (perf/compare has it).  memif wakes nobody: it is looked at every 5 ms after a third of a second.  A thread that
# spins wakes seldom, so the time is bounded, too, far from both.
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

# Half of the writes well before a core that sleeps looks by itself (100 ms), however loaded the machine is.
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
sleep 7 # the cable is up, and the addresses are claimed: probes, and announcements until four seconds later
quiet "at first"
answers "at first"
sleep 1
quiet "after use"
if [ "$1" = memif ]; then
	# The far end comes back with other rings.
	stop_plane b
	start_memif_plane b
	sleep 7 # as above
	quiet "with a new far end"
	answers "with a new far end"
fi
stop_plane a
stop_plane b

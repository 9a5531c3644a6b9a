#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   interop.sh CASE...       uDAPL programs of ours against unmodified verbs programs in a guest
#
# CASES: rping perftest wide6 operations.  The test is skipped where a guest cannot run.
. "$(dirname "$0")/guest.sh"
net_init
interop_init
make_bridge
start_guest

ENOUGH=360 # seconds, after which no further case begins: slowness is no failure
PERFTEST=-F\ -R\ -d\ rxe0

rping_both() { # NAME OUR-ADDRESS GUEST-ADDRESS OPTIONS...
	local name=$1 ours=$2 theirs=$3
	shift 3
	we_serve "$name $*" "$PROGRAMS/udapl-rping" -s -V "$@" -- rping -c -a "$ours" -V "$@"
	we_connect "$name $*" "$PROGRAMS/udapl-rping" -c "$theirs" -V "$@" -- rping -s -a "$theirs" -V "$@"
}

perftest_both() { # TEST OPTIONS...
	local test=$1
	shift
	we_serve "ib_$test $*" "$PROGRAMS/udapl-perftest" "$test" "$@" -- "ib_$test" "$PERFTEST" "$@" 192.0.2.1
	we_connect "ib_$test $*" "$PROGRAMS/udapl-perftest" "$test" -c 192.0.2.10 "$@" -- "ib_$test" "$PERFTEST" "$@"
}

case_rping() {
	local size
	start_interop_plane 4 1500
	for size in 64 1000 1024 1025 4096 65535; do
		rping_both rping 192.0.2.1 192.0.2.10 -C 5 -S "$size"
	done
	rping_both rping 192.0.2.1 192.0.2.10 -C 200
	stop_plane a
}

case_perftest() {
	start_interop_plane 4 1500
	perftest_both write_bw -s 4096 -n 200
	perftest_both write_bw -s 65536 -n 20
	perftest_both read_bw -s 4096 -n 100
	perftest_both read_bw -s 10001 -n 20
	perftest_both send_bw -s 4096 -n 200
	perftest_both send_bw -s 1 -n 100
	perftest_both write_lat -s 8 -n 100
	stop_plane a
}

# Path MTU 4096, and IPv6 (of which perftest knows nothing).
case_wide6() {
	start_interop_plane 6 "$CABLE_MTU"
	rping_both "rping over IPv6" 2001:db8::1 2001:db8::10 -C 5 -S 64
	rping_both "rping over IPv6" 2001:db8::1 2001:db8::10 -C 5 -S 16385
	stop_plane a
	start_interop_plane 4 "$CABLE_MTU"
	perftest_both write_bw -s 65536 -n 20
	perftest_both read_bw -s 65537 -n 10
	perftest_both send_bw -s 8193 -n 50
	stop_plane a
}

# What the packaged programs never do, with the errors.
case_operations() {
	[ -x "$PROGRAMS/verbs-operations" ] || {
		say "There is no verbs-operations (install libibverbs-dev and librdmacm-dev): case operations is left out"
		return
	}
	start_interop_plane 4 1500
	we_serve operations "$PROGRAMS/udapl-operations" serve -- verbs-operations connect 192.0.2.1
	we_connect operations "$PROGRAMS/udapl-operations" connect 192.0.2.10 -- verbs-operations serve
	stop_plane a
}

for name in "$@"; do
	if [ "$SECONDS" -gt "$ENOUGH" ]; then
		say "This machine is slow: case $name is left out, and what follows it"
		break
	fi
	start_capture "$name" "$SWITCH" port0 # the data plane's side of the cable does not show what it sends
	"case_$name"
	stop_capture "$name"
	python3 "$(dirname "$0")/../net/check_capture.py" "$WORK/$name.pcap" || fail "the capture of $name"
done
stop_guest

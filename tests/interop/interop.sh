#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   interop.sh CASE...       uDAPL programs of ours against unmodified verbs programs in a guest
#
# CASES: rping perftest wide6 operations rnr loss cm disorder vanish.  The test is skipped where a guest cannot run.
. "$(dirname "$0")/guest.sh"
net_init
interop_init
make_bridge
start_guest

ENOUGH=300 # seconds, after which no further case begins: slowness is no failure
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

# What the packaged programs never do, with the errors.
operations_both() { # 1.2|2.0 OUR-ADDRESS GUEST-ADDRESS [NAME...]
	local version=$1 ours=$2 theirs=$3
	local -a program=("$PROGRAMS/udapl-operations")
	shift 3
	[ "$version" = 1.2 ] || program=(env "DAT_OVERRIDE=$WORK/dat2.conf" "$PROGRAMS/udapl2-operations")
	we_serve "uDAPL $version: ${*:-operations}" "${program[@]}" serve -- verbs-operations connect "$ours" "$version" "$@"
	we_connect "uDAPL $version: ${*:-operations}" "${program[@]}" connect "$theirs" "$@" -- verbs-operations serve
}

case_rping() {
	local size
	start_interop_plane 4 1500
	for size in 64 1024 1025 65535; do
		rping_both rping 192.0.2.1 192.0.2.10 -C 5 -S "$size"
	done
	rping_both rping 192.0.2.1 192.0.2.10 -C 50
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
	operations_both 2.0 2001:db8::1 2001:db8::10
	stop_plane a
	start_interop_plane 4 "$CABLE_MTU"
	perftest_both write_bw -s 65536 -n 20
	perftest_both read_bw -s 65537 -n 10
	perftest_both send_bw -s 8193 -n 50
	stop_plane a
}

# RNR retries that run out at the guest: a port says how many it grants.
case_rnr() {
	start_interop_plane 4 1500 rnr_retry=3
	operations_both 1.2 192.0.2.1 192.0.2.10 SEND without a receive
	stop_plane a
	start_interop_plane 6 "$CABLE_MTU" rnr_retry=0
	operations_both 2.0 2001:db8::1 2001:db8::10 SEND without a receive
	stop_plane a
}

case_operations() {
	start_interop_plane 4 1500
	operations_both 1.2 192.0.2.1 192.0.2.10
	operations_both 2.0 192.0.2.1 192.0.2.10
	stop_plane a
}

# What the bridge loses, by opcode; rping looks at every byte, and its server WRITEs and READs, so that
# each role has each loss.
ROLES='serve connect'

lose() { # NAME OPTIONS... -- RULE...
	local name=$1 rule role
	local -a options=() rules=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	rules=("$@")
	for role in $ROLES; do
		for rule in "${rules[@]}"; do
			# shellcheck disable=SC2086 # words are wanted
			drop_frames udp dport 4791 $rule
		done
		if [ $role = serve ]; then
			we_serve "rping, $name" "$PROGRAMS/udapl-rping" -s -V "${options[@]}" -- rping -c -a 192.0.2.1 -V "${options[@]}"
		else
			we_connect "rping, $name" "$PROGRAMS/udapl-rping" -c 192.0.2.10 -V "${options[@]}" -- rping -s -a 192.0.2.10 -V "${options[@]}"
		fi
		keep_frames "${#rules[@]}"
	done
}

OPCODE=@th,64,8     # of the base transport header, behind that of UDP
ATTRIBUTE=@th,352,16 # of the management datagram behind it
SOME='numgen inc mod 7 == 3'
FIRST='numgen inc mod 10000 == 0'

case_loss() {
	start_interop_plane 4 1500
	lose "WRITE first, middle, last lost" -C 20 -S 3000 -- "$OPCODE 0x06 $SOME" "$OPCODE 0x07 $SOME" "$OPCODE 0x08 $SOME"
	lose "READ requests lost" -C 20 -S 3000 -- "$OPCODE 0x0c $SOME"
	lose "READ responses lost" -C 20 -S 3000 -- "$OPCODE 0x0d $SOME" "$OPCODE 0x0e $SOME" "$OPCODE 0x0f $SOME"
	lose "SEND lost" -C 10 -S 64 -- "$OPCODE 0x04 $SOME"
	lose "ACK lost" -C 10 -S 64 -- "$OPCODE 0x11 $SOME"
	stop_plane a
}

case_cm() {
	start_interop_plane 4 1500
	lose "the first REQ, REP, RTU lost" -C 3 -S 64 -- "$OPCODE 0x64 $ATTRIBUTE 0x10 $FIRST" \
		"$OPCODE 0x64 $ATTRIBUTE 0x13 $FIRST" "$OPCODE 0x64 $ATTRIBUTE 0x14 $FIRST"
	# Ours only: Linux does not repeat the DREQ of a program that ends.
	ROLES=connect lose "the first DREQ lost" -C 3 -S 64 -- "$OPCODE 0x64 $ATTRIBUTE 0x15 $FIRST"
	stop_plane a
}

# The guest's frames come twice, or overtake each other.
case_disorder() {
	start_interop_plane 4 1500
	guest /usr/bin/tc qdisc replace dev eth0 root netem duplicate 30% || fail "the guest has no netem"
	rping_both "rping, frames twice:" 192.0.2.1 192.0.2.10 -C 20 -S 3000
	guest /usr/bin/tc qdisc replace dev eth0 root netem delay 3ms reorder 70% 50% || fail "the guest has no netem"
	rping_both "rping, frames overtake:" 192.0.2.1 192.0.2.10 -C 20 -S 3000
	guest /usr/bin/tc qdisc del dev eth0 root || fail "netem stays"
	stop_plane a
}

# The guest vanishes in mid-transfer, and comes back.
case_vanish() {
	local pid since
	start_interop_plane 4 1500
	guest_begin talk ib_write_bw "$PERFTEST" -s 65536 -n 1000000
	udapl "$PROGRAMS/udapl-perftest" write_bw -c 192.0.2.10 -s 65536 -n 1000000 >"$WORK/ours.log" 2>&1 &
	pid=$!
	APPLICATIONS+=("$pid")
	# The transfer runs when WRITEs cross the bridge.
	drop_frames udp dport 4791 $OPCODE 0x07 numgen inc mod 1000 == 999
	until [ "$(dropped)" -gt 0 ]; do
		kill -0 "$pid" 2>/dev/null || fail "the transfer ended: $(cat "$WORK/ours.log")"
		sleep 0.2
	done
	since=$SECONDS
	kill_guest
	wait "$pid" && fail "the transfer to nobody succeeded"
	# DAT_DTO_ERR_TRANSPORT
	expect "with status 8" "$WORK/ours.log"
	say "ok   the guest vanished: broken after $((SECONDS - since)) seconds"
	keep_frames 1
	start_guest
	guest ip link set eth0 mtu 1500
	rping_both "rping, the guest is back:" 192.0.2.1 192.0.2.10 -C 5 -S 3000
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
	python3 "$(dirname "$0")/../net/check_capture.py" "$WORK/$name.pcap" 50 || fail "the capture of $name"
done
stop_guest

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   interop.sh CASE...       tests our uDAPL programs against unmodified verbs programs in a guest
#
# CASE: one of the functions case_* without the prefix. The test is skipped if the machine cannot run a guest.
HERE=$(dirname "$0")
. "$HERE/guest.sh"
. "$HERE/dapl2.sh"
. "$HERE/verbs.sh"
net_init
interop_init
make_bridge
start_guest

ENOUGH=${ENOUGH:-250} # seconds after which no further case begins: slowness is no failure
PERFTEST='-F -R -d rxe0'
ROLES='serve connect'

# talk NAME PROGRAM OPTIONS...: runs a conversation in each of ROLES: serve: the host's program listens; connect: the
# guest's does. PROGRAM: rping; write_bw, read_bw, send_bw or write_lat of perftest; 1.2 or 2.0: the operations of
# operations.h by that version of uDAPL, with the name of an operation as options (default: all).
talk() {
	local name=$1 program=$2 role test
	local -a ours
	shift 2
	for role in $ROLES; do
		case $program in
		rping)
			# rping's client and server compare every byte.
			if [ "$role" = serve ]; then
				converse serve "$name $*" "$PROGRAMS/udapl-rping" -s -V "$@" -- rping -c -a "$OURS" -V "$@"
			else
				converse connect "$name $*" "$PROGRAMS/udapl-rping" -c "$THEIRS" -V "$@" -- rping -s -a "$THEIRS" -V "$@"
			fi
			;;
		1.2 | 2.0)
			ours=("$PROGRAMS/udapl-operations")
			[ "$program" = 1.2 ] || ours=(env "DAT_OVERRIDE=$WORK/dat2.conf" "$PROGRAMS/udapl2-operations")
			if [ "$role" = serve ]; then
				converse serve "$name $*" "${ours[@]}" serve -- verbs-operations connect "$OURS" "$program" "$@"
			else
				converse connect "$name $*" "${ours[@]}" connect "$THEIRS" "$@" -- verbs-operations serve
			fi
			;;
		*)
			test=$program
			if [ "$role" = serve ]; then
				converse serve "$name $*" "$PROGRAMS/udapl-perftest" "$test" "$@" -- "ib_$test" "$PERFTEST" "$@" "$OURS"
			else
				converse connect "$name $*" "$PROGRAMS/udapl-perftest" "$test" -c "$THEIRS" "$@" -- "ib_$test" "$PERFTEST" "$@"
			fi
			;;
		esac
	done
}

# lose NAME PROGRAM OPTIONS... -- RULE...: runs `talk` while the bridge drops frames by each RULE. Each rule must match in
# each role. A rule that begins with + drops nothing: it must match a frame that follows the loss.
lose() {
	local role rule
	local -a words=() rules=()
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	rules=("$@")
	for role in $ROLES; do
		for rule in "${rules[@]}"; do
			# shellcheck disable=SC2086 # words are wanted
			case $rule in
			+*) await_frames udp dport 4791 ${rule#+} ;;
			*) drop_frames udp dport 4791 $rule ;;
			esac
		done
		ROLES=$role talk "${words[@]}"
		keep_frames "${#rules[@]}"
	done
}

case_rping() {
	local size
	start_interop_plane 4 1500
	for size in 64 1024 1025 65535; do
		talk rping rping -C 5 -S "$size"
	done
	talk rping rping -C 100
	stop_plane a
}

case_perftest() {
	start_interop_plane 4 1500
	talk ib_write_bw write_bw -s 4096 -n 200
	talk ib_write_bw write_bw -s 65536 -n 20
	talk ib_read_bw read_bw -s 4096 -n 100
	talk ib_read_bw read_bw -s 10001 -n 20
	talk ib_send_bw send_bw -s 4096 -n 200
	talk ib_send_bw send_bw -s 1 -n 100
	talk ib_write_lat write_lat -s 8 -n 100
	stop_plane a
}

# Operations that the packaged programs lack, and their errors.
case_operations() {
	start_interop_plane 4 1500
	talk "operations of uDAPL" 1.2
	talk "operations of uDAPL 2.0" 2.0
	stop_plane a
}

# Path MTU 4096, over IPv6 (which perftest does not support) and IPv4.
case_wide() {
	start_interop_plane 6 "$CABLE_MTU"
	talk "IPv6: rping" rping -C 5 -S 64
	talk "IPv6: rping" rping -C 5 -S 16385
	talk "IPv6: operations of uDAPL" 1.2
	talk "IPv6: operations of uDAPL 2.0" 2.0
	lose "IPv6: the first REQ, REP, RTU lost:" rping -C 3 -S 64 -- "$MAD $REQ $FIRST" "$MAD $REP $FIRST" "$MAD $RTU $FIRST"
	lose "IPv6: WRITEs and READ responses lost:" rping -C 10 -S 12289 -- "$OPCODE 0x06 $FIRST" "$OPCODE 0x07 $SOME" \
		"$OPCODE 0x08 $FIRST" "$OPCODE 0x0d $FIRST" "$OPCODE 0x0e $SOME" "$OPCODE 0x0f $FIRST"
	lose "IPv6: SENDs lost:" 2.0 SEND of many packets -- "$OPCODE 0x00 $FIRST" "$OPCODE 0x01 $FIRST" "$OPCODE 0x02 $FIRST"
	stop_plane a
	start_interop_plane 4 "$CABLE_MTU"
	talk ib_write_bw write_bw -s 65536 -n 20
	talk ib_read_bw read_bw -s 65537 -n 10
	talk ib_send_bw send_bw -s 8193 -n 50
	talk ib_write_lat write_lat -s 5000 -n 50
	stop_plane a
}

# RNR retries are exhausted at the guest; the port's rnr_retry grants their number.
case_rnr() {
	start_interop_plane 4 1500 rnr_retry=3
	talk uDAPL 1.2 SEND without a receive
	stop_plane a
	start_interop_plane 6 "$CABLE_MTU" rnr_retry=0
	talk "IPv6: uDAPL" 2.0 SEND without a receive
	stop_plane a
}

OPCODE=@th,64,8            # opcode of the base transport header, after the UDP header
MAD="$OPCODE 0x64 @th,352,16" # SEND of a UD queue pair, and the attribute ID of its management datagram
REQ=0x10 REJ=0x12 REP=0x13 RTU=0x14 DREQ=0x15 DREP=0x16
SOME='numgen inc mod 7 == 3'
RARE='numgen inc mod 251 == 3' # for many packets in flight: retransmissions must not be lost again and again
FIRST='numgen inc mod 10000 == 0'

case_loss() {
	start_interop_plane 4 1500
	lose "WRITE first, middle, last lost:" rping -C 20 -S 3000 -- "$OPCODE 0x06 $SOME" "$OPCODE 0x07 $SOME" "$OPCODE 0x08 $SOME"
	lose "SEND first, middle, last lost:" send_bw -s 3000 -n 300 -- "$OPCODE 0x00 $RARE" "$OPCODE 0x01 $RARE" "$OPCODE 0x02 $RARE"
	lose "READ requests lost:" rping -C 20 -S 3000 -- "$OPCODE 0x0c $SOME"
	lose "READ responses first, middle, last lost:" rping -C 10 -S 3000 -- "$OPCODE 0x0d $SOME" "$OPCODE 0x0e $SOME" "$OPCODE 0x0f $SOME"
	lose "WRITE, SEND, READ response of one packet lost:" rping -C 10 -S 64 -- "$OPCODE 0x0a $SOME" "$OPCODE 0x04 $SOME" "$OPCODE 0x10 $SOME"
	lose "ACK lost:" rping -C 10 -S 64 -- "$OPCODE 0x11 $SOME"
	lose "atomic requests and answers lost:" 2.0 FETCH-ADD, -- "$OPCODE 0x14 $SOME" "$OPCODE 0x12 $SOME"
	lose "atomic requests and answers lost:" 2.0 CMP-SWAP that -- "$OPCODE 0x13 $FIRST" "$OPCODE 0x12 $FIRST"
	stop_plane a
}

# Loss of DREQ and DREP needs our programs and verbs-operations, which wait for the disconnection; rping's client ends before its
# DREQ could be repeated.
case_cm() {
	start_interop_plane 4 1500
	lose "the first REQ, REP, RTU lost:" rping -C 3 -S 64 -- "$MAD $REQ $FIRST" "$MAD $REP $FIRST" "$MAD $RTU $FIRST"
	lose "the first DREQ lost:" 1.2 WRITE of nothing -- "$MAD $DREQ $FIRST" "+$MAD $DREQ" "+$MAD $DREP"
	lose "the first DREP lost:" 1.2 WRITE of nothing -- "$MAD $DREP $FIRST" "+$MAD $DREP"
	lose "the first REJ lost:" 2.0 a request that is rejected -- "$MAD $REJ $FIRST" "+$MAD $REJ"
	stop_plane a
}

# disorder NAME NETEM...: frames from the guest, then frames to it, are duplicated or reordered; the receiver's counters
# must have noticed.
disorder() {
	local name=$1 device
	shift
	for device in eth0 ifb0; do
		guest "/usr/bin/tc qdisc replace dev $device root netem $*" || fail "the guest has no netem"
		DISTURBED=$(disturbed $device)
		talk "$name, $([ $device = eth0 ] && printf "the guest's" || printf ours):" rping -C 20 -S 3000
		[ "$(disturbed $device)" -gt "$DISTURBED" ] || fail "$name: the receiver noticed no disorder"
		guest "/usr/bin/tc qdisc del dev $device root" || fail "netem stays"
	done
}

disturbed() { # eth0|ifb0: prints how many frames came twice or too early so far
	if [ "$1" = eth0 ]; then
		python3 "$HERE/telemetry.py" "$(plane_telemetry a)" /oneside/transport duplicates out_of_sequence drop_response
	else
		guest cat /sys/class/infiniband/rxe0/ports/1/hw_counters/{duplicate_request,out_of_seq_request}
	fi | tr ' ' '\n' | awk '/^[0-9]+$/ {n += $1} END {print n + 0}'
}

case_disorder() {
	start_interop_plane 4 1500
	guest "sh -c 'modprobe ifb numifbs=1 && /usr/bin/ip link set ifb0 up && /usr/bin/tc qdisc add dev eth0 ingress && \
		/usr/bin/tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0'" || fail "the guest has no ifb"
	disorder "frames twice" duplicate 30%
	disorder "frames overtake" delay 3ms reorder 70% 50%
	guest /usr/bin/tc qdisc del dev eth0 ingress || fail "the guest keeps ifb0"
	stop_plane a
}

# vanish NAME RULE COMMAND...: kills the guest when RULE has dropped a frame, while COMMAND runs on the host.
vanish() {
	local name=$1 rule=$2 pid since
	shift 2
	: >"$WORK/ours.log" # discard the output of the previous program
	udapl "$@" >"$WORK/ours.log" 2>&1 &
	pid=$!
	APPLICATIONS+=("$pid")
	# shellcheck disable=SC2086 # words are wanted
	drop_frames udp dport 4791 $rule
	if declare -F begin_in_guest >/dev/null; then
		until grep -q '^listening' "$WORK/ours.log"; do
			kill -0 "$pid" 2>/dev/null || fail "$name: $(cat "$WORK/ours.log")"
			sleep 0.1
		done
		begin_in_guest
	fi
	until [ "$(dropped)" -gt 0 ]; do
		kill -0 "$pid" 2>/dev/null || fail "$name: it ended: $(cat "$WORK/ours.log")"
		sleep 0.2
	done
	since=$SECONDS
	kill_guest
	wait "$pid" && fail "$name: the transfer to a vanished guest succeeded"
	# Status 8 is DAT_DTO_ERR_TRANSPORT, event 0x4006 DAT_CONNECTION_EVENT_BROKEN.
	expect "with status 8" "$WORK/ours.log"
	expect "then connection event 0x4006" "$WORK/ours.log"
	say "ok   $name: broken after $((SECONDS - since)) seconds"
	keep_frames 1
	start_guest
	guest ip link set eth0 mtu 1500
	talk "the guest is back: rping" rping -C 5 -S 3000
}

case_vanish() {
	start_interop_plane 4 1500
	guest_begin talk ib_write_bw "$PERFTEST" -s 65536 -n 1000000
	vanish "the guest vanishes, oneside has connected and WRITEs" "$OPCODE 0x07 numgen inc mod 1000 == 999" \
		"$PROGRAMS/udapl-perftest" write_bw -c "$THEIRS" -s 65536 -n 1000000
	begin_in_guest() { guest_begin talk rping -c -a "$OURS" -V -C 1000000 -S 65535; }
	vanish "the guest vanishes, oneside has accepted and READs" "$OPCODE 0x0d" \
		"$PROGRAMS/udapl-rping" -s -V -S 65535
	stop_plane a
}

# The data plane uses the kernel's AF_XDP sockets instead of packet sockets.
case_xdp() {
	python3 -c 'import socket; socket.socket(44, socket.SOCK_RAW, 0)' 2>/dev/null || {
		leave_out "this kernel has no AF_XDP sockets: case xdp"
		return
	}
	start_interop_plane 4 1500 '' af_xdp
	talk "AF_XDP: rping" rping -C 5 -S 64
	talk "AF_XDP: rping" rping -C 10 -S 65535
	talk "AF_XDP: operations of uDAPL 2.0" 2.0
	stop_plane a
}

# Configures ESP in the guest's kernel, by `ip xfrm` with the same keys.
xfrm() {
	local from to spi key
	{
		printf 'set -e\nmodprobe -a esp4 esp6 xfrm_user gcm ctr ghash_generic sha512_generic drbg seqiv\n'
		while read -r from to spi key; do
			printf "/usr/bin/ip xfrm state add src %s dst %s proto esp spi %s mode transport \
				aead 'rfc4106(gcm(aes))' 0x%s 128 flag esn replay-window 1024\n" "$from" "$to" "$spi" "$(cat "$key")"
		done <<-KEYS
			$OURS $THEIRS 0x1001 $WORK/to-guest.key
			$THEIRS $OURS 0x1002 $WORK/to-us.key
		KEYS
		printf '/usr/bin/ip xfrm policy add src %s dst %s dir out tmpl proto esp mode transport\n' "$THEIRS" "$OURS"
		printf '/usr/bin/ip xfrm policy add src %s dst %s dir in tmpl proto esp mode transport\n' "$OURS" "$THEIRS"
	} >"$GUEST_RUN/xfrm.sh"
	guest sh /host/xfrm.sh || fail "the guest takes no keys"
}

# start_esp_plane 4|6 MTU: starts data plane a, whose traffic with the guest uses ESP.
start_esp_plane() {
	local theirs=192.0.2.10
	[ "$1" = 4 ] || theirs=2001:db8::10
	(umask 077 && openssl rand -hex 36 >"$WORK/to-guest.key" && openssl rand -hex 20 >"$WORK/to-us.key")
	KEYS="0x1001:$WORK/to-guest.key 0x1002:$WORK/to-us.key"
	PLANE_MORE=(--state "$WORK/state"
		"--ipsec=name=guest,address=$theirs,out=0x1001:$WORK/to-guest.key,in=0x1002:$WORK/to-us.key")
	start_interop_plane "$1" "$2"
	PLANE_MORE=()
	xfrm
}

case_esp() {
	start_esp_plane 4 1500
	guest ping -c 3 -s 1000 "$OURS" || fail "no echo by ESP"
	talk "ESP: rping" rping -C 5 -S 64
	talk "ESP: rping" rping -C 5 -S 65535
	talk "ESP: ib_write_bw" write_bw -s 65536 -n 20
	talk "ESP: ib_send_bw" send_bw -s 4096 -n 100
	stop_plane a
}

case_esp6() {
	start_esp_plane 6 3000
	talk "ESP, IPv6: rping" rping -C 5 -S 64
	talk "ESP, IPv6: rping" rping -C 5 -S 16385
	stop_plane a
}

for name in "$@"; do
	KEYS=
	declare -F "case_$name" >/dev/null || fail "there is no case $name"
	[ "$SECONDS" -le "$ENOUGH" ] || skip "this machine is slow: case $name is left out, and what follows it"
	began=$SECONDS
	start_capture "$name" "$SWITCH" port0 # at the data plane's end a capture would lack the frames that it sends
	"case_$name"
	stop_capture "$name"
	# shellcheck disable=SC2086 # words are wanted
	[ -z "$KEYS" ] || {
		/usr/bin/python3 -B "$HERE/../net/esp_decrypt.py" "$WORK/$name.pcap" "$WORK/opened.pcap" $KEYS || fail "ESP of $name"
		mv "$WORK/opened.pcap" "$WORK/$name.pcap"
	}
	/usr/bin/python3 "$HERE/../net/check_capture.py" "$WORK/$name.pcap" 50 || fail "the capture of $name"
	say "     case $name: $((SECONDS - began)) seconds"
done
stop_guest

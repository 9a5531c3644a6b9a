#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   takeover.sh [N]    N new data planes (default 10) take over one after the other (doc/upgrade.md), while rping -V and
#                      ib_write_bw run between it and a guest with Soft-RoCE, in both directions at once
#
# All programs are unmodified. ib_write_bw connects over TCP, since it then has perftest's and Soft-RoCE's defaults on both
# sides: 7 retries, 67 ms each. The RDMA CM, by which rping connects, allows more time.
HERE=$(dirname "$0")
. "$HERE/guest.sh"
. "$HERE/dapl2.sh"
. "$HERE/verbs.sh"
. "$HERE/../net/upgrade_lib.sh"
LIMIT=400
net_init
interop_init
make_bridge
start_guest
start_interop_plane 4 1500
verbs_init
guest ping -c 3 "$OURS" || fail "no echo"

declare -A CLIENT_PID=() PROGRESS=() # by the names of programs; PROGRESS: a text that a program repeats

# start NAME serve|connect cm|PORT PROGRESS SERVER CLIENT: starts both programs as verbs_once does.
start() {
	local name=$1 role=$2 how=$3 server=$5 client=$6 address=$THEIRS
	local HERE_LOG=$WORK/$name.log
	PROGRESS[$name]=$4
	if [ "$role" = serve ]; then
		address=$OURS
		[ "$how" = cm ] || address=$MEETING
		# shellcheck disable=SC2046 # words are wanted
		here "$VERBS_RUN" --socket "$(plane_socket a)" $(verbs_words "$address" 0 "$server")
		await_listener here "$how"
		there "$name" "stdbuf -oL $(verbs_words "$address" $GUEST_GID "$client")"
	else
		there "$name" "$(verbs_words "$address" $GUEST_GID "$server")"
		await_listener there "$how" "$name"
		# shellcheck disable=SC2046
		here "$VERBS_RUN" --socket "$(plane_socket a)" $(verbs_words "$address" 0 "$client")
	fi
	CLIENT_PID[$name]=$HERE_PID
}

going_on() {
	local name
	for name in "${!CLIENT_PID[@]}"; do
		alive "${CLIENT_PID[$name]}" && [ ! -e "$GUEST_RUN/jobs/$name.rc" ] && continue
		[ -z "${CAPTURE_PID[cable]:-}" ] || stop_capture cable
		fail "$name has ended: $(show_frames; tail -n 5 "$WORK/$name.log"; guest_output "$name" | tail -n 5)"
	done
}

# Prints the frames before the last negative acknowledgement that is no sequence error. Once in some hundred upgrades on a busy
# machine Soft-RoCE's ib_write_bw ended by "invalid request" (status 9); it is not known whose fault that is.
show_frames() {
	local file nak
	for file in "$WORK"/cable_*.pcap; do
		nak=$(tshark -r "$file" -Y 'infiniband.aeth.syndrome >= 0x61 && infiniband.aeth.syndrome <= 0x63' -T fields -e frame.number 2>/dev/null | tail -n 1)
		[ -z "$nak" ] || tshark -r "$file" -Y "frame.number > $((nak - 150)) && frame.number <= $((nak + 5))" -t e -T fields -e frame.time_epoch \
			-e ip.src -e infiniband.bth.destqp -e infiniband.bth.opcode -e infiniband.bth.psn -e infiniband.reth.dmalen \
			-e infiniband.aeth.syndrome -e frame.len 2>/dev/null
	done
}

progress() { { cat "$WORK/$1.log"; guest_output "$1"; } | grep -c "${PROGRESS[$1]}"; } # NAME

# await_progress N: waits until each program has printed N lines more.
await_progress() {
	local name
	local -A want=()
	for name in "${!PROGRESS[@]}"; do
		want[$name]=$(($(progress "$name") + $1))
	done
	for name in "${!PROGRESS[@]}"; do
		until [ "$(progress "$name")" -ge "${want[$name]}" ]; do
			going_on
			sleep 0.1
		done
	done
}

# rping prints each ping, perftest's client a line each second.
start write-to-guest connect 18516 '^ 65536 ' \
	"ib_write_bw -F -x % -p 18516 -D 1 --run_infinitely" "ib_write_bw -F -x % -p 18516 -D 1 --run_infinitely @"
start write-from-guest serve 18517 '^ 65536 ' \
	"ib_write_bw -F -x % -p 18517 -D 1 --run_infinitely" "ib_write_bw -F -x % -p 18517 -D 1 --run_infinitely @"
start ping-to-guest connect cm 'ping data' "rping -s -a @ -V" "rping -c -v -V -a @"
start ping-from-guest serve cm 'ping data' "rping -s -v -V -a @" "rping -c -V -a @"
await_progress 2
start_capture cable "$SWITCH" tap0 -s 100 -b filesize:5000 -b files:3
for ((i = 1; i <= ${1:-10}; i++)); do
	upgrade a "$(basename "$WORK")-a.$((2 - i % 2))" upgrade
	await_progress 2
done
for name in "${!PROGRESS[@]}"; do
	say "ok   $name: $(progress "$name") lines"
done
! grep -hEi 'error|mismatch|fail|flush' "$WORK"/*-guest.log "$GUEST_RUN"/jobs/*-guest.out || fail "a program"
guest sh -c "'cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *retr* *dupl* *seq*'" | tr '\n' ' '
end_upgraded a
kill_guest

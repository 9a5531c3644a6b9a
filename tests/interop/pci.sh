#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   pci.sh NIC [CORES [MTU]]
#                    a data plane in a guest on an emulated PCI device, by vfio-pci and -a as on
#                    hardware, and one outside, exchange data by uDAPL and RSM both ways
#
# CONNECTIONS (64): of one attachment, with two queues; try 1000 by hand.
#
# NIC: e1000e, vmxnet3 or virtio-net-pci; or tap, DPDK's driver of tap devices, whose flow rules the guest's
# kernel implements. CORES: number of polling cores, with one queue each if device and driver have as many.
# Frames arrive at any core with virtio-net-pci (RSS), and always at the first core with e1000e, whose driver has one
# queue, and with vmxnet3, which has no RSS in QEMU. Cores hand frames over to the cores that own them.
. "$(dirname "$0")/pci_lib.sh"
nic=$1 cores=${2:-1} mtu=${3:-1500}
size=4001 # bytes of a message, which needs several frames
[ "$mtu" -le 1500 ] || size=9001
start_pci_planes --in-memory

finish() { # WHAT PID JOB
	local status
	wait "$2"
	status=$?
	guest_end "$3" && [ "$status" = 0 ] || {
		cat "$WORK/ours.log"
		guest_output "$3"
		guest_output plane | tail -n 5
		fail "$1 (ours: $status; load $(cut -d' ' -f1 /proc/loadavg))"
	} >&2
	say "ok   $1: $(tail -n 1 "$WORK/ours.log")"
}

udapl "$PROGRAMS/udapl-rping" -s -V -C 20 -S "$size" >"$WORK/ours.log" 2>&1 &
pid=$!
APPLICATIONS+=("$pid")
inside rping "$PROGRAMS/udapl-rping" -c 192.0.2.1 -V -C 20 -S "$size"
finish "uDAPL from $nic" "$pid" rping

inside rping "$PROGRAMS/udapl-rping" -s -V -C 20 -S "$size"
udapl "$PROGRAMS/udapl-rping" -c 192.0.2.2 -V -C 20 -S "$size" >"$WORK/ours.log" 2>&1 &
pid=$!
APPLICATIONS+=("$pid")
finish "uDAPL to $nic" "$pid" rping

if [ -x "$BUILD/perf/oneside-rsmcopy" ]; then
	head -c 300001 /dev/urandom >"$WORK/file"
	udapl "$BUILD/perf/oneside-rsmcopy" -d p0 receive "$WORK/copy" 300001 >"$WORK/ours.log" 2>&1 &
	pid=$!
	APPLICATIONS+=("$pid")
	inside rsm "$BUILD/perf/oneside-rsmcopy" -d p0 send "$WORK/file" 1 # which waits for the segment
	finish "RSM from $nic" "$pid" rsm
	cmp "$WORK/file" "$WORK/copy" || fail "the copy by RSM differs"
	say "     the copy by RSM is the file"
else
	leave_out "there is no oneside-rsmcopy (-Dperf=false): RSM"
fi
# Succeeds if every core with a queue receives. If RSS chooses the queue by the UDP source port, the peer chooses a port
# that leads to the core of the queue pair (doc/steering.md), and at most 1 % of the frames are handed over. Otherwise some
# frames must have been handed over, which happens by chance, but soon.
spread() {
	local idle
	ask /oneside/cores rx_packets handed_over >"$WORK/spread"
	idle=$(awk '$1 == "rx_packets" {for (i = 2; i <= NF; i++) n += !$i} END {print n + 0}' "$WORK/spread")
	[ "$idle" -le $((cores - queues)) ] || return 1
	[ "$nic" != virtio-net-pci ] || [ "$queues" -lt 2 ] || {
		awk '{n[$1] = $2 + $3} END {exit n["handed_over"] * 100 > n["rx_packets"]}' "$WORK/spread" ||
			fail "frames do not come to the cores that own them: $(cat "$WORK/spread")"
		return 0
	}
	grep -q '^handed_over.* [1-9]' "$WORK/spread"
}
# Succeeds if flow rules steer frames. One application is on the second core. When its frames arrive at the first core,
# the data plane makes a rule, and then they arrive at the second. Without the rule half of all frames would be handed over.
steered() {
	local handed received
	spread && ask /oneside/ports flow_rules_made flow_rules_refused >"$WORK/rules" &&
		grep -q '^flow_rules_made.* [1-9]' "$WORK/rules" || return 1
	received=$(awk '$1 == "rx_packets" {print $2 + $3}' "$WORK/spread")
	handed=$(awk '$1 == "handed_over" {print $2 + $3}' "$WORK/spread")
	[ $((handed * 4)) -lt "$received" ] || fail "flow rules do not help: $(cat "$WORK/spread" "$WORK/rules")"
}
enough=spread rounds=10
[ "$nic" != tap ] || enough=steered rounds=300
if [ "$cores" -gt 1 ]; then
	tries=30
	until $enough; do
		[ "$tries" -gt 0 ] || fail "connections are not spread: $(cat "$WORK/spread")"
		# Run as many applications at once as there are cores: each core serves one.
		pids=()
		for ((i = 0; i < cores; i++)); do
			inside "rping$i" "$PROGRAMS/udapl-rping" -s -V -p $((7174 + i)) -S "$size"
			udapl "$PROGRAMS/udapl-rping" -c 192.0.2.2 -V -p $((7174 + i)) -C $rounds -S "$size" >"$WORK/ours.log" 2>&1 &
			pids+=($!)
		done
		APPLICATIONS+=("${pids[@]}")
		for ((i = 0; i < cores; i++)); do
			finish "uDAPL to $nic, application $i" "${pids[$i]}" "rping$i"
		done
		tries=$((tries - 1))
	done
	say "ok   $cores polling cores, RSS to $queues: $(tr '\n' ' ' <"$WORK/spread")"
	[ "$nic" != tap ] || say "     $(tr '\n' ' ' <"$WORK/rules")"
fi
# The connections of one attachment (CONNECTIONS) are on all cores in nearly equal parts, unless the data plane has moved some
# away from a busy core, and their frames come to the cores that own them.
parts() { # prints the number of queue pairs of each core
	guest chroot /hostroot "$BUILD/control/onesidectl" --json --socket /run/b.sock.ctl show cores |
		python3 -c 'import json, sys; print(*(core["qps"] for core in json.load(sys.stdin)["cores"]))'
}
if [ "$nic" = virtio-net-pci ] && [ "$queues" = 2 ] && [ -x "$BUILD/perf/oneside-perf" ]; then
	connections=${CONNECTIONS:-64}
	ask /oneside/cores rx_packets handed_over moves >"$WORK/before"
	LIMIT=300 inside perf "$BUILD/perf/oneside-perf" --once -p 18700
	until guest_output perf | grep -q 'serving on'; do
		[ ! -e "$GUEST_RUN/jobs/perf.rc" ] || fail "the server in the guest: $(guest_output perf)"
		sleep 0.2
	done
	udapl "$BUILD/perf/oneside-perf" -t send_bw -q "$connections" -D 10 -r 16 --tx-depth 1 -p 18700 192.0.2.2 \
		>"$WORK/ours.log" 2>&1 &
	pid=$!
	APPLICATIONS+=("$pid")
	first=0 second=0
	until [ $((first + second)) = "$connections" ]; do
		kill -0 "$pid" 2>/dev/null || fail "the connections were never seen together, but $first and $second"
		read -r first second < <(parts)
	done
	finish "$connections connections of one attachment" "$pid" perf
	ask /oneside/cores rx_packets handed_over moves >"$WORK/after"
	paste -d ' ' "$WORK/before" "$WORK/after" | awk '{print $1, $5 - $2, $6 - $3}' >"$WORK/spread"
	say "     queue pairs $first $second $(tr '\n' ' ' <"$WORK/spread")"
	grep -q '^moves.* [1-9]' "$WORK/spread" || { [ $((first * 10)) -le $((second * 11)) ] && [ $((second * 10)) -le $((first * 11)) ]; } ||
		fail "the cores have unequal parts: $first and $second"
	awk '{first[$1] = $2; second[$1] = $3}
		END {
			if (first["rx_packets"] * second["rx_packets"] == 0)
				exit 1
			exit (first["handed_over"] + second["handed_over"]) * 100 > first["rx_packets"] + second["rx_packets"]
		}' "$WORK/spread" ||
		fail "more than 1 % of the frames were handed over, or a core had none: $(cat "$WORK/spread")"
fi
# The driver of e1000e has buffers whose size is a power of two: with a path MTU of 4096 a frame takes two buffers.
if [ "$nic" = e1000e ] && [ "$mtu" -gt 4096 ]; then
	ask /oneside/cores rx_chained >"$WORK/chained"
	grep -q ' [1-9]' "$WORK/chained" || fail "no frame came in several buffers"
	say "ok   frames in several buffers: $(tr '\n' ' ' <"$WORK/chained")"
fi
stop_plane a
kill_guest

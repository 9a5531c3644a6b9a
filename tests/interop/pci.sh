#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   pci.sh NIC [CORES]
#                    a data plane in a guest on an emulated PCI device, by vfio-pci and -a as on
#                    hardware, and one outside: a short uDAPL and RSM exchange both ways
#
# NIC: e1000e, vmxnet3 or virtio-net-pci; CORES: polling cores, with one queue each where device and driver
# have so many. Frames reach any core (by RSS with virtio-net-pci; always the first with e1000e, whose
# driver has one queue, and vmxnet3, which QEMU gives no RSS), and cores hand on what is another's.
. "$(dirname "$0")/guest.sh"
nic=$1 cores=${2:-1} queues=1 words=()
[ "$nic" != virtio-net-pci ] || queues=$cores
net_init
interop_init
[ "$queues" = 1 ] || words=(multi_queue)
make_bridge "${words[@]}"
start_pci_guest "$nic" "$cores" "$queues"

# inside PROGRAM...: in the background, as job $1.
inside() {
	local job=$1
	shift
	guest_begin "$job" chroot /hostroot /usr/bin/env ONESIDE_SOCKET=/run/b.sock "$@"
}

# Emulated cores share processors: a peer that says nothing for seconds is not dead.
LIMIT=500 inside plane "$DATAPLANE" -l "0-$cores" -a "$PCI" --in-memory --log-level=lib.eal:warning -- --socket /run/b.sock \
	--idle sleep --node 2 --port "name=p0,address=192.0.2.2/24,mtu=1500" --peer node=1,address=192.0.2.1 --keepalive-ms 30000
tenths=1500
until guest_output plane | grep -q 'serving on'; do
	[ ! -e "$GUEST_RUN/jobs/plane.rc" ] || {
		guest_output plane >&2
		fail "the data plane in the guest does not start"
	}
	[ "$tenths" -gt 0 ] || skip "this machine is too slow: the data plane in the guest does not serve within 150 seconds"
	sleep 0.1
	tenths=$((tenths - 1))
done
guest_output plane | grep '^port '
# shellcheck disable=SC2046 # words are wanted
PLANE_NETNS=oneside-$$-a start_plane a $(plane_cores 1) $(eal_options a) \
	--vdev=net_af_packet0,iface=veth0,framesz=2048,blocksz=65536,framecnt=4096 -- --idle sleep --node 1 \
	--port "name=p0,device=net_af_packet0,address=192.0.2.1/24,mtu=1500" --peer node=2,address=192.0.2.2 --keepalive-ms 30000

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

udapl "$PROGRAMS/udapl-rping" -s -V -C 20 -S 4001 >"$WORK/ours.log" 2>&1 &
pid=$!
APPLICATIONS+=("$pid")
inside rping "$PROGRAMS/udapl-rping" -c 192.0.2.1 -V -C 20 -S 4001
finish "uDAPL from $nic" "$pid" rping

inside rping "$PROGRAMS/udapl-rping" -s -V -C 20 -S 4001
udapl "$PROGRAMS/udapl-rping" -c 192.0.2.2 -V -C 20 -S 4001 >"$WORK/ours.log" 2>&1 &
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
# Each connection has a UDP source port of its own, by which RSS chooses the queue; its owner is chosen
# without regard to that.  So every core with a queue receives, and some frames are handed on, by chance but soon.
spread() {
	local idle
	guest chroot /hostroot /usr/bin/python3 "$(realpath "$(dirname "$0")")/telemetry.py" \
		/run/dpdk/rte/dpdk_telemetry.v2 /oneside/cores rx_packets handed_over >"$WORK/spread" || fail "no telemetry: $(cat "$WORK/spread")"
	idle=$(awk '$1 == "rx_packets" {for (i = 2; i <= NF; i++) n += !$i} END {print n + 0}' "$WORK/spread")
	[ "$idle" -le $((cores - queues)) ] && grep -q '^handed_over.* [1-9]' "$WORK/spread"
}
if [ "$cores" -gt 1 ]; then
	tries=30
	until spread; do
		[ "$tries" -gt 0 ] || fail "connections are not spread: $(cat "$WORK/spread")"
		# As many applications at once as there are cores, each of which serves one.
		pids=()
		for ((i = 0; i < cores; i++)); do
			inside "rping$i" "$PROGRAMS/udapl-rping" -s -V -p $((7174 + i)) -S 4001
			udapl "$PROGRAMS/udapl-rping" -c 192.0.2.2 -V -p $((7174 + i)) -C 10 -S 4001 >"$WORK/ours.log" 2>&1 &
			pids+=($!)
		done
		APPLICATIONS+=("${pids[@]}")
		for ((i = 0; i < cores; i++)); do
			finish "uDAPL to $nic, application $i" "${pids[$i]}" "rping$i"
		done
		tries=$((tries - 1))
	done
	say "ok   $cores polling cores, RSS to $queues: $(tr '\n' ' ' <"$WORK/spread")"
fi
stop_plane a
kill_guest

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   pci.sh NIC [CORES [MTU]]
#                    a data plane in a guest on an emulated PCI device, by vfio-pci and -a as on
#                    hardware, and one outside: a short uDAPL and RSM exchange both ways
#
# NIC: e1000e, vmxnet3 or virtio-net-pci; or tap, DPDK's driver of tap devices, whose flow rules the guest's
# kernel carries out; CORES: polling cores, with one queue each where device and driver
# have so many. Frames reach any core (by RSS with virtio-net-pci; always the first with e1000e, whose
# driver has one queue, and vmxnet3, which QEMU gives no RSS), and cores hand on what is another's.
. "$(dirname "$0")/guest.sh"
nic=$1 cores=${2:-1} mtu=${3:-1500} queues=1 words=() slots=framesz=2048,blocksz=65536,framecnt=4096
size=4001 # of messages: several frames
[ "$mtu" -le 1500 ] || slots=framesz=8192,blocksz=65536,framecnt=1024 size=9001
[ "$nic" != virtio-net-pci ] || queues=$cores
net_init
interop_init
[ "$queues" = 1 ] || words=(multi_queue)
make_bridge "${words[@]}"
if [ "$nic" = tap ]; then
	queues=$cores
	start_tap_guest "$cores"
	device=(--no-pci --vdev=net_tap0,iface=dtap0)
else
	start_pci_guest "$nic" "$cores" "$queues"
	device=(-a "$PCI")
fi

# ask COMMAND KEY...: of the data plane in the guest
ask() {
	guest chroot /hostroot /usr/bin/python3 "$(realpath "$(dirname "$0")")/telemetry.py" \
		/run/dpdk/rte/dpdk_telemetry.v2 "$@" || fail "no telemetry"
}
# inside PROGRAM...: in the background, as job $1.
inside() {
	local job=$1
	shift
	guest_begin "$job" chroot /hostroot /usr/bin/env ONESIDE_SOCKET=/run/b.sock "$@"
}

# Emulated cores share processors: a peer that says nothing for seconds is not dead.
LIMIT=500 inside plane "$DATAPLANE" -l "0-$cores" "${device[@]}" --in-memory --log-level=lib.eal:warning -- --socket /run/b.sock \
	--idle sleep --node 2 --port "name=p0,address=192.0.2.2/24,mtu=$mtu" --peer node=1,address=192.0.2.1 --keepalive-ms 30000
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
if [ "$nic" = tap ]; then
	# With the address that DPDK gives it, which is its own, the bridge would take what is the data plane's for the kernel's.
	guest /usr/bin/ip link set dtap0 address 02:00:00:00:00:02 master br0 || fail "no bridge for the tap device"
	# The kernel follows what the data plane sends, and chooses too well: the first queue gets all but what rules take.
	guest /usr/bin/tc filter add dev dtap0 parent 1: prio 60000 protocol all matchall action skbedit queue_mapping 0 ||
		fail "the kernel does not choose the first queue"
fi
ask /oneside/ports checks_ipv4 flow_rules_open >"$WORK/offloads"
say "     $(tr '\n' ' ' <"$WORK/offloads")"
# shellcheck disable=SC2046 # words are wanted
PLANE_NETNS=oneside-$$-a start_plane a $(plane_cores 1) $(eal_options a) \
	"--vdev=net_af_packet0,iface=veth0,$slots" -- --idle sleep --node 1 \
	--port "name=p0,device=net_af_packet0,address=192.0.2.1/24,mtu=$mtu" --peer node=2,address=192.0.2.2 --keepalive-ms 30000

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
# Every core with a queue receives.  Where RSS chooses the queue by the UDP source port, the peer sends from one that
# leads to the core of the queue pair (doc/steering.md), and at most 1 % of the frames are handed on.  Else some are, by
# chance but soon.
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
# One application is on the second core. A rule is made for its connection when it strays, and then it strays no
# more: else half of what came in would.
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
		# As many applications at once as there are cores, each of which serves one.
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
# The driver of e1000e has buffers of powers of two: a frame of a path MTU of 4096 comes in two.
if [ "$nic" = e1000e ] && [ "$mtu" -gt 4096 ]; then
	ask /oneside/cores rx_chained >"$WORK/chained"
	grep -q ' [1-9]' "$WORK/chained" || fail "no frame came in several buffers"
	say "ok   frames in several buffers: $(tr '\n' ' ' <"$WORK/chained")"
fi
stop_plane a
kill_guest

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   pci_takeover.sh NIC [CORES [N]]   in a guest, N data planes (default 3) take over an emulated PCI device one after the other
#                                     (doc/upgrade.md), under rping -V from and to a data plane outside; before that, three new ones
#                                     die after they have opened the device, or not yet, and the old one opens it again
#
# NIC: as of pci.sh. Both data planes' programs are unmodified.
. "$(dirname "$0")/pci_lib.sh"
. "$(dirname "$0")/../net/upgrade_lib.sh"
nic=$1 cores=${2:-1} mtu=1500
RUN=$BUILD/api/verbs/oneside-run
LIMIT=400
start_pci_planes --in-memory

# control WORDS...: onesidectl WORDS for the guest's data plane.
control() { guest chroot /hostroot "$BUILD/control/onesidectl" --socket /run/b.sock.ctl "$@"; }

# Prints for each ping the milliseconds since the one before.
watch_gaps() {
	/usr/bin/python3 -uc 'import sys, time
last = time.monotonic()
for line in sys.stdin:
    if "ping data" in line:
        now = time.monotonic()
        print(int((now - last) * 1000))
        last = now'
}

pings() { wc -l <"$WORK/$1.gaps"; }

# longest FIRST-OUT FIRST-IN: the longest time without a ping since these pings.
longest() {
	printf 'longest time without a ping %s ms from the guest, %s ms to it' \
		"$(tail -n "+$2" "$WORK/in.gaps" | sort -n | tail -n 1)" "$(tail -n "+$1" "$WORK/out.gaps" | sort -n | tail -n 1)"
}

going_on() {
	local name
	for name in out in; do
		alive "${OURS[$name]}" && [ ! -e "$GUEST_RUN/jobs/rping-$name.rc" ] ||
			fail "rping-$name has ended: $(tail -n 3 "$WORK/$name.log"; guest_output "rping-$name" | tail -n 3)"
	done
}

# await_pings N: N more pings in both directions.
await_pings() {
	local name
	local -A want=()
	for name in out in; do want[$name]=$(($(pings $name) + $1)); done
	for name in out in; do
		until [ "$(pings $name)" -ge "${want[$name]}" ]; do
			going_on
			sleep 0.1
		done
	done
}

# outside NAME OPTIONS...: rping on data plane a.
outside() {
	local name=$1
	: >"$WORK/$name.log"
	: >"$WORK/$name.gaps"
	(ONESIDE_SOCKET=$(plane_socket a) exec timeout -k 3 "$LIMIT" stdbuf -oL "$RUN" rping -v -V "${@:2}" > >(tee "$WORK/$name.log" | watch_gaps >"$WORK/$name.gaps") 2>&1) &
	OURS[$name]=$!
	APPLICATIONS+=("$!")
}

declare -A OURS=()
outside in -s -a 192.0.2.1
until "$BUILD/control/onesidectl" -s "$(plane_socket a).ctl" show listeners | grep -qw rping; do sleep 0.1; done
inside rping-in "$RUN" rping -c -V -a 192.0.2.1
inside rping-out "$RUN" rping -s -V -a 192.0.2.2
until control show listeners | grep -qw rping; do sleep 0.1; done
outside out -c -a 192.0.2.2
await_pings 5

# Prints the number of descriptors of each kind. DPDK's virtio initializes a device twice if it has RSS and interrupts, and then
# loses an eventfd for each queue.
descriptors() {
	guest ls -l "/proc/$1/fd" | sed -n 's/.* -> //p' | tr -d '0-9' | sort | uniq -c |
		{ if [ "$queues" -gt 1 ]; then grep -v eventfd; else cat; fi; }
}
# has_device PID: how many descriptors of the device's group the process has.
has_device() { guest sh -c "'ls -l /proc/$1/fd | grep -c /dev/vfio/[0-9]'"; }

# vectors: interrupts so far that the guest's data plane sleeps for.
vectors() { guest sh -c "'grep vfio-msi /proc/interrupts'" | awk '{ for (i = 2; i <= NF && $i ~ /^[0-9]+$/; i++) n += $i } END { print n + 0 }'; }
# await_vectors N: waits until there were more than N; a core under load sleeps seldom.
await_vectors() {
	local looks=100
	until [ "$(vectors)" -gt "$1" ]; do
		[ "$looks" -gt 0 ] || fail "the device interrupts no more: $(guest cat /proc/interrupts)"
		going_on
		looks=$((looks - 1))
	done
}
# frames: those that cores of the guest's data plane have received, and handed over.
frames() {
	control --json show cores | /usr/bin/python3 -c 'import json, sys
cores = json.load(sys.stdin)["cores"]
print(*(sum(core[key] for core in cores) for key in ("rx_packets", "handed_over")))'
}

pid=$(guest pidof oneside-dataplane)
before=$(descriptors "$pid")
interrupts=$(vectors) # QEMU's e1000e has none of its receive queue
inside_eal=(-a "$PCI" --in-memory --file-prefix=dead)
inside_more=(--take-over)
for step in take-received take-opened take-ready; do
	first=("$(pings out)" "$(pings in)")
	start_inside dead ONESIDE_TAKEOVER_KILL=$step
	guest_end dead && fail "it was not killed at $step"
	await_pings 5
	[ "$(descriptors "$pid")" = "$before" ] || fail "descriptors after a new process has died at $step: $(diff <(echo "$before") <(descriptors "$pid"))"
	[ "$(has_device "$pid")" = 1 ] || fail "the device's group: $(guest ls -l "/proc/$pid/fd")"
	[ "$interrupts" = 0 ] || await_vectors "$(vectors)"
	say "ok   killed at $step: the old one opens the device again; $(longest "${first[@]}")"
done
! guest_output plane | grep 'event=takeover_port' || fail "the old one did not open the device at once"
first=("$(pings out)" "$(pings in)")
for ((i = 1; i <= ${3:-3}; i++)); do
	control upgrade >"$WORK/ctl" || fail "onesidectl upgrade: $(cat "$WORK/ctl"; guest_output plane | tail -n 20)"
	say "$(cat "$WORK/ctl")"
	await_pings 5
done
say "     $(longest "${first[@]}")"
# Frames come to the cores that own them, as before: the device has the same RSS.
read -r received handed < <(frames)
await_pings 100
read -r received_now handed_now < <(frames)
say "     frames received $((received_now - received)), handed over $((handed_now - handed))"
[ "$queues" -lt 2 ] || [ $(((handed_now - handed) * 100)) -le $((received_now - received)) ] || fail "frames come to other cores"
stop_plane a
kill_guest

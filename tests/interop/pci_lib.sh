# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Functions to run a data plane b on an emulated PCI device in a guest, and one outside, a; sources guest.sh.
#
#   start_pci_planes EAL...       starts the guest with $nic (see pci.sh), which gets $queues queues, and both data planes, the guest's
#                                 with $cores polling cores and these options; ports have $mtu
#   ask COMMAND KEY...            queries the telemetry of the data plane in the guest
#   inside JOB PROGRAM...         runs PROGRAM on the guest's data plane, in the background, as job JOB
#   start_inside JOB WORDS...     starts a data plane in the guest as job JOB, with WORDS before its name, and ${inside_more[@]} among its
#                                 options
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
declare -a inside_eal=() inside_more=()
queues=1

ask() {
	guest chroot /hostroot /usr/bin/python3 "$(realpath "$(dirname "$0")")/telemetry.py" \
		/run/dpdk/rte/dpdk_telemetry.v2 "$@" || fail "no telemetry"
}

inside() {
	local job=$1
	shift
	guest_begin "$job" chroot /hostroot /usr/bin/env ONESIDE_SOCKET=/run/b.sock "$@"
}

# Emulated cores share processors: a peer that is silent for seconds is not dead (keepalive-ms, ack_timeout).
start_inside() {
	local job=$1
	shift
	LIMIT=500 inside "$job" "$@" "$DATAPLANE" -l "0-$cores" "${inside_eal[@]}" --log-level=lib.eal:warning -- --socket /run/b.sock \
		--idle sleep --node 2 --port "name=p0,address=192.0.2.2/24,mtu=$mtu,ack_timeout=20" --peer node=1,address=192.0.2.1 --keepalive-ms 30000 \
		"${inside_more[@]}"
}

start_pci_planes() {
	local words=() slots=framesz=2048,blocksz=65536,framecnt=4096 tenths=1500
	[ "$mtu" -le 1500 ] || slots=framesz=8192,blocksz=65536,framecnt=1024
	[ "$nic" != virtio-net-pci ] || queues=$cores
	net_init
	interop_init
	[ "$queues" = 1 ] || words=(multi_queue)
	make_bridge "${words[@]}"
	if [ "$nic" = tap ]; then
		queues=$cores
		start_tap_guest "$cores"
		inside_eal=(--no-pci --vdev=net_tap0,iface=dtap0)
	else
		start_pci_guest "$nic" "$cores" "$queues"
		inside_eal=(-a "$PCI")
	fi
	inside_eal+=("$@")
	start_inside plane
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
		# DPDK gives the interface the data plane's own MAC address; with that the bridge would deliver the data plane's frames
		# to the kernel. Give it another one.
		guest /usr/bin/ip link set dtap0 address 02:00:00:00:00:02 master br0 || fail "no bridge for the tap device"
		# The kernel would choose the queue by the flows that the data plane sends, which is always right. Send all frames to the first
		# queue, except for those that flow rules take.
		guest /usr/bin/tc filter add dev dtap0 parent 1: prio 60000 protocol all matchall action skbedit queue_mapping 0 ||
			fail "the kernel does not choose the first queue"
	fi
	ask /oneside/ports checks_ipv4 flow_rules_open >"$WORK/offloads"
	say "     $(tr '\n' ' ' <"$WORK/offloads")"
	# shellcheck disable=SC2046 # words are wanted
	PLANE_NETNS=oneside-$$-a start_plane a $(plane_cores 1) $(eal_options a) \
		"--vdev=net_af_packet0,iface=veth0,$slots" -- --idle sleep --node 1 \
		--port "name=p0,device=net_af_packet0,address=192.0.2.1/24,mtu=$mtu,ack_timeout=20" --peer node=2,address=192.0.2.2 --keepalive-ms 30000
}

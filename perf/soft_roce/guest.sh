#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
#   guest.sh BUILD ROUNDS/SHARE veth|virtio MTU CANDIDATES TESTS    runs in the guest; prints a line per measurement
#
# CANDIDATES: soft_roce; with veth also af_packet and af_xdp, which are oneside by that driver; with virtio also virtio,
# which is oneside by DPDK's driver of the NIC. Each has its own cable of the same kind: veth interfaces, or two NICs
# that QEMU joins. TESTS: words PROGRAM:SIZE:COUNT:COUNT, with the counts for Soft-RoCE and for oneside; both are divided
# by SHARE. Candidates that are not measured are stopped.
export PATH=/usr/bin:/bin
BUILD=$1 ROUNDS=${2%/*} SHARE=${2#*/} LINK=$3 MTU=$4 CANDIDATES=$5 TESTS=$6
LIMIT=600
PLANES=
PORT=18600

give_up() {
	echo "failed: $*"
	cat /tmp/*.log
	exit 1
}

# Calls iproute2's program instead of busybox's applet.
ip() {
	/usr/bin/ip "$@"
}

# on CPU COMMAND...: runs a command of the host's file system on a processor
on() {
	exec chroot /hostroot /usr/bin/taskset -c "$@"
}

cable() { # NAME
	ip link add "$1" mtu "$MTU" type veth peer name "$1-far" mtu "$MTU" || give_up "no veth interfaces"
	for end in "$1" "$1-far"; do
		chroot /hostroot /usr/sbin/ethtool -K "$end" tx off rx off gso off gro off tso off >/dev/null 2>&1
		ip link set "$end" up || give_up "$end does not come up"
	done
}

# Prints the interface of a NIC, which is found by its MAC address.
nic() { # NUMBER
	for net in /sys/class/net/*; do
		[ "$(cat "$net/address")" != "52:54:00:6f:6e:1$1" ] || echo "${net##*/}"
	done
}

# Binds a NIC to uio_pci_generic for DPDK; prints the device's address.
to_uio() { # NUMBER
	device=$(readlink -f "/sys/class/net/$(nic "$1")/device/..")
	device=${device##*/}
	echo uio_pci_generic >"/sys/bus/pci/devices/$device/driver_override"
	echo "$device" >"/sys/bus/pci/devices/$device/driver/unbind"
	echo "$device" >/sys/bus/pci/drivers_probe
	[ -e "/sys/bus/pci/drivers/uio_pci_generic/$device" ] && echo "$device"
}

# Both ends are in one namespace, because this kernel's Soft-RoCE supports only the initial one. Packets to either address
# must nevertheless take the cable: addresses are local only for incoming packets.
soft_roce() {
	if [ "$LINK" = veth ]; then
		cable rxe
	else
		for number in 1 2; do
			end=rxe$([ $number = 1 ] || echo -far)
			ip link set "$(nic $number)" name $end mtu "$MTU" || give_up "no NIC $number"
			ip link set $end up || give_up "$end does not come up"
		done
	fi
	number=1
	for end in rxe rxe-far; do
		echo 1 >/proc/sys/net/ipv4/conf/$end/accept_local
		echo 0 >/proc/sys/net/ipv4/conf/$end/rp_filter
		echo 1 >/proc/sys/net/ipv4/conf/$end/arp_ignore
		ip addr add 192.0.2.$number/24 dev $end || give_up "no address"
		ip rule add pref 10 iif $end lookup local || give_up "no rule for $end"
		rdma link add $end type rxe netdev $end || give_up "no Soft-RoCE on $end"
		number=$((number + 1))
	done
	ip rule add pref 30000 lookup local && ip rule del pref 0 || give_up "no rules"
	tries=200
	until [ -e /dev/infiniband/uverbs1 ]; do
		usleep 50000
		tries=$((tries - 1))
		[ $tries -gt 0 ] || give_up "no verbs devices"
	done
}

slots() {
	[ "$MTU" -le 1500 ] && echo framesz=2048,blocksz=65536,framecnt=4096 || echo framesz=8192,blocksz=65536,framecnt=1024
}

# planes DRIVER OPTIONS: starts two data planes joined by a cable
planes() {
	[ "$1" = virtio ] || cable "$1"
	number=1
	for end in "$1" "$1-far"; do
		if [ "$1" = virtio ]; then
			device=$(to_uio $((number + 2))) || give_up "NIC $((number + 2)) cannot be bound to uio_pci_generic"
			eal="--in-memory -m 160 -a $device --iova-mode=pa"
		else
			device=net_${1}0
			eal="--no-huge -m 256 --no-pci --iova-mode=va --vdev=$device,iface=$end,$2"
		fi
		on 0,1 "$BUILD/control/oneside-dataplane" "--lcores=0@(0,1),1@$((number - 1))" $eal \
			"--file-prefix=$end" --log-level=lib.eal:warning -- --socket "/run/$end.sock" --idle yield \
			--port "name=p0,device=$device,address=198.51.100.$number/24,mtu=$MTU" >"/tmp/$end.log" 2>&1 &
		PLANES="$PLANES $!"
		tries=600
		until grep -qs 'serving on' "/tmp/$end.log"; do
			usleep 100000
			tries=$((tries - 1))
			[ $tries -gt 0 ] && kill -0 $! 2>/dev/null || give_up "the data plane on $end does not start"
		done
		number=$((number + 1))
	done
	eval "planes_$1='$PLANES'"
	[ -z "$PLANES" ] || kill -STOP $PLANES
	PLANES=
}

# end CANDIDATE near|far PROGRAM...: runs a program on that side of the candidate's cable
end() {
	candidate=$1 cpu=0 side=$1
	[ "$2" = near ] || cpu=1 side=$1-far
	shift 2
	case $candidate in
	soft_roce) on $cpu "$@" -d "rxe${side#soft_roce}" -x 1 ;;
	*) on $cpu "$BUILD/api/verbs/oneside-run" --socket "/run/$side.sock" "$@" ;;
	esac
}

listens() {
	grep -q ":$(printf %04X $PORT) .* 0A " /proc/net/tcp /proc/net/tcp6
}

measure() { # CANDIDATE PROGRAM SIZE COUNT
	candidate=$1 program=$2 size=$3
	PORT=$((PORT + 1))
	words="$program -F -s $size -n $4 -p $PORT"
	(end "$candidate" far timeout $LIMIT $words >/tmp/server.log 2>&1) &
	server=$!
	tries=$((LIMIT * 20))
	until listens; do
		usleep 50000
		tries=$((tries - 1))
		[ $tries -gt 0 ] && kill -0 $server 2>/dev/null || give_up "$candidate: $words: no server"
	done
	(end "$candidate" near timeout $LIMIT $words 127.0.0.1 >/tmp/client.log 2>&1) || give_up "$candidate: $words"
	wait $server || give_up "$candidate: $words: the server"
	echo "measured $candidate $program $(awk -v size="$size" '$1 == size {print; exit}' /tmp/client.log)"
}

for candidate in $CANDIDATES; do
	case $candidate in
	soft_roce) soft_roce ;;
	af_packet) planes af_packet "$(slots)" ;;
	virtio)
		echo 192 >/proc/sys/vm/nr_hugepages
		planes virtio ''
		;;
	af_xdp) planes af_xdp start_queue=0,queue_count=1 ;;
	esac
done
round=0
while [ $round -lt "$ROUNDS" ]; do
	echo "round $round"
	for test in $TESTS; do
		IFS=: read -r program size theirs ours <<-END
			$test
		END
		for candidate in $CANDIDATES; do
			count=$ours
			[ "$candidate" != soft_roce ] || count=$theirs
			count=$((count / SHARE + 5))
			eval "stopped=\${planes_$candidate:-}"
			[ -z "$stopped" ] || kill -CONT $stopped
			measure "$candidate" "$program" "$size" "$count"
			[ -z "$stopped" ] || kill -STOP $stopped
		done
	done
	round=$((round + 1))
done

# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Functions to run a guest with Soft-RoCE and a data plane on one bridge; need tests/net/lib.sh.
#
#   interop_init                  skips the test if something is missing; builds the guest
#   make_bridge [TAP-WORDS]       namespace switch: a bridge, and tap0 for the guest; namespace a: veth0
#   start_guest                   boots at 192.0.2.10 and 2001:db8::10; returns when Soft-RoCE is ready
#   start_pci_guest NIC CORES QUEUES  boots with a network device bound to vfio-pci behind an IOMMU instead
#   start_tap_guest CORES         boots with a bridge br0 that has the network device instead
#   start_rdma_guest CPUS MEMORY  boots with four NICs, which QEMU joins in pairs, instead
#   start_disk_guest CPUS MEMORY  boots with the host's files and an ext4 disk at /var/tmp, without network, instead
#   start_systemd_guest ROOT      boots systemd from the folder ROOT, without network, instead
#   stop_guest, kill_guest        power the guest off; kill it without notice
#   start_interop_plane 4|6 MTU [KEY=VALUE] [DRIVER]  starts data plane a at 192.0.2.1 or 2001:db8::1 ($OURS; the
#                                 guest's address is $THEIRS), with KEY=VALUE for its port and the options in
#                                 PLANE_MORE; the guest gets the same MTU
#   guest COMMAND...              runs COMMAND in the guest, for at most $LIMIT seconds; prints its output; its status
#   guest_begin NAME COMMAND...   runs COMMAND in the background; guest_end NAME waits for it, and has its status
#   udapl COMMAND...              runs a program of ours on data plane a, for at most $LIMIT seconds
#   drop_frames EXPRESSION...     the bridge drops frames that match (nft); await_frames EXPRESSION... only counts them
#   keep_frames RULES             waits until RULES rules have matched, and removes all rules
#
# LIMIT is generous: the guest is emulated, and tests share the machine. A test waits for events.
. "$(dirname "${BASH_SOURCE[0]}")/../net/lib.sh"

LIMIT=90
GUEST_BOOT=180 # seconds
# The guest uses the HPET, whose rate is known. It would measure the rate of the TSC at boot, and a guest that waits for a
# processor then gets a wrong rate, and wrong time-outs.
CLOCK='clocksource=hpet tsc=unstable'
GUEST_LIFE=600
GUEST_PID=
GUEST_RUN= # the directory shared with the guest
INTEROP=${INTEROP:-$BUILD/interop}
PROGRAMS=$BUILD/tests/interop
JOB=0
declare -ga PLANE_MORE=()

# OFED's uDAPL 2.0, if this machine has it: its programs, and its provider over verbs and rdma_cm.
dapl2_programs() { command -v dtest dtestx dtestcm dapltest | tr '\n' ' '; }
dapl2_provider() { ldconfig -p | awk '/libdaplofa\.so\.2 .*x86-64/ {print $NF; exit}'; }

interop_init() {
	[ "$(uname -m)" = x86_64 ] || skip "the guest is an x86-64 one"
	need_root
	[ -c /dev/net/tun ] || skip "this machine has no /dev/net/tun for the guest's network"
	command -v nft >/dev/null || skip "there is no nft; install nftables"
	[ -x "$PROGRAMS/verbs-operations" ] || skip "there is no verbs-operations; install libibverbs-dev and librdmacm-dev, and build again"
	[ -x "$PROGRAMS/udapl2-operations" ] || skip "there is no udapl2-operations; install libdapl-dev, and build again"
	build_guest
}

build_guest() {
	local status
	GUEST_PROGRAMS="$PROGRAMS/verbs-operations $(dapl2_programs) $(command -v stdbuf)" GUEST_LIBRARIES="$(dapl2_provider) /usr/libexec/coreutils/libstdbuf.so" \
		bash "$(dirname "${BASH_SOURCE[0]}")/build_guest.sh" "$INTEROP"
	status=$?
	[ "$status" = 77 ] && skip "there is no guest"
	[ "$status" = 0 ] || fail "the guest cannot be built (status $status)"
}

make_bridge() {
	make_namespace switch
	SWITCH=$NETNS
	make_namespace a
	ip netns exec "$SWITCH" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
	ip -n "$SWITCH" link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 ||
		skip "this kernel has no bridge"
	ip -n "$SWITCH" tuntap add tap0 mode tap "$@" || skip "this machine makes no tap devices"
	ip -n "$SWITCH" link set tap0 mtu "$CABLE_MTU" txqueuelen 10000 master br0 up
	ip link add veth0 netns "$NETNS" mtu "$CABLE_MTU" type veth peer name port0 netns "$SWITCH" mtu "$CABLE_MTU" ||
		fail "no veth pair"
	ip -n "$SWITCH" link set port0 master br0 up
	ip -n "$SWITCH" link set br0 mtu "$CABLE_MTU" up
	ip netns exec "$NETNS" ethtool -K veth0 tx off rx off gso off gro off tso off >/dev/null 2>&1
	ip netns exec "$NETNS" sysctl -qw net.ipv6.conf.veth0.disable_ipv6=1
	ip -n "$NETNS" link set veth0 up
	ip netns exec "$SWITCH" nft -f - <<'NFT' || skip "this kernel filters no bridges (nf_tables, bridge family)"
table bridge interop {
	chain drops {
		type filter hook forward priority 0; policy accept;
	}
}
NFT
}

drop_frames() {
	ip netns exec "$SWITCH" nft add rule bridge interop drops "$@" counter drop || fail "no rule: $*"
}

await_frames() {
	ip netns exec "$SWITCH" nft add rule bridge interop drops "$@" counter || fail "no rule: $*"
}

# Prints the number of rules that have matched a frame.
dropped() {
	ip netns exec "$SWITCH" nft list chain bridge interop drops |
		sed -n 's/.*counter packets \([0-9]*\).*/\1/p' | awk '$1 > 0 {n++} END {print n + 0}'
}

# A test of loss is valid only if each rule has matched. Retransmissions may come after the programs have ended: wait.
keep_frames() {
	local rules looks=$((LIMIT * 50))
	until [ "$(dropped)" -eq "$1" ] || [ "$looks" -eq 0 ]; do
		sleep 0.02
		looks=$((looks - 1))
	done
	rules=$(dropped)
	ip netns exec "$SWITCH" nft flush chain bridge interop drops
	[ "$rules" -eq "$1" ] || fail "only $rules rules of $1 matched what crossed the bridge"
}

guest_alive() {
	[ -n "$GUEST_PID" ] && kill -0 "$GUEST_PID" 2>/dev/null
}

# boot CPUS MEMORY KERNEL-WORDS QEMU-WORDS...
boot() {
	local looks=$((GUEST_BOOT * 50)) cpus=$1 memory=$2 words=$3
	shift 3
	JOB=$((JOB + 1))
	GUEST_RUN=$WORK/guest$JOB
	mkdir -p "$GUEST_RUN/jobs"
	# Emulation (TCG) works on every machine.
	timeout -k 5 "$GUEST_LIFE" ip netns exec "$SWITCH" qemu-system-x86_64 \
		-nodefaults -no-user-config -display none -no-reboot -M q35,kernel-irqchip=split -accel tcg,thread=multi \
		-smp "$cpus" -m "$memory" -kernel "$INTEROP/vmlinux" -initrd "$INTEROP/initramfs" \
		-append "console=ttyS0 quiet panic=-1 nokaslr mitigations=off $CLOCK no_timer_check $words" \
		-serial "file:$GUEST_RUN/console" \
		-fsdev "local,id=fs,path=$GUEST_RUN,security_model=none" -device virtio-9p-pci,fsdev=fs,mount_tag=host \
		-device virtio-rng-pci "$@" </dev/null >"$WORK/qemu.log" 2>&1 &
	GUEST_PID=$!
	APPLICATIONS+=("$GUEST_PID")
	until [ -e "$GUEST_RUN/ready" ]; do
		[ ! -e "$GUEST_RUN/failed" ] || {
			tail -n 20 "$GUEST_RUN/console" >&2
			fail "the guest has $(cat "$GUEST_RUN/failed")"
		}
		guest_alive || {
			tail -n 20 "$GUEST_RUN/console" "$WORK/qemu.log" >&2
			fail "the guest does not boot"
		}
		[ "$looks" -gt 0 ] || skip "this machine is too slow: the guest does not boot within $GUEST_BOOT seconds"
		sleep 0.02
		looks=$((looks - 1))
	done
	say "guest: Linux $(cat "$GUEST_RUN/ready")"
}

# No offloads: the bridge sees frames as on a cable.
WIRE=host_mtu=$CABLE_MTU,csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ufo=off
WIRE+=,host_tso4=off,host_tso6=off,host_ufo=off

start_guest() {
	# The guest has no pclmulqdq, because its emulation is slower than a table.
	boot 1 512 "guest.mtu=1500 guest.ip=192.0.2.10/24 guest.ip6=2001:db8::10/64" -cpu Haswell-noTSX,-pclmulqdq \
		-netdev tap,id=net,ifname=tap0,script=no,downscript=no -device "virtio-net-pci,netdev=net,mac=52:54:00:6f:6e:65,$WIRE"
}

# start_pci_guest e1000e|vmxnet3|virtio-net-pci CORES QUEUES: sets $PCI to the device's address.
# Only virtio has several queues and RSS; the bridge's tap0 must be multi_queue then.
start_pci_guest() {
	local id device=$1 tap=tap,id=net,ifname=tap0,script=no,downscript=no
	case $1 in
	e1000e) id=0x8086:0x10d3 ;;
	vmxnet3) id=0x15ad:0x07b0 ;;
	virtio-net-pci) id=0x1af4:0x1041 device=$1,disable-legacy=on,iommu_platform=on,ats=on ;;
	esac
	if [ "$3" -gt 1 ]; then
		# When the ring that RSS chose is full, QEMU stops reading that queue of the tap for good. So the rings are large.
		device+=,mq=on,rss=on,rx_queue_size=1024,vectors=$((2 * $3 + 2))
		tap+=,queues=$3
	fi
	# vfio-pci refuses a device without interrupt remapping.
	boot $(($2 + 1)) 1536 "intel_iommu=on guest.pci=$id" -cpu Haswell-noTSX \
		-device intel-iommu,intremap=on,caching-mode=on,device-iotlb=on \
		-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=hostroot \
		-netdev "$tap" -device "$device,netdev=net,mac=52:54:00:6f:6e:66"
	PCI=$(cat "$GUEST_RUN/pci")
}

start_tap_guest() {
	boot $(($1 + 1)) 1024 "guest.tap guest.mtu=1500" -cpu Haswell-noTSX \
		-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=hostroot \
		-netdev tap,id=net,ifname=tap0,script=no,downscript=no \
		-device virtio-net-pci,netdev=net,mac=52:54:00:6f:6e:67,csum=off,gso=off,guest_csum=off,guest_tso4=off
}

# The guest has no pclmulqdq, like start_guest's, and no erms, because string moves are emulated byte by byte.
start_rdma_guest() {
	local -a nics=()
	local i
	for i in 1 2 3 4; do
		nics+=(-netdev "hubport,id=net$i,hubid=$(((i - 1) / 2))" -device "virtio-net-pci,netdev=net$i,mac=52:54:00:6f:6e:1$i,$WIRE")
	done
	boot "$1" "$2" "guest.rdma" -cpu Haswell-noTSX,-pclmulqdq,-erms "${nics[@]}" \
		-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=hostroot
}

start_disk_guest() {
	make_disk "$WORK/disk" 64
	boot "$1" "$2" "guest.disk" -cpu Haswell-noTSX -drive "file=$WORK/disk,if=virtio,format=raw" \
		-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=hostroot
}

make_disk() { # FILE MIB
	command -v mke2fs >/dev/null || skip "there is no mke2fs; install e2fsprogs"
	truncate -s "$2M" "$1" && mke2fs -q -t ext4 "$1" || fail "no disk $1"
}

start_systemd_guest() {
	boot 2 1536 "guest.systemd" -cpu Haswell-noTSX -fsdev "local,id=root,path=$1,security_model=none,readonly=on,multidevs=remap" \
		-device virtio-9p-pci,fsdev=root,mount_tag=hostroot
}

stop_guest() {
	local looks=500
	: >"$GUEST_RUN/jobs/poweroff.sh"
	while guest_alive && [ "$looks" -gt 0 ]; do
		sleep 0.02
		looks=$((looks - 1))
	done
	kill_guest
}

# Kills QEMU itself: $GUEST_PID is the process of `timeout`, which cannot forward SIGKILL.
kill_guest() {
	local qemu
	qemu=$(pgrep -P "$GUEST_PID")
	[ -z "$qemu" ] || kill -9 "$qemu" 2>/dev/null
	wait "$GUEST_PID" 2>/dev/null
	GUEST_PID=
}

guest_begin() {
	local name=$1
	shift
	rm -f "$GUEST_RUN/jobs/$name".*
	printf 'exec timeout -k 3 %s %s\n' "$LIMIT" "$*" >"$GUEST_RUN/jobs/$name.new"
	mv "$GUEST_RUN/jobs/$name.new" "$GUEST_RUN/jobs/$name.sh"
}

guest_end() {
	local name=$1 looks=$(((LIMIT + 30) * 50))
	until [ -e "$GUEST_RUN/jobs/$name.rc" ]; do
		guest_alive || fail "the guest died"
		[ "$looks" -gt 0 ] || fail "the guest gives no answer to job $name"
		sleep 0.02
		looks=$((looks - 1))
	done
	return "$(cat "$GUEST_RUN/jobs/$name.rc")"
}

guest_output() { cat "$GUEST_RUN/jobs/$1.out" 2>/dev/null; }

guest() {
	local status
	JOB=$((JOB + 1))
	guest_begin "job$JOB" "$@"
	guest_end "job$JOB"
	status=$?
	guest_output "job$JOB"
	return "$status"
}

udapl() {
	ONESIDE_SOCKET=$(plane_socket a) timeout -k 3 "$LIMIT" "$@"
}

start_interop_plane() {
	local prefix=24 device end driver=${4:-af_packet}
	OURS=192.0.2.1 THEIRS=192.0.2.10
	[ "$1" = 4 ] || OURS=2001:db8::1 THEIRS=2001:db8::10 prefix=64
	case $driver in
	af_packet)
		device=iface=veth0,framesz=8192,blocksz=65536,framecnt=1024
		[ "$2" -gt 1500 ] || device=iface=veth0,framesz=2048,blocksz=65536,framecnt=4096
		;;
	af_xdp) device=iface=veth0,start_queue=0,queue_count=1 ;;
	esac
	# A frame of AF_XDP must fit into a page: limit the MTU on both sides of the cable.
	for end in "oneside-$$-a veth0" "$SWITCH port0"; do
		ip -n "${end% *}" link set "${end#* }" mtu "$([ "$driver" = af_xdp ] && printf %s "$2" || printf %s "$CABLE_MTU")"
	done
	guest ip link set eth0 mtu "$2" || fail "the guest does not take an MTU of $2"
	# shellcheck disable=SC2046 # words are wanted
	PLANE_NETNS=oneside-$$-a start_plane a $(plane_cores 1) $(eal_options a) \
		"--vdev=net_${driver}0,$device" -- --idle sleep --node 1 \
		--port "name=p0,device=net_${driver}0,address=$OURS/$prefix,mtu=$2${3:+,$3}" "${PLANE_MORE[@]}"
	say "$(grep '^port ' "$(plane_log a)")"
	# Registry for programs of uDAPL 2.0.
	printf 'oneside u2.0 nonthreadsafe default %s oneside.2.0 "socket=%s" ""\n' \
		"$BUILD/api/dat2/libdaplone.so.2" "$(plane_socket a)" >"$WORK/dat2.conf"
}

plane_telemetry() { printf '/run/dpdk/%s-%s/dpdk_telemetry.v2' "$(basename "$WORK")" "$1"; }

# ---- conversations of a host's and a guest's program ----

# True if the guest's client rping failed only at its end: it closes its event channel while its other thread waits for events
# there, which then ends the program. Our rping has compared the data of all rounds.
rping_lost_its_channel() {
	[ "$(guest_output talk | sort)" = $'client DISCONNECT EVENT...\nrdma_get_cm_event: Bad file descriptor' ]
}

# True if the guest's server rping took a request that ours had given up: the guest had refused the request before rping
# listened, and then got its repetition.
rping_took_old_request() {
	guest_output talk | grep -q 'RDMA_CM_EVENT_REJECTED, error 6'
}

# converse serve NAME OUR-COMMAND... -- GUEST-COMMAND...: our program listens, then the guest's connects.
# converse connect ...: the guest's program is started first; ours tries until it listens.
converse() {
	local role=$1 name=$2 looks=1000 ours pid
	local -a command=() all=("$@")
	shift 2
	while [ "$1" != -- ]; do
		command+=("$1")
		shift
	done
	shift
	: >"$WORK/ours.log" # discard the output of the previous conversation
	if [ "$role" = connect ]; then
		guest_begin talk "$@"
	fi
	udapl "${command[@]}" >"$WORK/ours.log" 2>&1 &
	pid=$!
	APPLICATIONS+=("$pid")
	if [ "$role" = serve ]; then
		until grep -q '^listening' "$WORK/ours.log"; do
			kill -0 "$pid" 2>/dev/null && [ "$looks" -gt 0 ] || break
			sleep 0.02
			looks=$((looks - 1))
		done
		guest_begin talk "$@"
	fi
	wait "$pid"
	ours=$?
	if [ "$ours" = 0 ] && { guest_end talk || rping_lost_its_channel; }; then
		say "ok   $name, oneside ${role}s: $(tail -n 1 "$WORK/ours.log")"
		return
	fi
	if [ "$role" = connect ] && rping_took_old_request; then
		say "again: $name, oneside connects: rping took an old request"
		guest_end talk
		converse "${all[@]}"
		return
	fi
	{
		printf -- '---- ours (status %s):\n' "$ours"
		tail -n 20 "$WORK/ours.log"
		printf -- '---- the guest:\n'
		guest_output talk | tail -n 20
		printf -- '---- load: %s\n' "$(cat /proc/loadavg)"
	} >&2
	fail "$name, oneside ${role}s"
}

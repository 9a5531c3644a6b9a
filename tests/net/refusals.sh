#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A data plane refuses to start on errors, with status 1 and one sentence that has object, value and remedy.
. "$(dirname "$0")/lib.sh"
net_init

BASE="--lcores=0,1@0 --no-huge -m 256 --no-pci --iova-mode=va --file-prefix=$(basename "$WORK") --vdev=net_ring0"
PORT="--port name=p0,device=net_ring0,address=192.0.2.1/24"
SOCKET="--socket $WORK/s"

# refuses TEXT ARGUMENTS...: starts a data plane, which must refuse with TEXT; ARGUMENTS are split into words
refuses() {
	local text=$1 status
	shift
	# shellcheck disable=SC2086
	"$DATAPLANE" $* >"$WORK/out" 2>&1 </dev/null
	status=$?
	[ "$status" = 1 ] || {
		cat "$WORK/out" >&2
		fail "$*: status $status, not 1"
	}
	expect "$text" "$WORK/out"
	grep -q '^oneside-dataplane: ' "$WORK/out" || fail "$*: no sentence"
	[ ! -e "$WORK/s" ] || fail "$*: the socket is left"
	say "$(grep '^oneside-dataplane: ' "$WORK/out")"
}

# dpdk_before RELEASE: succeeds if DPDK is older than RELEASE
dpdk_before() {
	local release
	release=$("$DATAPLANE" --version | grep -o '[0-9.]*$')
	[ "$release" != "$1" ] && printf '%s\n%s\n' "$release" "$1" | sort -VC
}

refuses 'there is no port; write a [port NAME] section' $BASE -- $SOCKET
refuses 'option --prot: there is no such option' $BASE -- $SOCKET --prot x
refuses 'option --node: its value is missing' $BASE -- $SOCKET $PORT --node
refuses 'node = 99: out of range; write a number from 0 to 63' $BASE -- $SOCKET $PORT --node 99
refuses 'address = 192.0.2.1: the prefix of the link is missing' $BASE -- $SOCKET --port name=p0,address=192.0.2.1
refuses "file $WORK/none.conf: No such file or directory" $BASE -- --config "$WORK/none.conf"
refuses 'this node itself has no id' $BASE -- $SOCKET $PORT --peer node=2,address=192.0.2.2
refuses 'no port reaches address 10.0.0.1' $BASE -- $SOCKET $PORT --node 1 --peer node=2,address=10.0.0.1
refuses 'max_qp = 0: out of range' $BASE -- $SOCKET $PORT --limit max_qp=0
refuses 'DPDK has no device net_tap7' $BASE -- $SOCKET --port name=p0,device=net_tap7,address=192.0.2.1/24
ONESIDE_ICRC=abacus refuses 'ONESIDE_ICRC=abacus: no implementation of the ICRC' $BASE -- $SOCKET $PORT
refuses 'give the EAL option -l 0,1' -l 0 "${BASE#* }" -- $SOCKET $PORT
if dpdk_before 25.11; then
	refuses 'EAL: it cannot start' --no-such-option ${BASE} -- $SOCKET $PORT
else # EAL ends the process
	# shellcheck disable=SC2086
	! "$DATAPLANE" --no-such-option $BASE -- $SOCKET $PORT >"$WORK/out" 2>&1 || fail '--no-such-option: status 0'
	expect '--no-such-option' "$WORK/out"
fi

# Two devices on one interface.
if [ "$(id -u)" = 0 ]; then
	refuses 'device net_af_packet1 has interface lo, too' \
		${BASE%--vdev=*} --vdev=net_af_packet0,iface=lo --vdev=net_af_packet1,iface=lo -- $SOCKET \
		--port name=p0,device=net_af_packet0,address=192.0.2.1/24
fi

# A device in EAL's options that does not open.
DEVICE=${BASE%--vdev=*}
ANY="--port name=p0,address=192.0.2.1/24"
refuses 'port p0: device net_af_packet0 does not open: there is no interface nothere' \
	$DEVICE --vdev=net_af_packet0,iface=nothere -- $SOCKET $ANY,device=net_af_packet0
refuses 'port p0: device net_af_packet0 does not open: there is no interface nothere' \
	$DEVICE --vdev=net_af_packet0,iface=nothere -- $SOCKET $ANY
refuses 'port p0: device net_af_packet0 does not open: it names no interface' \
	$DEVICE --vdev=net_af_packet0 -- $SOCKET $ANY
refuses "port p0: device net_memif0 does not open: the socket /nonexistent/cable cannot be made" \
	$DEVICE --vdev=net_memif0,socket=/nonexistent/cable,socket-abstract=no -- $SOCKET $ANY
: >"$WORK/file"
refuses "port p0: device net_memif0 does not open: $WORK/file is there already; remove it" \
	$DEVICE "--vdev=net_memif0,role=server,socket=$WORK/file,socket-abstract=no" -- $SOCKET $ANY
SERVER=role=server,socket=$WORK/twice,socket-abstract=no
refuses "port p1: device net_memif1 does not open: device net_memif0 has its socket $WORK/twice and its id" \
	$DEVICE "--vdev=net_memif0,$SERVER" "--vdev=net_memif1,$SERVER" -- $SOCKET $ANY --port name=p1,address=192.0.3.1/24
refuses 'port p0: device net_bonding0 does not open: a bond needs a mode' $DEVICE --vdev=net_bonding0 -- $SOCKET $ANY
refuses 'port p0: device net_bonding0 refuses its configuration: a bond needs members' \
	$DEVICE --vdev=net_bonding0,mode=1 -- $SOCKET $ANY
dpdk_before 23.11 && MEMBER=slave || MEMBER=member
refuses 'port p0: device net_bonding0 cannot be used: its member net_ring9 is no device' \
	$DEVICE --vdev=net_bonding0,mode=1,$MEMBER=net_ring9 -- $SOCKET $ANY
refuses "port p0: device net_bonding0 cannot be used: its member net_memif0 cannot take the bond's MAC address" \
	$DEVICE "--vdev=net_memif0,$SERVER" --vdev=net_bonding0,mode=1,$MEMBER=net_memif0 -- $SOCKET $ANY,device=net_bonding0
for name in abstract file; do
	[ $name = file ] && abstract=no || abstract=yes
	cable=role=server,socket=$WORK/taken,socket-abstract=$abstract
	# The refused data plane's check of the socket must not disturb its holder: stop_plane checks that the holder ends properly.
	# shellcheck disable=SC2086
	start_plane holder ${DEVICE/file-prefix=/file-prefix=holder-} --vdev=net_memif0,$cable -- $ANY
	refuses "port p0: device net_memif0 does not open: the socket $WORK/taken is taken: a program listens there" \
		$DEVICE --vdev=net_memif0,$cable -- $SOCKET $ANY
	stop_plane holder
done
if [ "$(id -u)" = 0 ]; then
	plain=$DATAPLANE
	printf '#!/bin/sh\nexec setpriv --bounding-set=-net_raw --inh-caps=-net_raw %s "$@"\n' "$plain" >"$WORK/unprivileged"
	chmod +x "$WORK/unprivileged"
	DATAPLANE=$WORK/unprivileged
	refuses 'port p0: device net_af_packet0 does not open: raw packets need CAP_NET_RAW' \
		$DEVICE --vdev=net_af_packet0,iface=lo -- $SOCKET $ANY
	DATAPLANE=$plain
fi

# Slots of af_packet's rings that do not suit.
refuses 'framesz=3072, blocksz=8192 and framecnt=512 do not fit together' \
	$DEVICE --vdev=net_af_packet0,iface=lo,framesz=3072,blocksz=8192 -- $SOCKET $ANY
refuses 'port p0: mtu 1500: a slot of framesz=1024 cuts off all above 944; write mtu = 944 or framesz=' \
	$DEVICE --vdev=net_af_packet0,iface=lo,framesz=1024 -- $SOCKET $ANY,mtu=1500

# Options on the wrong side of the --.
refuses 'option --port: it is among the EAL options; write it after a --' $DEVICE $ANY
refuses 'option --idle=sleep: it is among the EAL options' $DEVICE --idle=sleep -- $SOCKET $ANY

# Two DPDK programs with one file prefix.
# shellcheck disable=SC2086
start_plane first $BASE -- $PORT
refuses 'another DPDK program runs with the same file prefix; give this one its own' $BASE -- $SOCKET $PORT
stop_plane first

# memif's zero-copy=yes needs --single-file-segments, which EAL combines with --no-huge only before DPDK 25.11.
if dpdk_before 25.11; then
	refuses "zero-copy=yes: DPDK's memif cannot connect such a cable twice" --single-file-segments \
		$DEVICE "--vdev=net_memif0,role=client,socket=$WORK/cable,socket-abstract=no,zero-copy=yes" \
		-- $SOCKET --port name=p0,address=192.0.2.1/24
else
	leave_out "zero-copy=yes needs hugepages with this DPDK"
fi

# A full or read-only file system for EAL's files.
if [ "$(id -u)" = 0 ] && mkdir "$WORK/full" && mount -t tmpfs -o size=64k full "$WORK/full"; then
	net_at_exit() { umount "$WORK/full"; }
	RUNTIME_DIRECTORY=$WORK/full refuses "EAL: its files cannot be made in $WORK/full: No space left on device; make room" $BASE -- $SOCKET $PORT
	[ -z "$(ls "$WORK/full")" ] || fail "$(ls "$WORK/full") is left"
	mount -o remount,ro "$WORK/full"
	RUNTIME_DIRECTORY=$WORK/full refuses "EAL: its files cannot be made in $WORK/full: Read-only file system" $BASE -- $SOCKET $PORT
	umount "$WORK/full"
	unset -f net_at_exit
else
	leave_out "a full file system: none can be mounted"
fi

# Reserved hugepages without a mounted hugetlbfs.
if [ "$(id -u)" = 0 ] && reserve_hugepages 1; then
	plain=$DATAPLANE
	printf '#!/bin/sh\nexec unshare -m sh -c '\''umount -a -t hugetlbfs; exec %s "$@"'\'' sh "$@"\n' "$plain" >"$WORK/unmounted"
	chmod +x "$WORK/unmounted"
	DATAPLANE=$WORK/unmounted
	refuses 'hugepages: no hugetlbfs is mounted; mount one with hugeadm --create-mounts' \
		${DEVICE/--no-huge/} -- $SOCKET $ANY
	DATAPLANE=$plain
else
	leave_out "no hugepage can be reserved"
fi

# Frames that need several buffers are allowed, but slow: only a warning.
# shellcheck disable=SC2086
start_plane slow $DEVICE "--vdev=net_memif0,$SERVER" -- $ANY,mtu=4200
expect 'frames of mtu 4200 take several buffers of bsize=2048 each' "$(plane_log slow)"
stop_plane slow
# shellcheck disable=SC2086
start_plane fast $DEVICE "--vdev=net_memif0,$SERVER,bsize=4352" -- $ANY,mtu=4200
! grep -q 'event=port_slow' "$(plane_log fast)" || fail 'a suitable bsize causes a warning'
stop_plane fast

for where in '--version' '-l 0,1 -- --version' '-l 0,1 --version --'; do
	# shellcheck disable=SC2086
	"$DATAPLANE" $where >"$WORK/out" || fail "$where: status $?"
	grep -qx 'oneside-dataplane [0-9.]*, DPDK [0-9.]*' "$WORK/out" || fail "$where says $(cat "$WORK/out")"
done
"$DATAPLANE" -l 0,1 --help >"$WORK/out" || fail "-l 0,1 --help: status $?"
expect '--port name=NAME' "$WORK/out"
"$DATAPLANE" --help >"$WORK/out" || fail "--help: status $?"
expect '--port name=NAME' "$WORK/out"
"$DATAPLANE" -l 0,1 -- --help >"$WORK/out" || fail "-- --help: status $?"
expect '--port name=NAME' "$WORK/out"

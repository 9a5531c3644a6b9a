#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test --check: a good configuration lacks nothing; each missing thing has one line that names it and the command that
# provides it.
. "$(dirname "$0")/lib.sh"
net_init

PREFIX=$(basename "$WORK")
EAL="--lcores=0,1@0 --no-pci --iova-mode=va --file-prefix=$PREFIX"
SMALL="$EAL --no-huge -m 256"
CABLE="--vdev=net_memif0,role=server,socket=$WORK/cable,socket-abstract=no,bsize=4352"
PORT="--port name=p0,device=net_memif0,address=192.0.2.1/24,mtu=4200"
SOCKET="--socket $WORK/s"

HOW=--check
# checks STATUS TEXT ARGUMENTS...
checks() {
	local want=$1 text=$2 status
	shift 2
	# shellcheck disable=SC2086
	"$DATAPLANE" $* "$HOW" >"$WORK/out" 2>"$WORK/err" </dev/null
	status=$?
	[ "$status" = "$want" ] || {
		cat "$WORK/out" "$WORK/err" >&2
		fail "$*: status $status, not $want"
	}
	expect "$text" "$WORK/out"
	! grep -v '^missing: \|^advice: \|^Nothing essential\|^[0-9]* essential thing' "$WORK/out" |
		grep -v '^EAL\|^TELEMETRY' | grep -q . || fail "$*: a line is neither advice nor missing"
	[ ! -e "$WORK/s" ] || fail "$*: $HOW leaves a socket"
	say "$(grep -F -- "$text" "$WORK/out" | head -n 1)"
}

checks 0 'Nothing essential is missing.' $SMALL $CABLE -- $SOCKET $PORT
checks 0 'advice: hugepages: --no-huge works' $SMALL $CABLE -- $SOCKET $PORT
AUTOGROUP=$(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null)
case $AUTOGROUP-$(uname -r) in
1-6.18.*) checks 0 'advice: kernel.sched_autogroup_enabled = 1' $SMALL $CABLE -- $SOCKET $PORT --idle sleep ;;
*) ! grep autogroup "$WORK/out" || fail "advice about kernel.sched_autogroup_enabled = $AUTOGROUP on Linux $(uname -r)" ;;
esac
checks 0 'Nothing essential is missing.' $SMALL $CABLE -- $SOCKET $PORT --idle spin
! grep autogroup "$WORK/out" || fail "a core that spins yields to nobody"
checks 1 'missing: there is no port' $SMALL $CABLE -- $SOCKET
checks 1 'no port reaches address 10.9.9.9' $SMALL $CABLE -- $SOCKET $PORT --node 1 --peer node=2,address=10.9.9.9
checks 1 "missing: socket /nonexistent/dir/s: no file can be made in /nonexistent/dir" \
	$SMALL $CABLE -- --socket /nonexistent/dir/s $PORT
checks 1 "missing: ctl /nonexistent/dir/c: no file can be made in /nonexistent/dir" $SMALL $CABLE -- $SOCKET --ctl /nonexistent/dir/c $PORT
checks 1 "missing: metrics /nonexistent/dir/m: no file can be made in /nonexistent/dir" $SMALL $CABLE -- $SOCKET --metrics unix:/nonexistent/dir/m $PORT
checks 0 'Nothing essential is missing.' $SMALL $CABLE -- $SOCKET --metrics "unix:$WORK/made/m" $PORT
checks 1 "missing: metrics = 192.0.2.77:9464: Cannot assign requested address" $SMALL $CABLE -- $SOCKET --metrics 192.0.2.77:9464 $PORT
# The start of a data plane would create this directory.
checks 0 'Nothing essential is missing.' $SMALL $CABLE -- --socket "$WORK/made/s" $PORT
: >"$WORK/file"
checks 1 "missing: socket $WORK/file/s: no file can be made in $WORK/file" $SMALL $CABLE -- --socket "$WORK/file/s" $PORT
checks 1 'DPDK has no device net_memif7' $SMALL $CABLE -- $SOCKET \
	--port name=p0,device=net_memif7,address=192.0.2.1/24
checks 1 'there is no PCI device 0000:fe:1f.7' $SMALL $CABLE -- $SOCKET \
	--port name=p0,device=0000:fe:1f.7,address=192.0.2.1/24
checks 1 'the socket /nonexistent/cable cannot be made' $SMALL \
	--vdev=net_memif0,socket=/nonexistent/cable,socket-abstract=no -- $SOCKET $PORT
checks 1 'device net_af_packet0: there is no interface nothere' $SMALL \
	--vdev=net_af_packet0,iface=nothere -- $SOCKET --port name=p0,address=192.0.2.1/24
HOW=--precheck
checks 1 'missing: processors: the EAL option -l 0,99 names 99' -l 0,99 --no-pci --no-huge -m 256 $CABLE -- $SOCKET $PORT
checks 1 'missing: processors: the EAL option --lcores 0@0,(1-2)@(0,98) names 98' "--lcores=0@0,(1-2)@(0,98)" --no-pci --no-huge -m 256 $CABLE -- $SOCKET $PORT
HOW=--check
checks 1 'leave no port' $SMALL -- $SOCKET --port name=p0,address=192.0.2.1/24
checks 1 'give the EAL option -l 0,1' -l 0 --no-pci --file-prefix="$PREFIX" --no-huge -m 256 $CABLE -- $SOCKET $PORT

checks 1 'device net_af_packet0: framesz=3072, blocksz=8192 and framecnt=512 do not fit together' $SMALL \
	--vdev=net_af_packet0,iface=lo,framesz=3072,blocksz=8192 -- $SOCKET --port name=p0,address=192.0.2.1/24
checks 0 'advice: device net_memif0: frames of mtu 4200 take several buffers of bsize=2048' $SMALL \
	"${CABLE%,bsize=*}" -- $SOCKET $PORT

checks 0 'advice: device net_memif0: every process of this network namespace can connect to the abstract socket' $SMALL \
	"--vdev=net_memif0,role=server,socket=$WORK/abstract,bsize=4352" -- $SOCKET $PORT

# All notations of three polling cores need the same memory, and one core less.
needs() { # EAL-OPTIONS: prints the number of hugepages
	# shellcheck disable=SC2086
	"$DATAPLANE" $* --no-pci --file-prefix="$PREFIX" --no-huge -m 256 $CABLE -- $SOCKET $PORT --check 2>"$WORK/err" |
		sed -n 's/^advice: hugepages:.* 2MB:\([0-9]*\),.*/\1/p'
}
three=$(needs -l 0,1,2,3)
[ -n "$three" ] && [ "$three" -gt "$(needs -l 0,1)" ] || fail "three polling cores need $three pages"
for cores in '-l 0-3' '-l 0,1-3' '--lcores=0@0,(1-3)@(0,1)' '--lcores (0-3)@0' '--lcores 0-1,2-3@0'; do
	[ "$(needs "$cores")" = "$three" ] || fail "$cores is not counted as three polling cores"
done

# --precheck starts nothing: it reports only what it sees, and cannot know that DPDK has no device net_memif7.
HOW=--precheck
# DPDK 23.11 renamed the option `slave` to `member`.
checks 0 'advice: device net_bonding0: DPDK does not see when the link of its member net_tap0 fails' $SMALL --vdev=net_tap0 \
	--vdev=net_bonding0,mode=1,slave=net_tap0,member=net_tap0 -- $SOCKET --port name=p0,device=net_bonding0,address=192.0.2.1/24
checks 0 'Nothing essential is missing.' $SMALL $CABLE -- $SOCKET $PORT
checks 0 'Nothing essential is missing.' $SMALL $CABLE -- $SOCKET --port name=p0,device=net_memif7,address=192.0.2.1/24
! grep -q "EAL: " "$WORK/out" "$WORK/err" || fail "--precheck starts EAL"
[ ! -e "$WORK/cable" ] || fail "--precheck makes a device"
checks 1 'no port reaches address 10.9.9.9' $SMALL $CABLE -- $SOCKET $PORT --node 1 --peer node=2,address=10.9.9.9
checks 1 'there is no interface nothere' $SMALL --vdev=net_af_packet0,iface=nothere -- $SOCKET \
	--port name=p0,address=192.0.2.1/24

# Hugepages of a killed data plane count as free: the next data plane with the same file prefix reuses them.
needed=$(needs -l 0,1)
there=$(cat ${HUGEPAGES%/*}/free_hugepages 2>/dev/null)
if [ "$(id -u)" = 0 ] && [ "${there:-$needed}" -lt "$needed" ] && reserve_hugepages $((needed + 2 - there)) && mkdir "$WORK/huge" &&
	mount -t hugetlbfs -o pagesize=2M huge "$WORK/huge"; then
	net_at_exit() { umount "$WORK/huge"; }
	HUGE="$EAL --huge-dir=$WORK/huge"
	# shellcheck disable=SC2086
	start_plane a $HUGE $CABLE -- $PORT --idle sleep
	kill_plane a
	there=$(cat ${HUGEPAGES%/*}/free_hugepages)
	left=$(find "$WORK/huge" -name '*map_*' | wc -l)
	if [ "$there" -lt "$needed" ] && [ $((there + left)) -ge "$needed" ]; then
		checks 0 'Nothing essential is missing.' $HUGE $CABLE -- $SOCKET $PORT
		checks 1 'hugeadm --pool-pages-min 2MB:' $HUGE --file-prefix=other $CABLE -- $SOCKET $PORT
	else
		leave_out "hugepages of a killed data plane: other programs have taken or freed some"
	fi
	rm -f "$WORK"/huge/*
	umount "$WORK/huge" && release_hugepages
	unset -f net_at_exit
else
	leave_out "hugepages of a killed data plane: none can be reserved, or many are free"
fi
HOW=--check

# Lack of hugepages can be tested only if none is free.
if ! grep -qv '^0$' /sys/kernel/mm/hugepages/*/free_hugepages; then
	checks 1 'hugeadm --pool-pages-min 2MB:' $EAL $CABLE -- $SOCKET $PORT
fi
# A data plane needs at least two processors.
first=$(allowed_cpus | head -n 1)
DATAPLANE_REAL=$DATAPLANE
printf '#!/bin/sh\nexec taskset -c %s %s "$@"\n' "$first" "$DATAPLANE_REAL" >"$WORK/pinned"
chmod +x "$WORK/pinned"
DATAPLANE=$WORK/pinned
checks 1 'missing: processors: this process may use 1' $SMALL $CABLE -- $SOCKET $PORT
DATAPLANE=$DATAPLANE_REAL

# Check next to a running data plane.
start_memif_plane a
# shellcheck disable=SC2086
"$DATAPLANE" $SMALL $CABLE -- --socket "$(plane_socket a)" $PORT --check >"$WORK/out" 2>&1 ||
	fail "next to a running data plane: status $?"
expect 'advice: socket' "$WORK/out"
stop_plane a

# Warn if the kernel has the data plane's or a peer's address too.
if [ "$(id -u)" = 0 ] && make_namespace kernel; then
	ip -n "$NETNS" addr add 192.0.2.1/32 dev lo
	ip -n "$NETNS" addr add 2001:db8::7/64 dev lo nodad
	printf '#!/bin/sh\nexec ip netns exec %s %s "$@"\n' "$NETNS" "$DATAPLANE_REAL" >"$WORK/in-namespace"
	chmod +x "$WORK/in-namespace"
	DATAPLANE=$WORK/in-namespace
	checks 0 'advice: port p0: the kernel has 192.0.2.1, too, on lo: ' $SMALL $CABLE -- $SOCKET $PORT
	expect 'ip addr del 192.0.2.1/32 dev lo' "$WORK/out"
	SIX="--port name=p0,device=net_memif0,address=2001:db8::1/64,mtu=4200 --node 1"
	checks 0 'advice: peer 2: the kernel has 2001:db8::7, too, on lo: ' \
		$SMALL $CABLE -- $SOCKET $SIX --peer node=2,address=2001:db8::7
	start_memif_plane a
	expect ' warning control: event=kernel_address text="port p0: the kernel has 192.0.2.1, too' "$(plane_log a)"
	stop_plane a
	DATAPLANE=$DATAPLANE_REAL
	checks 0 'Nothing essential is missing.' $SMALL $CABLE -- $SOCKET $PORT
	! grep -q 'the kernel has' "$WORK/out" || fail "--check warns of an address that the kernel has not"
else
	leave_out "addresses of the kernel: namespaces need root"
fi

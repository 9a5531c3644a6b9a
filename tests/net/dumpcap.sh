#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dpdk-dumpcap captures the traffic of two data planes at one that has hugepages; tshark must dissect it as RoCE. With
# --no-huge or --in-memory a capture is refused, and does no harm.
. "$(dirname "$0")/lib.sh"
command -v dpdk-dumpcap >/dev/null || skip "there is no dpdk-dumpcap (Debian: dpdk-dev)"
command -v tshark >/dev/null || skip "there is no tshark"
[ "$(dpdk-dumpcap --version 2>&1 | grep -o 'DPDK [0-9.]*')" = "$("$DATAPLANE" --version | grep -o 'DPDK [0-9.]*')" ] ||
	skip "dpdk-dumpcap is of another DPDK"
[ -x "$BUILD/perf/oneside-copy" ] || skip "there is no oneside-copy (-Dperf=false)"
# The test mounts its own hugetlbfs, in a mount namespace.
if [ -z "${DUMPCAP_INSIDE:-}" ]; then
	[ "$(id -u)" = 0 ] || skip "hugepages and a mount namespace need root"
	DUMPCAP_INSIDE=1 exec unshare -m bash "$0"
fi
net_init
reserve_hugepages 192 || skip "no 192 hugepages of 2 MiB can be reserved"
mkdir "$WORK/huge" && mount -t hugetlbfs none "$WORK/huge" || skip "no hugetlbfs can be mounted"
net_at_exit() { umount "$WORK/huge"; }
head -c 3000001 /dev/urandom >"$WORK/file"
PREFIX=$(basename "$WORK")-a

copies() {
	: >"$WORK/receive" # discard the output of the previous receiver
	ONESIDE_SOCKET=$(plane_socket b) "$BUILD/perf/oneside-copy" receive "$WORK/copy" >"$WORK/receive" 2>&1 &
	local receiver=$!
	APPLICATIONS+=("$receiver")
	until grep -q 'waiting for a sender' "$WORK/receive"; do
		kill -0 "$receiver" 2>/dev/null || fail "no receiver: $(cat "$WORK/receive")"
		sleep 0.1
	done
	ONESIDE_SOCKET=$(plane_socket a) "$BUILD/perf/oneside-copy" send "$WORK/file" 192.0.2.2 >"$WORK/send" 2>&1 ||
		fail "no copy: $(cat "$WORK/send" "$WORK/receive")"
	wait "$receiver" || fail "the receiver: $(cat "$WORK/receive")"
	cmp "$WORK/file" "$WORK/copy" || fail "the copy differs"
}

# EAL's files are in RUNTIME_DIRECTORY, as a service's are, and not in the capturing user's default folder.
mkdir "$WORK/run"
RUNTIME_DIRECTORY=$WORK/run PLANE_MEMORY="--huge-dir $WORK/huge" start_memif_plane a --mbufs 4096
start_memif_plane b
# onesidectl executes dpdk-dumpcap in the same process.
"$BUILD/control/onesidectl" -s "$(plane_socket a).ctl" capture file="$WORK/a.pcapng" >"$WORK/dumpcap" 2>&1 &
capture=$!
APPLICATIONS+=("$capture")
until grep -q '^Capturing on\|^File:' "$WORK/dumpcap" && [ -s "$WORK/a.pcapng" ]; do
	kill -0 "$capture" 2>/dev/null || fail "dpdk-dumpcap: $(cat "$WORK/dumpcap")"
	sleep 0.1
done
# dpdk-dumpcap does not report when it begins, and writes packets in batches: copy until enough are in the file.
tries=100
until [ "$(stat -c %s "$WORK/a.pcapng")" -gt 1000000 ]; do
	[ "$tries" -gt 0 ] || fail "dpdk-dumpcap: $(cat "$WORK/dumpcap")"
	copies
	tries=$((tries - 1))
done
kill -INT "$capture"
wait "$capture" || fail "dpdk-dumpcap: $(cat "$WORK/dumpcap")"
APPLICATIONS=()
# A copy has 733 packets of 4096 bytes; packets that found dpdk-dumpcap's ring full are missing in the file.
count() { tshark -r "$WORK/a.pcapng" -Y "$1" 2>/dev/null | wc -l; }
packets=$(count infiniband) writes=$(count 'infiniband.bth.opcode >= 6 && infiniband.bth.opcode <= 11')
acks=$(count 'infiniband.bth.opcode == 17') requests=$(count 'infiniband.mad.attributeid == 0x10')
say "captured: $packets packets of RoCE, $writes of RDMA writes, $acks acknowledgements, $requests connection requests"
[ "$writes" -gt 200 ] && [ "$acks" -gt 0 ] || {
	cat "$WORK/dumpcap" >&2
	fail "the capture lacks WRITEs or acknowledgements"
}
# Traffic continues after the capture.
copies
stop_plane b
stop_plane a

# refused MEMORY-OPTIONS...
refused() {
	PLANE_MEMORY=$* start_memif_plane a
	dpdk-dumpcap --file-prefix="$PREFIX" -i net_memif0 -w "$WORK/none.pcapng" >"$WORK/dumpcap" 2>&1 </dev/null &&
		fail "$*: dpdk-dumpcap captures"
	say "$*: $(tail -n 1 "$WORK/dumpcap")"
	"$BUILD/control/onesidectl" -s "$(plane_socket a).ctl" capture file="$WORK/none.pcapng" 2>"$WORK/dumpcap" &&
		fail "$*: onesidectl captures"
	expect "runs with $1" "$WORK/dumpcap"
	stop_plane a
}
refused --no-huge -m 512
refused --in-memory

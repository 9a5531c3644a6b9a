#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dpdk-dumpcap takes what two data planes say to each other, at one of them, which has hugepages; the
# file is RoCE to tshark.  Beside --no-huge and --in-memory it is refused, and harms nothing.
. "$(dirname "$0")/lib.sh"
command -v dpdk-dumpcap >/dev/null || skip "there is no dpdk-dumpcap (Debian: dpdk-dev)"
command -v tshark >/dev/null || skip "there is no tshark"
[ "$(dpdk-dumpcap --version 2>&1 | grep -o 'DPDK [0-9.]*')" = "$("$DATAPLANE" --version | grep -o 'DPDK [0-9.]*')" ] ||
	skip "dpdk-dumpcap is of another DPDK"
[ -x "$BUILD/perf/oneside-copy" ] || skip "there is no oneside-copy (-Dperf=false)"
# A filesystem of hugepages is mounted for this test alone.
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
	: >"$WORK/receive" # what the last one has said is not this one's
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

# As of a service, EAL's files are not where those of whoever captures would be.
mkdir "$WORK/run"
RUNTIME_DIRECTORY=$WORK/run PLANE_MEMORY="--huge-dir $WORK/huge" start_memif_plane a --mbufs 4096
start_memif_plane b
# Which becomes dpdk-dumpcap.
"$BUILD/control/onesidectl" -s "$(plane_socket a).ctl" capture file="$WORK/a.pcapng" >"$WORK/dumpcap" 2>&1 &
capture=$!
APPLICATIONS+=("$capture")
until grep -q '^Capturing on\|^File:' "$WORK/dumpcap" && [ -s "$WORK/a.pcapng" ]; do
	kill -0 "$capture" 2>/dev/null || fail "dpdk-dumpcap: $(cat "$WORK/dumpcap")"
	sleep 0.1
done
# It says nothing when it has begun, and takes packets from its ring in turns.
tries=100
until [ "$(stat -c %s "$WORK/a.pcapng")" -gt 1000000 ]; do
	[ "$tries" -gt 0 ] || fail "dpdk-dumpcap: $(cat "$WORK/dumpcap")"
	copies
	tries=$((tries - 1))
done
kill -INT "$capture"
wait "$capture" || fail "dpdk-dumpcap: $(cat "$WORK/dumpcap")"
APPLICATIONS=()
# A copy is 733 packets of 4096 bytes; what its ring could not take is not in the file.
count() { tshark -r "$WORK/a.pcapng" -Y "$1" 2>/dev/null | wc -l; }
packets=$(count infiniband) writes=$(count 'infiniband.bth.opcode >= 6 && infiniband.bth.opcode <= 11')
acks=$(count 'infiniband.bth.opcode == 17') requests=$(count 'infiniband.mad.attributeid == 0x10')
say "captured: $packets packets of RoCE, $writes of RDMA writes, $acks acknowledgements, $requests connection requests"
[ "$writes" -gt 200 ] && [ "$acks" -gt 0 ] || {
	cat "$WORK/dumpcap" >&2
	fail "that is not what passed"
}
# When nobody captures any more, all goes on.
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

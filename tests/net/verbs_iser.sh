#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run an iSCSI target (tgtd of tgt) and programs of libiscsi over iSER: commands are SENDs, and the target moves data by RDMA
# WRITEs and READs. libiscsi's tests write patterns, read them again, and let the target compare.
#
#   verbs_iser.sh local|memif

. "$(dirname "$0")/verbs_lib.sh"
for program in tgtd iscsi-test-cu; do
	# quickstart does not install tgt, because the package would start tgtd on the machine.
	command -v $program >/dev/null || skip "$program is missing: apt-get install tgt libiscsi-bin"
done
verbs_init "$1"
[ ${#INSIDE[@]} -gt 0 ] || skip "network namespaces need root"
CONTROL=$(($$ % 30000 + 1)) # number of tgtd's control socket
TARGET=iqn.2001-04.com.example:disk INITIATOR=iqn.2001-04.com.example:initiator
URL=iser://${addresses[0]}:3261/$TARGET/1

# tgtd ignores SIGTERM: kill it.
net_at_exit() { pkill -KILL -P "$server"; }

administer() {
	"${INSIDE[@]}" tgtadm -C $CONTROL --lld iser "$@" >"$WORK/tgtadm" 2>&1
}

mkdir -p /var/run/tgtd
truncate -s 16M "$WORK/disk"
on 0 tgtd -f -C $CONTROL --iscsi portal=127.0.0.1:3260 --iser port=3261 >"$WORK/tgtd" 2>&1 &
server=$!
until administer --op new --mode target --tid 1 --targetname $TARGET; do
	kill -0 "$server" || fail "tgtd has ended: $(cat "$WORK/tgtd")"
	sleep 0.1
done
administer --op new --mode logicalunit --tid 1 --lun 1 -b "$WORK/disk" || fail "a disk: $(cat "$WORK/tgtadm")"
# Versions of tgtd before 1.0.95 need both bindings for iSER; otherwise they report no such target.
administer --op bind --mode target --tid 1 -I ALL || fail "addresses: $(cat "$WORK/tgtadm")"
administer --op bind --mode target --tid 1 -Q $INITIATOR || fail "an initiator: $(cat "$WORK/tgtadm")"

# libiscsi 1.19 ends without waiting for the thread that takes the CM's events; on a busy machine that thread reads freed memory, which
# the test runner's MALLOC_PERTURB_ would have overwritten.
initiate() { # PROGRAM ARGUMENTS...
	MALLOC_PERTURB_=0 on 1 "$1" -i $INITIATOR "${@:2}" "$URL" >"$WORK/initiator" 2>&1 || {
		cat "$WORK/tgtd" "$WORK/initiator" >&2
		fail "$* fails"
	}
}

initiate iscsi-inq
expect 'Vendor:IET' "$WORK/initiator"
initiate iscsi-readcapacity16
expect 'Total size:16777216' "$WORK/initiator"
# Leave out libiscsi's tests "Async": they have more commands in flight than libiscsi has descriptors, and crash.
for test in Read16 Write16 WriteVerify10 Verify10 Read10.Simple Write10.Simple; do
	initiate iscsi-test-cu -d -t "SCSI.$test"
	grep -qE 'asserts +[0-9]+ +[0-9]+ +[0-9]+ +0 ' "$WORK/initiator" || fail "SCSI.$test: $(cat "$WORK/initiator")"
	say "SCSI.$test"
done
[ "$(tr -d '\0' <"$WORK/disk" | wc -c)" -gt 0 ] || fail "nothing was written"
initiate iscsi-perf -m 8 -b 64 -t 2
grep -q 'finished' "$WORK/initiator" || fail "iscsi-perf: $(cat "$WORK/initiator")"
# Repeat the deletion: if forced, tgtd crashes while a connection is in TIMEWAIT.
until administer --op delete --mode target --tid 1; do
	kill -0 "$server" || fail "tgtd has ended: $(cat "$WORK/tgtd")"
	sleep 0.1
done
administer --op delete --mode system || fail "tgtd's end: $(cat "$WORK/tgtadm")"
wait "$server" || fail "tgtd ends with $?: $(cat "$WORK/tgtd")"

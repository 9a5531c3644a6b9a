#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a data plane refuses at start: status 1, and one sentence with object, value and remedy.
. "$(dirname "$0")/lib.sh"
net_init

BASE="--lcores=0,1@0 --no-huge -m 256 --no-pci --iova-mode=va --file-prefix=$(basename "$WORK") --vdev=net_ring0"
PORT="--port name=p0,device=net_ring0,address=192.0.2.1/24"
SOCKET="--socket $WORK/s"

# refuses TEXT ARGUMENTS...: with words as they are
refuses() {
	local text=$1 status
	shift
	# shellcheck disable=SC2086
	timeout 30 "$DATAPLANE" $* >"$WORK/out" 2>&1 </dev/null
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
refuses "zero-copy=yes: DPDK's memif cannot connect such a cable twice" --single-file-segments \
	"${BASE%--vdev=*}" "--vdev=net_memif0,role=client,socket=$WORK/cable,socket-abstract=no,zero-copy=yes" \
	-- $SOCKET --port name=p0,address=192.0.2.1/24
refuses 'dma = dma_skeleton: DPDK has no DMA device' $BASE -- $SOCKET $PORT --dma dma_skeleton
refuses 'dma = dma_skeleton,: this is not a list of devices' $BASE -- $SOCKET $PORT --dma dma_skeleton,
refuses 'dma = other: DPDK has no such DMA device; name one of dma_skeleton' $BASE --vdev=dma_skeleton -- $SOCKET $PORT --dma other
refuses 'dma = dma_skeleton: 1 virtual channel in all are too few for 2 polling cores' \
	--lcores=0,1@0,2@0 "${BASE#* }" --vdev=dma_skeleton -- $SOCKET $PORT --dma dma_skeleton
refuses 'give the EAL option -l 0,1' -l 0 "${BASE#* }" -- $SOCKET $PORT
refuses 'EAL: it cannot start' --no-such-option ${BASE} -- $SOCKET $PORT

# Options on the wrong side of the --.
refuses 'option --port: it stands among the EAL options; write it after a --' $BASE $PORT
refuses 'option --idle=sleep: it stands among the EAL options' $BASE --idle=sleep -- $SOCKET $PORT

# Two DPDK programs of one file prefix.
# shellcheck disable=SC2086
start_plane first $BASE -- $PORT
refuses 'another DPDK program runs with the same file prefix; give this one its own' $BASE -- $SOCKET $PORT
stop_plane first

for where in '--version' '-l 0,1 -- --version' '-l 0,1 --version --'; do
	# shellcheck disable=SC2086
	timeout 10 "$DATAPLANE" $where >"$WORK/out" || fail "$where: status $?"
	grep -qx 'oneside-dataplane [0-9.]*, DPDK [0-9.]*' "$WORK/out" || fail "$where says $(cat "$WORK/out")"
done
timeout 10 "$DATAPLANE" -l 0,1 --help >"$WORK/out" || fail "-l 0,1 --help: status $?"
expect '--port name=NAME' "$WORK/out"
timeout 10 "$DATAPLANE" --help >"$WORK/out" || fail "--help: status $?"
expect '--port name=NAME' "$WORK/out"
timeout 10 "$DATAPLANE" -l 0,1 -- --help >"$WORK/out" || fail "-- --help: status $?"
expect '--port name=NAME' "$WORK/out"

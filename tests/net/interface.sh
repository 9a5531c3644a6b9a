#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Change the kernel interface of an af_packet port in use: down, up, a smaller MTU, frames dropped because the receive
# ring is full, deleted, created again. Each change is reported, and transfers continue after the last.
. "$(dirname "$0")/lib.sh"
net_init

ctl() {
	local name=$1
	shift
	ONESIDE_SOCKET=$(plane_socket "$name") "$BUILD/control/onesidectl" "$@"
}
fact() { ctl "$1" show ports --json | python3 -c "import json, sys; print(json.load(sys.stdin)['ports'][0].get('$2'))"; }

# await_fact PLANE FACT VALUE
await_fact() {
	until [ "$(fact "$1" "$2")" = "$3" ]; do
		kill -0 "$(plane_pid "$1")" 2>/dev/null || fail "data plane $1 is gone"
		sleep 0.2
	done
}

# await_line PLANE TEXT COUNT
await_line() {
	until [ "$(grep -cF -- "$2" "$(plane_log "$1")")" -ge "$3" ]; do
		kill -0 "$(plane_pid "$1")" 2>/dev/null || fail "data plane $1 is gone"
		sleep 0.05
	done
}

transfer() {
	"$BUILD/tests/net/net-dat-transfer" "$(plane_socket a)" "$(plane_socket b)" send >"$WORK/out" 2>&1 || {
		cat "$WORK/out" >&2
		fail "$1: nothing is transferred"
	}
}

A=oneside-$$-a
B=oneside-$$-b
need_root
make_namespace a
make_namespace b
make_veth "$A" "$B"

# prechecks STATUS MTU TEXT: runs --precheck, before the data plane is started.
prechecks() {
	ip netns exec "$A" "$DATAPLANE" --lcores=0,1@0 --no-huge -m 256 --no-pci \
		--vdev=net_af_packet0,iface=veth0,framesz=8192,blocksz=65536,framecnt=1024 -- --socket "$WORK/s" \
		--port "name=p0,device=net_af_packet0,address=192.0.2.1/24,mtu=$2" --precheck >"$WORK/out" 2>&1
	[ $? = "$1" ] || fail "--precheck: $(cat "$WORK/out")"
	expect "$3" "$WORK/out"
}
prechecks 1 9000 'port p0 has mtu = 9000, and interface veth0 only 4200; write mtu = 4200, or: ip link set veth0 mtu 9000'
ip -n "$A" link set veth0 down
prechecks 0 4200 'advice: device net_af_packet0: interface veth0 is down, or has no carrier'
say "--precheck reports a link that is down, and an MTU that is too small"

# The port announces its address when the link comes up, and repeats the announcement; an earlier one would be lost.
ip netns exec "$B" python3 - >"$WORK/announced" <<'PYTHON' &
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x806)) as s:
    s.bind(("veth0", 0x806))
    count = 0
    print("ready", flush=True)
    while count < 2:
        frame = s.recv(2048)
        count += frame[28:32] == frame[38:42] == bytes([192, 0, 2, 1])
    print("announced", flush=True)
PYTHON
listener=$!
APPLICATIONS+=("$listener")
until grep -q ready "$WORK/announced"; do sleep 0.05; done
start_af_packet_plane a
await_fact a link down
ip -n "$A" link set veth0 up
wait "$listener" || fail "nothing is announced"
say "a port whose link comes later is announced then, and once more"
start_af_packet_plane b
await_fact a link up
await_fact b link up
transfer "at first"

ip -n "$A" link set veth0 down
await_fact a link down
await_fact b link down # veth0 of b has lost its carrier
await_line a 'event=link port=p0 interface=veth0 text="the link is down"' 1
ip -n "$A" link set veth0 up
await_fact a link up
await_fact b link up
await_line a 'text="the link is up"' 2
transfer "after down and up"
say "an interface that goes down and up is reported"

ip -n "$A" link set veth0 mtu 1500
await_fact a interface_mtu 1500
await_line a 'event=mtu port=p0 interface=veth0 mtu=4200 interface_mtu=1500 text="longer frames are lost" remedy="ip link set veth0 mtu 4200"' 1
ip -n "$A" link set veth0 mtu "$CABLE_MTU"
await_line a "interface_mtu=$CABLE_MTU text=\"frames of the port's mtu pass\"" 1
transfer "with the MTU as it was"
say "a smaller MTU is reported, and that it has grown again"

# A stopped data plane does not drain its receive ring; the kernel drops frames that do not fit.
[ "$(fact b rx_missed)" = 0 ] || fail "frames are missed before any was: $(ctl b show ports --json)"
kill -STOP "$(plane_pid b)"
ip netns exec "$A" python3 - <<'PYTHON' || fail "no raw frames"
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
    s.bind(("veth0", 0))
    for i in range(3000):
        s.send(b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes(64))
PYTHON
kill -CONT "$(plane_pid b)"
until [ "$(fact b rx_missed)" -gt 1000 ]; do sleep 0.05; done
missed=$(fact b rx_missed)
[ "$missed" -lt 3000 ] || fail "$missed frames of 3000 are missed"
[ "$(fact b rx_missed)" -ge "$missed" ] || fail "what was counted is lost"
ctl b metrics >"$WORK/metrics"
grep -q '^oneside_port_rx_missed_total{port="p0"} [1-9]' "$WORK/metrics" || fail "$(grep rx_missed "$WORK/metrics")"
say "frames dropped by a full receive ring are counted: $missed"

sent=$(fact a tx_packets)
addresses=$(fact a address)
ip -n "$A" link del veth0
await_fact a link down
make_veth "$A" "$B"
await_line a 'event=interface_new port=p0 interface=veth0' 1
await_line b 'event=interface_new port=p0 interface=veth0' 1
await_fact a link up
await_fact b link up
mac=$(ip -n "$A" -br link show veth0 | awk '{ print $3 }')
[ "$(fact a mac | tr A-F a-f)" = "$mac" ] || fail "MAC $(fact a mac), and the interface has $mac"
[ "$(fact a address)" = "$addresses" ] || fail "addresses $(fact a address), which were $addresses"
transfer "on interfaces created again"
[ "$(fact a tx_packets)" -gt "$sent" ] || fail "counters restart at 0: $(ctl a show ports --json)"
[ "$(fact b rx_missed)" -ge "$missed" ] || fail "the frames that were missed are forgotten"
say "an interface that was deleted and created again is used"
stop_plane a
stop_plane b

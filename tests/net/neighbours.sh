#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test neighbours on a segment with other hosts:
#   neighbours.sh moved       a switch learns a wrong port for the peer: an idle connection continues
#   neighbours.sh gateway 4|6 a gateway outside of the prefix changes its MAC without notice: a connection continues
#   neighbours.sh flood       a host claims the peer's address within a flood of its own: the peer's MAC stays
#   neighbours.sh segment     VLANs, and ARP from other networks
#   neighbours.sh multicast   IPv6 on an interface that filters multicast
#   neighbours.sh duplicate   another host has the port's address
. "$(dirname "$0")/lib.sh"
net_init
need_root
for name in a b switch other; do make_namespace "$name"; done
in_ns() { ip netns exec "oneside-$$-$1" "${@:2}"; }
frames() { in_ns "$1" python3 "$(dirname "$0")/frames.py" "${@:2}"; }

# cable NAME INTERFACE NAME INTERFACE: joins the interfaces of two namespaces
cable() {
	ip link add "$2" netns "oneside-$$-$1" type veth peer name "$4" netns "oneside-$$-$3" || fail "no veth pair"
	while [ $# -gt 0 ]; do
		in_ns "$1" ethtool -K "$2" tx off rx off gso off gro off tso off >/dev/null 2>&1
		ip -n "oneside-$$-$1" link set "$2" up
		shift 2
	done
}

# plane NAME INTERFACE PORT-KEYS: starts a data plane on an interface of its namespace
plane() {
	# shellcheck disable=SC2046
	PLANE_NETNS=oneside-$$-$1 start_plane "$1" $(plane_cores 1) $(eal_options "$1") \
		"--vdev=net_af_packet0,iface=$2" -- --idle "$(plane_idle)" --port "name=p0,device=net_af_packet0,$3"
}

ctl() { ONESIDE_SOCKET=$(plane_socket "$1") "$BUILD/control/onesidectl" "${@:2}"; }
port_of() { ctl "$1" --json show ports | python3 -c "import json, sys; print(json.load(sys.stdin)['ports'][0]['$2'])"; }
drops() { ctl "$1" --json show drops | python3 -c "import json, sys; print(sum(core.get('$2', 0) for core in json.load(sys.stdin)['drops']))"; }

# Makes a connection between a and b, which is idle after one write.
connect() {
	mkfifo "$WORK/orders"
	"$BUILD/tests/net/net-dat-connected" "$(plane_socket a)" "$(plane_socket b)" <"$WORK/orders" >"$WORK/said" 2>&1 &
	APPLICATIONS+=($!)
	exec 9>"$WORK/orders"
	await_said ready
	write_once
}
await_said() { # TEXT [TIMES]
	until [ "$(grep -c "$1" "$WORK/said")" -ge "${2:-1}" ]; do
		kill -0 "${APPLICATIONS[0]}" 2>/dev/null || fail "the application has ended: $(cat "$WORK/said")"
		sleep 0.05
	done
}
writes=0
write_once() {
	echo w >&9
	writes=$((writes + 1))
	await_said written "$writes"
}
# Waits until the data planes' probes and announcements, from which a switch learns their ports, have ended.
await_quiet() {
	sleep 5
}

place_of() { # MAC
	in_ns switch bridge fdb show br br0 | sed -n "s/^$1 dev \\([a-z0-9_]*\\).*/\\1/p" | head -n 1
}

join_switch() { # NAME...
	local name
	in_ns switch ip link add br0 type bridge
	in_ns switch ip link set br0 up
	for name in "$@"; do
		cable "$name" veth0 switch "to_$name"
		in_ns switch ip link set "to_$name" master br0
	done
}

moved() {
	# Without IPv6 the kernel sends no frames, from which the switch would learn the MAC of the plane's interface.
	in_ns a sysctl -qw net.ipv6.conf.default.disable_ipv6=1
	in_ns b sysctl -qw net.ipv6.conf.default.disable_ipv6=1
	join_switch a b other
	plane a veth0 address=192.0.2.1/24
	plane b veth0 address=192.0.2.2/24
	connect
	await_quiet
	mac=$(port_of b mac | tr A-F a-f)
	[ "$(place_of "$mac")" = to_b ] || fail "the switch does not know b at its port"
	frames other veth0 steal "$mac"
	[ "$(place_of "$mac")" = to_other ] || fail "the switch did not learn where the frames came from"
	write_once
	[ "$(place_of "$mac")" = to_b ] || fail "the switch still has b elsewhere"
	say "a write arrives although a switch had the peer elsewhere"
	frames other veth0 steal "$mac"
	[ "$(place_of "$mac")" = to_other ] || fail "the switch did not learn the second time where the frames came from"
	"$BUILD/tests/net/net-dat-transfer" "$(plane_socket a)" "$(plane_socket b)" send >"$WORK/out" 2>&1 ||
		fail "no new connection: $(cat "$WORK/out")"
	say "a connection is made although a switch had the peer elsewhere"
}

gateway() {
	local near far
	cable a veth0 switch ra
	cable b veth0 switch rb
	if [ "$1" = 4 ]; then
		near=10.1.0.1 far=10.2.0.1
		in_ns switch sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.ra.arp_notify=0
		in_ns switch ip addr add 169.254.0.1/32 dev ra
		in_ns switch ip route add 10.1.0.1/32 dev ra
		in_ns switch ip addr add 10.2.0.254/24 dev rb
		plane a veth0 "address=$near/32,gateway=169.254.0.1"
		plane b veth0 "address=$far/24,gateway=10.2.0.254"
	else
		near=2001:db8:1::1 far=2001:db8:2::1
		in_ns switch sysctl -qw net.ipv6.conf.all.forwarding=1
		in_ns switch ip addr add fe80::1/64 dev ra nodad
		in_ns switch ip addr add 2001:db8:1::fe/64 dev ra nodad
		in_ns switch ip addr add fe80::1/64 dev rb nodad
		in_ns switch ip addr add 2001:db8:2::fe/64 dev rb nodad
		plane a veth0 "address=$near/64,gateway=fe80::1"
		plane b veth0 "address=$far/64,gateway=fe80::1"
	fi
	connect
	say "a connection by gateways outside of the prefix"
	in_ns switch ip link set ra address 02:00:00:00:77:01
	write_once
	say "a write arrives although the gateway has another MAC"
}

# The MAC that a has for b.
mac_of_b() {
	ctl a --json show neighbours | python3 -c "import json, sys
print(*(row['mac'].lower() for row in json.load(sys.stdin)['neighbours'] if row['address'] == '192.0.2.2'))"
}

flood() {
	local mac rounds=0 attacker
	in_ns a sysctl -qw net.ipv6.conf.default.disable_ipv6=1
	in_ns b sysctl -qw net.ipv6.conf.default.disable_ipv6=1
	join_switch a b other
	plane a veth0 address=192.0.2.1/24
	plane b veth0 address=192.0.2.2/24
	connect
	mac=$(port_of b mac | tr A-F a-f)
	[ "$(mac_of_b)" = "$mac" ] || fail "a has b at \"$(mac_of_b)\" instead of $mac"
	# While the connection is idle, and while it is used.
	frames other veth0 poison 192.0.2.2 192.0.2.1 "$(port_of a mac)" 100
	[ "$(mac_of_b)" = "$mac" ] || fail "a flood moved an idle peer to \"$(mac_of_b)\""
	frames other veth0 poison 192.0.2.2 192.0.2.1 "$(port_of a mac)" 200 &
	attacker=$!
	APPLICATIONS+=("$attacker")
	while kill -0 "$attacker" 2>/dev/null; do
		write_once
		rounds=$((rounds + 1))
		[ "$(mac_of_b)" = "$mac" ] || fail "a flood moved the peer to \"$(mac_of_b)\""
	done
	write_once
	say "$rounds writes arrived during a flood, and the peer stayed where it is"
	"$BUILD/tests/net/net-dat-transfer" "$(plane_socket a)" "$(plane_socket b)" send >"$WORK/out" 2>&1 ||
		fail "no new connection after the flood: $(cat "$WORK/out")"
}

segment() {
	local mac dropped
	cable a veth0 other veth0
	ip -n "oneside-$$-other" addr add 192.0.2.9/24 dev veth0
	plane a veth0 address=192.0.2.1/24
	[ "$(frames other veth0 arp 192.0.2.9 192.0.2.1)" = answered ] || fail "ARP is not answered"
	[ "$(frames other veth0 arp 192.0.2.9 192.0.2.1 0x6000)" = answered ] || fail "ARP with a priority tag is not answered"
	[ "$(frames other veth0 arp 192.0.2.9 192.0.2.1 0x6064)" = silent ] || fail "ARP of VLAN 100 is answered"
	[ "$(frames other veth0 arp 10.9.9.9 192.0.2.1)" = answered ] || fail "ARP from another network is not answered"
	mac=$(port_of a mac) dropped=$(drops a vlan)
	[ "$dropped" -ge 3 ] || fail "ARP of VLAN 100 is not counted ($dropped)"
	frames other veth0 mad 192.0.2.9 192.0.2.1 "$mac" 100
	until [ "$(drops a vlan)" -gt "$dropped" ]; do
		kill -0 "$(plane_pid a)" || fail "the data plane has ended"
		sleep 0.1
	done
	ip netns exec "oneside-$$-other" ping -n -q -c 1 -W 10 192.0.2.1 >/dev/null || fail "no answer to a ping"
	say "VLANs are separate, and ARP from other networks is answered"
}

multicast() {
	cable a veth0 other veth0
	in_ns a ip link add filtered link veth0 type macvlan mode bridge
	in_ns a ip link set filtered up
	ip -n "oneside-$$-other" -6 addr add 2001:db8::9/64 dev veth0 nodad
	plane a filtered 'address=192.0.2.3/24 2001:db8::12:3456/64 2001:db8::12:789a/64'
	for address in 2001:db8::12:3456 2001:db8::12:789a; do
		in_ns other ping -6 -n -q -c 1 -w 20 "$address" >/dev/null || fail "$address does not answer"
	done
	for group in 33:33:ff:12:34:56 33:33:ff:12:78:9a; do
		in_ns a ip maddr show dev filtered | grep -q "$group" || fail "it is not in its solicited-node group $group"
	done
	say "an interface that filters multicast delivers neighbour discovery"
	stop_plane a
	in_ns a ip maddr show dev filtered | grep -q 33:33:ff:12:34:56 && fail "it is in the group after its end"
	return 0
}

duplicate() {
	cable a veth0 other veth0
	ip -n "oneside-$$-other" addr add 192.0.2.1/24 dev veth0
	ip -n "oneside-$$-other" -6 addr add 2001:db8::1/64 dev veth0 nodad
	for address in 192.0.2.1/24 2001:db8::1/64 '192.0.2.7/24 192.0.2.1/24'; do
		plane a veth0 "address=$address"
		until grep -q 'event=address_conflict port=p0' "$(plane_log a)"; do
			kill -0 "$(plane_pid a)" 2>/dev/null || fail "the data plane has ended"
			sleep 0.1
		done
		address=${address##* }
		expect "address=${address%/*} mac=$(other_mac)" "$(plane_log a)"
		[ "$(port_of a conflicts)" -gt 0 ] || fail "onesidectl does not show the conflict"
		[ "$(port_of a conflict_mac)" = "$(other_mac)" ] || fail "onesidectl does not show whose address it is"
		ctl a metrics >"$WORK/metrics"
		grep -q '^oneside_port_address_conflicts_total{port="p0"} [1-9]' "$WORK/metrics" || fail "not in the metrics: $(grep conflicts "$WORK/metrics")"
		stop_plane a
	done
	say "another host with the port's address is reported"
}
other_mac() { in_ns other cat /sys/class/net/veth0/address; }

"$@"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Ports have several addresses, of both families:
#
#   addresses.sh memif    each address is a GID, accepts connections and makes them; uDAPL and RSM use either family
#   addresses.sh veth     the kernel at the peer's end resolves and pings each address; frames have DSCP and flow label
#   addresses.sh routed   two data planes are in different networks, with the kernel as the router between them

. "$(dirname "$0")/verbs_lib.sh"
command -v rping >/dev/null || skip "rping is missing: apt-get install rdmacm-utils"
[ -x "$BUILD/perf/oneside-copy" ] || skip "there is no oneside-copy (-Dperf=false)"

own_addresses() { printf '%s1%s/24 2001:db8::1%s/64 198.51.100.1%s/24' 192.0.2. "$1" "$1" "$1"; } # NUMBER

meet_inside() {
	net_init
	PLANE_IDLE=${PLANE_IDLE:-sleep}
	need_root
	make_namespace meet
	INSIDE=(ip netns exec "$NETNS")
	# getaddrinfo() accepts IPv6 addresses only if the machine has one.
	ip -n "$NETNS" addr add fd00::1/128 dev lo || skip "this machine has no IPv6"
}

start_two_memif() { # OPTIONS... for both
	local name role own peer
	for name in a b; do
		role=server own=1 peer=2
		[ "$name" = b ] && role=client own=2 peer=1
		# shellcheck disable=SC2046 # words are wanted
		start_plane "$name" $(plane_cores "$own") $(eal_options "$name") "$(memif_device "$role")" -- \
			--node "$own" --idle "$(plane_idle)" \
			--port "name=p0,device=net_memif0,address=$(own_addresses "$own"),mtu=$CABLE_MTU" \
			--peer "node=$peer,address=2001:db8::1$peer" "$@"
	done
	sockets=("$(plane_socket a)" "$(plane_socket b)")
}

# Runs rping to ADDRESS; the server may be bound to any address.
rping_to() { # NAME ADDRESS PORT SERVER-OPTIONS...
	cm_pair "$1" rping -s -C 5 -p "$3" "${@:4}" -- rping -c -v -V -C 5 -p "$3" -a "$2"
	expect 'ping data: rdma-ping-4:' "$WORK/$1.client"
}

test_memif() {
	meet_inside
	start_two_memif
	"$BUILD/control/onesidectl" -s "$(plane_socket a).ctl" show ports >"$WORK/ports" || fail "onesidectl"
	expect '192.0.2.11 2001:db8::11 198.51.100.11' "$WORK/ports"
	expect 'port p0: 192.0.2.11/24 2001:db8::11/64 198.51.100.11/24' "$(plane_log a)"

	rping_to rping-v4 192.0.2.11 7174 -a 192.0.2.11
	rping_to rping-v6 2001:db8::11 7174 -a 2001:db8::11
	rping_to rping-second 198.51.100.11 7174 -a 198.51.100.11
	rping_to rping-any-v4 192.0.2.11 7174
	rping_to rping-any-v6 2001:db8::11 7174

	test_two_listeners

	# Programs choose an address by its GID.
	on 0 ibv_devinfo -v >"$WORK/devinfo" || fail "ibv_devinfo"
	expect '::ffff:192.0.2.11' "$WORK/devinfo"
	expect '2001:db8::11' "$WORK/devinfo"
	expect '::ffff:198.51.100.11' "$WORK/devinfo"
	local gid
	for gid in 0 1 2; do
		pair "rc-gid$gid" 18515 ibv_rc_pingpong -g "$gid" -c -n 200
		pair "ud-gid$gid" 18515 ibv_ud_pingpong -g "$gid" -c -n 200
	done
	cm_pair udaddy udaddy -b 2001:db8::11 -c 3 -C 5 -S 1000 -- udaddy -s 2001:db8::11 -c 3 -C 5 -S 1000

	# uDAPL uses either family from one IA; RSM uses IPv6, the family of the peer's address.
	head -c 3000001 /dev/urandom >"$WORK/file"
	local to
	for to in 192.0.2.11 2001:db8::11 198.51.100.11; do
		copy_to "$to"
	done
	ONESIDE_SOCKET=${sockets[0]} "$BUILD/perf/oneside-rsmcopy" receive "$WORK/rsm" 3000001 >"$WORK/rsm.server" 2>&1 &
	local receiver=$!
	APPLICATIONS+=("$receiver")
	ONESIDE_SOCKET=${sockets[1]} "$BUILD/perf/oneside-rsmcopy" send "$WORK/file" 1 >"$WORK/rsm.client" 2>&1 ||
		fail "no copy by RSM: $(cat "$WORK/rsm.client" "$WORK/rsm.server")"
	wait "$receiver" || fail "the receiver: $(cat "$WORK/rsm.server")"
	cmp "$WORK/file" "$WORK/rsm" || fail "the copy by RSM differs"
	stop_plane a
	stop_plane b
}

listens_at() { # ADDRESS PORT
	"$BUILD/control/onesidectl" -s "$(plane_socket a).ctl" show listeners | grep -F "$1" | grep -qw "$2"
}

serve_at() { # ADDRESS
	on 0 rping -s -C 5 -p 7180 -a "$1" >"$WORK/served" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	until listens_at "$1" 7180; do
		kill -0 "$server" 2>/dev/null || fail "no server at $1: $(cat "$WORK/served")"
		sleep 0.05
	done
}

# Two servers listen at one port number, at an address each.
test_two_listeners() {
	local first server
	serve_at 192.0.2.11
	first=$server
	serve_at 2001:db8::11
	on 1 rping -c -C 1 -p 7180 -a 198.51.100.11 >"$WORK/elsewhere" 2>&1 &&
		fail "servers at two addresses were reached at a third"
	expect RDMA_CM_EVENT_REJECTED "$WORK/elsewhere"
	on 0 rping -s -C 5 -p 7180 -a 192.0.2.11 >"$WORK/taken" 2>&1 && fail "two servers at one address"
	on 0 rping -s -C 5 -p 7180 >"$WORK/taken" 2>&1 && fail "a server at all addresses, two of which are taken"
	on 1 rping -c -C 5 -p 7180 -a 192.0.2.11 || fail "the first of two servers"
	on 1 rping -c -C 5 -p 7180 -a 2001:db8::11 || fail "the second of two servers"
	wait "$first" || fail "the first of two servers"
	wait "$server" || fail "the second of two servers: $(cat "$WORK/served")"
	say "two listeners at one port"
}

copy_to() { # ADDRESS
	: >"$WORK/receive"
	ONESIDE_SOCKET=${sockets[0]} "$BUILD/perf/oneside-copy" receive "$WORK/copy" >"$WORK/receive" 2>&1 &
	local receiver=$!
	APPLICATIONS+=("$receiver")
	until grep -q 'waiting for a sender' "$WORK/receive"; do
		kill -0 "$receiver" 2>/dev/null || fail "no receiver: $(cat "$WORK/receive")"
		sleep 0.1
	done
	ONESIDE_SOCKET=${sockets[1]} "$BUILD/perf/oneside-copy" send "$WORK/file" "$1" >"$WORK/send" 2>&1 ||
		fail "no copy to $1: $(cat "$WORK/send" "$WORK/receive")"
	wait "$receiver" || fail "the receiver: $(cat "$WORK/receive")"
	cmp "$WORK/file" "$WORK/copy" || fail "the copy to $1 differs"
	say "copy to $1"
}

start_veth_plane() { # NAME NUMBER ADDRESSES OPTIONS-OF-PORT OPTIONS...
	# shellcheck disable=SC2046
	PLANE_NETNS=oneside-$$-$1 start_plane "$1" $(plane_cores "$2") $(eal_options "$1") \
		--vdev=net_af_packet0,iface=veth0,framesz=8192,blocksz=65536,framecnt=1024 -- --idle "$(plane_idle)" \
		--port "name=p0,device=net_af_packet0,address=$3,mtu=$CABLE_MTU$4" "${@:5}"
}

# The kernel resolves each address, and pings it.
test_veth() {
	local host=oneside-$$-b address
	meet_inside
	make_namespace a
	make_namespace b
	make_veth "oneside-$$-a" "$host"
	start_veth_plane a 1 "$(own_addresses 1)" ",dscp=10,flow_label=74565" --user "name=0,dscp=26"
	ip netns exec "$host" sysctl -qw net.ipv6.conf.veth0.disable_ipv6=0 net.ipv6.conf.veth0.accept_dad=0
	for address in 192.0.2.100/24 2001:db8::100/64 198.51.100.100/24; do
		ip -n "$host" addr add "$address" dev veth0
	done
	for address in 192.0.2.11 2001:db8::11 198.51.100.11 192.0.2.11; do
		ip netns exec "$host" ping -n -A -c 20 -w 20 "$address" >"$WORK/ping" || fail "$address: $(cat "$WORK/ping")"
		say "ping $address: $(grep transmitted "$WORK/ping")"
	done
	for address in 192.0.2.11 2001:db8::11 198.51.100.11; do
		ip -n "$host" neigh show "$address" | grep -q lladdr || fail "the kernel knows no MAC of $address"
	done
	ip netns exec "$host" ping -n -c 1 -W 1 192.0.2.12 >/dev/null && fail "192.0.2.12, which no host has, is answered"

	# Connect to addresses of the kernel, which does not answer: the IP headers of the REQs have DSCP and flow label.
	ip -n "$host" neigh flush all
	if command -v dumpcap >/dev/null && command -v tshark >/dev/null; then
		start_capture marks "$host" veth0
		sockets=("$(plane_socket a)" "$(plane_socket a)")
		timeout 4 "${INSIDE[@]}" "$RUN" --socket "${sockets[0]}" rping -c -C 1 -a 2001:db8::100 >/dev/null 2>&1
		timeout 4 "${INSIDE[@]}" "$RUN" --socket "${sockets[0]}" rping -c -C 1 -a 198.51.100.100 >/dev/null 2>&1
		stop_capture marks
		tshark -r "$WORK/marks.pcap" -Y 'udp.dstport == 4791 && ipv6 && !icmpv6' -T fields -e ipv6.tclass.dscp -e ipv6.flow \
			-e infiniband.mad.attributeid >"$WORK/marks6" 2>/dev/null
		tshark -r "$WORK/marks.pcap" -Y 'udp.dstport == 4791 && ip && !icmp' -T fields -e ip.src -e ip.dsfield.dscp >"$WORK/marks4" 2>/dev/null
		[ -s "$WORK/marks6" ] && [ -s "$WORK/marks4" ] || fail "no REQ was seen"
		grep -qv "^26	0x0*12345" "$WORK/marks6" && fail "DSCP or flow label: $(cat "$WORK/marks6")"
		grep -qv '^198.51.100.11	26$' "$WORK/marks4" && fail "source or DSCP: $(cat "$WORK/marks4")"
		say "marks of $(wc -l <"$WORK/marks6") and $(wc -l <"$WORK/marks4") frames"
	else
		leave_out "dumpcap or tshark is missing"
	fi
	stop_plane a
}

# Topology: a -- router -- b. Data plane a has routes, b has gateways. The longest prefix must win: shorter ones lead to
# hosts that do not exist.
test_routed() {
	local router=oneside-$$-router
	meet_inside
	make_namespace a
	make_namespace b
	make_namespace router
	make_veth "oneside-$$-a" "$router"
	ip -n "$router" link set veth0 down
	ip -n "$router" link set veth0 name veth1
	make_veth "oneside-$$-b" "$router"
	ip netns exec "$router" ethtool -K veth1 tx off rx off gso off gro off tso off >/dev/null 2>&1
	ip -n "$router" link set veth1 up
	ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	local iface
	for iface in veth0 veth1; do
		ip netns exec "$router" sysctl -qw "net.ipv6.conf.$iface.disable_ipv6=0" "net.ipv6.conf.$iface.accept_dad=0"
	done
	ip -n "$router" addr add 192.0.2.254/24 dev veth1
	ip -n "$router" addr add 2001:db8:1::254/64 dev veth1
	ip -n "$router" addr add 198.51.100.254/24 dev veth0
	ip -n "$router" addr add 2001:db8:2::254/64 dev veth0
	# No host has 203.0.113.1 or 192.0.2.253.
	start_veth_plane a 1 "203.0.113.2/24 192.0.2.1/24 2001:db8:1::1/64" \
		",gateway=203.0.113.1 2001:db8:1::fe,route=198.51.0.0/16 via 192.0.2.253 198.51.100.0/24 via 192.0.2.254 2001:db8:2::/48 via 2001:db8:1::254,dscp=10"
	start_veth_plane b 2 "198.51.100.2/24 2001:db8:2::2/64" ",gateway=198.51.100.254 2001:db8:2::254"
	sockets=("$(plane_socket a)" "$(plane_socket b)")
	rping_to routed-v4 192.0.2.1 7174
	rping_to routed-v6 2001:db8:1::1 7174
	sockets=("$(plane_socket b)" "$(plane_socket a)")
	if ! command -v dumpcap >/dev/null || ! command -v tshark >/dev/null; then
		leave_out "dumpcap or tshark is missing"
		SERVED=b rping_to back-v4 198.51.100.2 7174
		SERVED=b rping_to back-v6 2001:db8:2::2 7174
	else
		# The DSCP of the requesting side's port applies to both directions, unless the program sets its own.
		start_capture port "$router" veth1
		SERVED=b rping_to back-v4 198.51.100.2 7174
		SERVED=b rping_to back-v6 2001:db8:2::2 7174
		head -c 300001 /dev/urandom >"$WORK/file"
		copy_to 198.51.100.2
		stop_capture port
		have_dscp port 10
		start_capture tos "$router" veth1
		SERVED=b cm_pair tos ucmatose -b 198.51.100.2 -c 2 -C 3 -- ucmatose -s 198.51.100.2 -c 2 -C 3 -t 0x60
		stop_capture tos
		have_dscp tos 24
	fi
	stop_plane a
	stop_plane b
}

have_dscp() { # CAPTURE DSCP: each RoCE frame has the DSCP, and there are MADs as well as packets of connections
	tshark -r "$WORK/$1.pcap" -Y 'udp.dstport == 4791 && !icmp && !icmpv6' -T fields -e ip.dsfield.dscp \
		-e ipv6.tclass.dscp -e infiniband.bth.opcode >"$WORK/$1.frames" 2>/dev/null
	awk -v want="$2" '{ if ($1 != want) bad++; if ($2 == 100) mads++; else others++ }
		END { exit bad > 0 || mads == 0 || others == 0 }' "$WORK/$1.frames" ||
		fail "DSCP is not $2: $(sort "$WORK/$1.frames" | uniq -c)"
	say "$1: $(wc -l <"$WORK/$1.frames") frames of DSCP $2"
}

case $1 in
memif | veth | routed) "test_$1" ;;
*) printf 'addresses.sh memif|veth|routed\n' >&2 && exit 2 ;;
esac

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A router between two data planes has a smaller MTU than both ends, and reports it by ICMP. The report is counted and
# logged, and new connections have a smaller path MTU.
. "$(dirname "$0")/lib.sh"
net_init
need_root

# Topology: a (10.1.0.1), MTU 4200, router r, MTU 1500, router s, MTU 4200, b (10.2.0.1).
for name in a r s b; do make_namespace "$name"; done
NS=oneside-$$-

# join NS_A IF_A NS_B IF_B MTU: joins two namespaces by a veth pair
join() {
	ip link add "$2" netns "$NS$1" mtu "$5" type veth peer name "$4" netns "$NS$3" mtu "$5" || fail "no veth pair"
	local end
	for end in "$1 $2" "$3 $4"; do
		# shellcheck disable=SC2086
		set -- $end
		ip netns exec "$NS$1" ethtool -K "$2" tx off rx off gso off gro off tso off >/dev/null 2>&1
		ip -n "$NS$1" link set "$2" up
	done
}
join a veth0 r ra 4200
join r rs s sr 1500
join s sb b veth0 4200
ip -n "${NS}r" addr add 10.1.0.254/24 dev ra
ip -n "${NS}r" addr add 10.3.0.1/24 dev rs
ip -n "${NS}s" addr add 10.3.0.2/24 dev sr
ip -n "${NS}s" addr add 10.2.0.254/24 dev sb
ip -n "${NS}r" route add 10.2.0.0/24 via 10.3.0.2
ip -n "${NS}s" route add 10.1.0.0/24 via 10.3.0.1
ip netns exec "${NS}r" sysctl -qw net.ipv4.ip_forward=1
ip netns exec "${NS}s" sysctl -qw net.ipv4.ip_forward=1

# start_routed NAME NETWORK NODE: starts a data plane at NETWORK.1 with gateway NETWORK.254
start_routed() {
	# shellcheck disable=SC2046
	PLANE_NETNS=$NS$1 start_plane "$1" $(plane_cores "$3") $(eal_options "$1") \
		--vdev=net_af_packet0,iface=veth0,framesz=8192,blocksz=65536,framecnt=1024 -- --idle "$(plane_idle)" \
		--port "name=p0,device=net_af_packet0,address=$2.1/24,gateway=$2.254,mtu=4200"
}
start_routed a 10.1.0 1
start_routed b 10.2.0 2

perf() {
	ONESIDE_SOCKET=$(plane_socket a) "$BUILD/perf/oneside-perf" -t write_bw -s 65536 -n 100 10.2.0.1
}
ONESIDE_SOCKET=$(plane_socket b) "$BUILD/perf/oneside-perf" >"$WORK/server" 2>&1 &
server=$!
APPLICATIONS+=("$server")
until ONESIDE_SOCKET=$(plane_socket b) "$BUILD/control/onesidectl" show listeners --json >"$WORK/out" && grep -q oneside-perf "$WORK/out"; do
	kill -0 "$server" 2>/dev/null || fail "$(cat "$WORK/server")"
	sleep 0.1
done

perf >"$WORK/first" 2>&1 &
first=$!
APPLICATIONS+=("$first")
LINE='event=path_mtu port=p0 peer=10.2.0.1 mtu=1500'
until grep -q "$LINE" "$(plane_log a)"; do
	kill -0 "$(plane_pid a)" "$(plane_pid b)" 2>/dev/null || fail "a data plane is gone"
	kill -0 "$first" 2>/dev/null || fail "the first transfer has ended: $(cat "$WORK/first")"
	sleep 0.1
done
kill -9 "$first"
wait "$first" 2>/dev/null
expect 'new ones have a path MTU of 1024' "$(plane_log a)"
say "a packet that is too big for the path is reported"

perf >"$WORK/second" 2>&1 || fail "the next connection does not work: $(cat "$WORK/second")"
[ "$(grep -c "$LINE" "$(plane_log a)")" = 1 ] || fail "it is reported again: $(grep "$LINE" "$(plane_log a)")"
ONESIDE_SOCKET=$(plane_socket a) "$BUILD/control/onesidectl" metrics >"$WORK/metrics"
grep -q '^oneside_path_mtu_reports_total [1-9]' "$WORK/metrics" || fail "$(grep path_mtu "$WORK/metrics")"
say "the next connection has a smaller path MTU, and works"
stop_plane a
stop_plane b

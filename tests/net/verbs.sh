#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of Debian's ibverbs-utils, rdmacm-utils and perftest, as they are, on oneside's libibverbs and
# librdmacm:
#
#   verbs.sh local    both ends on one data plane
#   verbs.sh memif    on two, joined by memif
#
# Those without rdma_cm meet over TCP on the loopback interface, as root one of their own.

. "$(dirname "$0")/lib.sh"
for program in ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong ib_write_bw rping ucmatose; do
	command -v "$program" >/dev/null || skip "$program is missing: apt-get install ibverbs-utils rdmacm-utils perftest"
done
RUN=$BUILD/api/verbs/oneside-run
for library in verbs/libibverbs rdmacm/librdmacm; do
	[ -e "$BUILD/api/$library.so.1" ] || fail "$library is not built: apt-get install libibverbs-dev librdmacm-dev"
done
net_init
cable=$1
INSIDE=()
if [ "$(id -u)" = 0 ] && ip netns add "oneside-$$-meet" 2>/dev/null; then
	NAMESPACES+=("oneside-$$-meet")
	ip -n "oneside-$$-meet" link set lo up
	INSIDE=(ip netns exec "oneside-$$-meet")
fi

# These programs poll without end: where they have to share processors with the data planes, only a data
# plane that sleeps gets one at once when there is work.
[ "$(allowed_cpus | wc -l)" -ge 4 ] || PLANE_IDLE=${PLANE_IDLE:-sleep}
start_memif_pair # perftest wants a link that is up
case $cable in
local)
	sockets=("$(plane_socket a)" "$(plane_socket a)")
	addresses=(192.0.2.1 192.0.2.1)
	;;
memif)
	sockets=("$(plane_socket a)" "$(plane_socket b)")
	addresses=(192.0.2.1 192.0.2.2)
	;;
*) fail "verbs.sh local|memif" ;;
esac

on() { # 0|1 PROGRAM ARGUMENTS...
	local side=$1
	shift
	"${INSIDE[@]}" timeout 120 "$RUN" --socket "${sockets[$side]}" "$@"
}

listening() { # PORT
	"${INSIDE[@]}" ss -Htln "sport = :$1" | grep -q .
}

# pair NAME PORT PROGRAM ARGUMENTS...: a server and a client, both of which succeed.
pair() {
	local name=$1 port=$2 server tenths=200
	shift 2
	on 0 "$@" -p "$port" >"$WORK/$name.server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	until listening "$port"; do
		kill -0 "$server" 2>/dev/null && [ "$tenths" -gt 0 ] || {
			cat "$WORK/$name.server" >&2
			fail "$name: the server does not listen"
		}
		sleep 0.1
		tenths=$((tenths - 1))
	done
	on 1 "$@" -p "$port" 127.0.0.1 >"$WORK/$name.client" 2>&1 || {
		cat "$WORK/$name.server" "$WORK/$name.client" >&2
		fail "$name: $* fails at the client"
	}
	wait "$server" || {
		cat "$WORK/$name.server" >&2
		fail "$name: $* fails at the server"
	}
	say "$name"
}

# ---- devices ----

on 0 ibv_devices >"$WORK/devices" || fail "ibv_devices"
expect p0 "$WORK/devices"
on 0 ibv_devinfo -v >"$WORK/devinfo" || fail "ibv_devinfo"
for line in 'hca_id:	p0' 'Ethernet' PORT_ACTIVE 'active_mtu:		4096' "GID[  0]:		::ffff:${addresses[0]}, RoCE v2" 'max_sge:			8'; do
	expect "$line" "$WORK/devinfo"
done

# Without a data plane there is no device, and nothing worse.
"$RUN" --socket "$WORK/nobody" ibv_devices >"$WORK/nobody.out" || fail "ibv_devices without a data plane"
"$RUN" --socket "$WORK/nobody" ibv_devinfo >"$WORK/nobody.out" 2>&1 && fail "ibv_devinfo found a device without a data plane"
expect 'No IB devices found' "$WORK/nobody.out"

# ---- ping-pong: with -c the contents are checked ----

pair rc 18515 ibv_rc_pingpong -g 0 -c -n 200
pair rc-events 18515 ibv_rc_pingpong -g 0 -c -e -n 200
pair rc-long 18515 ibv_rc_pingpong -g 0 -c -s 1000000 -n 50
pair rc-small-mtu 18515 ibv_rc_pingpong -g 0 -c -m 256 -s 3000 -n 100
pair rc-new-send 18515 ibv_rc_pingpong -g 0 -c -N -n 200
pair srq 18515 ibv_srq_pingpong -g 0 -c -n 200
pair srq-events 18515 ibv_srq_pingpong -g 0 -c -e -n 200
pair ud 18515 ibv_ud_pingpong -g 0 -c -n 200
pair ud-events 18515 ibv_ud_pingpong -g 0 -c -e -n 200
pair ud-mtu 18515 ibv_ud_pingpong -g 0 -c -s 4096 -n 100

# ---- perftest; its own checks of the machine's clock are not wanted (-F) ----

pair write_bw 18516 ib_write_bw -F -n 1000
pair write_bw-8 18516 ib_write_bw -F -n 1000 -s 8
pair write_bw-qps 18516 ib_write_bw -F -n 200 -q 16
pair write_lat 18516 ib_write_lat -F -n 300
pair write_lat-inline 18516 ib_write_lat -F -n 300 -s 200 -I 220
pair read_bw 18516 ib_read_bw -F -n 1000
pair read_lat 18516 ib_read_lat -F -n 300
pair send_bw 18516 ib_send_bw -F -n 1000
pair send_bw-srq 18516 ib_send_bw -F -n 500 --use-srq -q 2
pair send_lat 18516 ib_send_lat -F -n 300
pair atomic_bw 18516 ib_atomic_bw -F -n 500
pair atomic_lat 18516 ib_atomic_lat -F -n 300 -A CMP_AND_SWAP
# No more datagrams than there are receives: what comes when there is none is lost.
pair ud_send_bw 18516 ib_send_bw -c UD -x 0 -F -n 400 -r 512 -s 2048
pair ud_send_lat 18516 ib_send_lat -c UD -x 0 -F -n 300 -r 512

# Asleep for each completion: the latency test of SEND has two queues on one channel, and takes each event for
# one completion.  perftest has no events for WRITE.
pair send_lat-events 18516 ib_send_lat -F -e -n 2000
pair send_lat-events-sizes 18516 ib_send_lat -F -e -a -n 100
pair read_lat-events 18516 ib_read_lat -F -e -n 500
pair atomic_lat-events 18516 ib_atomic_lat -F -e -n 500
pair send_bw-events 18516 ib_send_bw -F -e -n 1000
pair read_bw-events 18516 ib_read_bw -F -e -n 1000 -q 4
pair atomic_bw-events 18516 ib_atomic_bw -F -e -n 500

# ---- rdma_cm ----

RUNTIME=/var/run # DPDK's
[ "$(id -u)" = 0 ] || RUNTIME=${XDG_RUNTIME_DIR:-/tmp}

served() { # yes|no: whether an attachment of data plane a listens
	local listeners
	listeners=$(python3 "$(dirname "$0")/../interop/telemetry.py" \
		"$RUNTIME/dpdk/$(basename "$WORK")-a/dpdk_telemetry.v2" /oneside/clients listeners 2>/dev/null)
	case $listeners in
	*' '[1-9]*) [ "$1" = yes ] ;;
	*) [ "$1" = no ] ;;
	esac
}

until_served() { # yes|no NAME
	local tenths=200
	until served "$1"; do
		[ "$tenths" -gt 0 ] || {
			cat "$WORK/$2.server" >&2
			fail "$2: does a server listen? not as expected: $1"
		}
		sleep 0.1
		tenths=$((tenths - 1))
	done
}

cm_pair() { # NAME SERVER -- CLIENT
	local name=$1 server
	local -a serve=()
	shift
	while [ "$1" != -- ]; do
		serve+=("$1")
		shift
	done
	shift
	until_served no "$name" # the one before has gone
	on 0 "${serve[@]}" >"$WORK/$name.server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	until_served yes "$name"
	on 1 "$@" >"$WORK/$name.client" 2>&1 || {
		cat "$WORK/$name.server" "$WORK/$name.client" >&2
		fail "$name: $* fails at the client"
	}
	wait "$server" || {
		cat "$WORK/$name.server" >&2
		fail "$name: ${serve[*]} fails at the server"
	}
	say "$name"
}

to=${addresses[0]}
cm_pair rping rping -s -a "$to" -p 7174 -C 20 -V -- rping -c -a "$to" -p 7174 -C 20 -V
cm_pair rping-any rping -s -p 7174 -C 5 -V -S 4000 -- rping -c -a "$to" -p 7174 -C 5 -V -S 4000
cm_pair ucmatose ucmatose -b "$to" -c 5 -C 3 -S 1000 -- ucmatose -s "$to" -c 5 -C 3 -S 1000
cm_pair write_bw-R ib_write_bw -F -R -n 500 -p 18518 -- ib_write_bw -F -R -n 500 -p 18518 "$to"
cm_pair send_lat-R ib_send_lat -F -R -n 300 -p 18518 -- ib_send_lat -F -R -n 300 -p 18518 "$to"

# Nobody listens, and nobody answers.
on 1 rping -c -a "$to" -p 7999 -C 1 >"$WORK/refused" 2>&1 && fail "rping reached nobody"
expect RDMA_CM_EVENT_REJECTED "$WORK/refused"
on 1 rping -c -a 192.0.2.77 -p 7999 -C 1 >"$WORK/silent" 2>&1 && fail "rping reached an address that nobody has"
expect RDMA_CM_EVENT_UNREACHABLE "$WORK/silent"

# ---- what is not there says so ----

on 0 ibv_uc_pingpong -g 0 >"$WORK/uc" 2>&1 && fail "a UC queue pair"
expect "Couldn't create QP" "$WORK/uc"

# ---- the data plane's end: nobody waits for ever ----

on 0 ibv_asyncwatch >"$WORK/watch" 2>&1 &
watch=$!
APPLICATIONS+=("$watch")
on 0 ibv_rc_pingpong -g 0 -e -p 18517 >"$WORK/left" 2>&1 &
left=$!
APPLICATIONS+=("$left")
for what in watch:'async event FD' left:'local address'; do
	tenths=100
	until grep -q "${what#*:}" "$WORK/${what%%:*}" || [ "$tenths" = 0 ]; do
		sleep 0.1
		tenths=$((tenths - 1))
	done
done
kill_plane a
tenths=100
until grep -q IBV_EVENT_DEVICE_FATAL "$WORK/watch"; do
	[ "$tenths" -gt 0 ] || fail "ibv_asyncwatch is not told of the data plane's end"
	sleep 0.1
	tenths=$((tenths - 1))
done
kill "$watch" "$left" 2>/dev/null
wait "$watch" "$left" 2>/dev/null
true

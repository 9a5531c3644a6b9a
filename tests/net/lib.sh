# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Functions to start data planes in pairs over a virtual cable, to stop them by process id, and to clean up at every exit.
# The scripts of tests/net and quickstart source this file; BUILD names the build directory.
#
#   net_init                       makes a private directory ($WORK), and arranges the cleanup
#   start_plane NAME EAL... -- OPTIONS...
#   start_memif_pair [OPTIONS...]  planes a (192.0.2.1, node 1) and b (192.0.2.2, node 2)
#   start_veth_pair [OPTIONS...]   planes a and b in two namespaces over af_packet; root only
#   plane_socket NAME, plane_pid NAME, plane_log NAME
#   stop_plane NAME                SIGTERM; fails unless it ends cleanly
#   kill_plane NAME                SIGKILL
#   start_capture NAME NAMESPACE INTERFACE [DUMPCAP-OPTIONS]; stop_capture NAME     $WORK/NAME.pcap
#   reserve_hugepages N            reserves N more hugepages of 2 MiB until the end; fails if they are not available
#   say, fail, skip, expect
#
# Functions wait without a limit, because machines are busy; the timeout of the test ends a hang.
#
# PLANE_GENERATION: set to a suffix, planes that are started take over from those of the same name.
# PLANE_WITHOUT_CAPABILITIES: root starts planes without capabilities.
# PLANE_PEER: more of the [peer] section of af_packet planes, after a comma.
# PLANE_MEMORY (EAL options; default --no-huge), PLANE_IDLE, PLANE_CORES (polling cores of each plane;
# default 1), PLANE_QUEUES (of an af_packet device; default 1) and PLANE_PLACEMENT (of queue pairs on cores) choose how planes
# run. PLANE_MOVES=yes works with each script: all queue pairs of each plane move to the next core (of 2 by default) again and
# again, and the script fails if none has moved.

set -u -o pipefail
# Programs find their libraries by rpath; the test runner's LD_LIBRARY_PATH begins with a foreign libdat.
unset LD_LIBRARY_PATH
: "${BUILD:?BUILD must name the build directory}"
DATAPLANE=${DATAPLANE:-$BUILD/control/oneside-dataplane}
PLANE_MEMORY=${PLANE_MEMORY:---no-huge -m 512}
CABLE_MTU=4200 # fits a path MTU of 4096 with headers
CABLE_BUFFER=4352
[ -z "${PLANE_MOVES:-}" ] || PLANE_CORES=${PLANE_CORES:-2}

PATH=$PATH:/usr/sbin:/sbin

declare -gA PLANE_PID=() CAPTURE_PID=() MOVER_PID=()
declare -ga NAMESPACES=() APPLICATIONS=() # APPLICATIONS: processes that callers start, and the cleanup ends
WORK=

say() {
	printf '%s\n' "$*"
}

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	local name
	for name in "${!PLANE_PID[@]}"; do
		printf -- '---- the last lines of data plane %s\n' "$name" >&2
		tail -n 15 "$WORK/$name.log" >&2
	done
	exit 1
}

# Ends the test as skipped; with NO_SKIP=1 a test that the machine cannot run fails.
skip() {
	[ -z "${NO_SKIP:-}" ] || fail "NO_SKIP is set: $*"
	printf 'SKIPPED: %s\n' "$*"
	exit 77
}

# Skips a part of a test; with NO_SKIP=1 the test fails.
leave_out() {
	[ -z "${NO_SKIP:-}" ] || fail "NO_SKIP is set: $*"
	say "left out: $*"
}

# expect TEXT FILE: a line of FILE has TEXT.
expect() {
	grep -qF -- "$1" "$2" || {
		cat "$2" >&2
		fail "no line says \"$1\""
	}
}

net_init() {
	WORK=$(mktemp -d /tmp/oneside.XXXXXX) || exit 1
	chmod 755 "$WORK"
	# DPDK's runtime directory must be private; a default in /tmp may belong to another user.
	[ "$(id -u)" = 0 ] || export XDG_RUNTIME_DIR=$WORK
	trap net_cleanup EXIT
	trap 'exit 130' INT
	trap 'printf "ended in line %s\n" "$LINENO" >&2; exit 143' TERM HUP
}

HUGEPAGES=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
declare -g HUGEPAGES_OURS=0

reserve_hugepages() {
	local before after
	before=$(cat "$HUGEPAGES" 2>/dev/null) && [ -w "$HUGEPAGES" ] || return 1
	echo $((before + $1)) >"$HUGEPAGES" || return 1
	after=$(cat "$HUGEPAGES")
	HUGEPAGES_OURS=$((HUGEPAGES_OURS + after - before))
	[ $((after - before)) -ge "$1" ]
}

release_hugepages() {
	[ "$HUGEPAGES_OURS" = 0 ] || echo $(($(cat "$HUGEPAGES") - HUGEPAGES_OURS)) >"$HUGEPAGES"
	HUGEPAGES_OURS=0
}

# Ends the processes that the script has started, by process id, and removes what it has made; keeps the exit status.
net_cleanup() {
	local status=$? pid name
	trap '' INT TERM HUP
	[ -z "${PLANE_MOVES:-}" ] || [ "$status" != 0 ] || check_moves || status=1
	# First print pending output: a test runner that ends a hanging test does not wait for the rest of the cleanup.
	declare -F net_say_rest >/dev/null && net_say_rest
	for pid in "${CAPTURE_PID[@]}" "${MOVER_PID[@]}" "${APPLICATIONS[@]}"; do
		kill "$pid" 2>/dev/null
	done
	for name in "${!PLANE_PID[@]}"; do
		end_process "${PLANE_PID[$name]}" 5 >/dev/null
		unset "PLANE_PID[$name]"
	done
	for name in "${NAMESPACES[@]}"; do
		ip netns del "$name" 2>/dev/null
	done
	declare -F net_at_exit >/dev/null && net_at_exit
	release_hugepages
	[ -n "$WORK" ] && rm -rf "$WORK"
	exit "$status"
}

# end_process PID SECONDS: sends SIGTERM, and SIGKILL if the process has not ended after SECONDS, to its children, too, since
# the process may be timeout(1) and its program one that ignores SIGTERM; returns its status.
end_process() {
	local pid=$1 looks=$(($2 * 50))
	kill "$pid" 2>/dev/null
	while kill -0 "$pid" 2>/dev/null && [ "$looks" -gt 0 ]; do
		sleep 0.02
		looks=$((looks - 1))
	done
	pkill -KILL -P "$pid"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}

plane_socket() { printf '%s/%s.sock' "$WORK" "$1"; }
plane_log() { printf '%s/%s%s.log' "$WORK" "$1" "${PLANE_GENERATION:-}"; }
plane_pid() { printf '%s' "${PLANE_PID[$1]}"; }

# Prints the processor of polling core number $1: counted from the last processor, so that the first ones are free for
# applications.
polling_cpu() {
	local -a cpus
	mapfile -t cpus < <(allowed_cpus)
	printf '%s' "${cpus[$((${#cpus[@]} - 1 - $1 % ${#cpus[@]}))]}"
}

allowed_cpus() {
	local range
	for range in $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr ',' ' '); do
		seq "${range%-*}" "${range#*-}"
	done
}

# Prints the equivalent of "-l 0,1" for planes on one host: lcore 0, the control thread, may use all processors; each
# lcore from 1 on polls on its own processor, if there are enough.
plane_cores() {
	local all
	all=$(allowed_cpus | tr '\n' ',')
	printf -- "--lcores=0@(%s)" "${all%,}"
	local i
	for ((i = 1; i <= ${PLANE_CORES:-1}; i++)); do
		printf -- ",%s@%s" "$i" "$(polling_cpu $(($1 + i - 1)))"
	done
}

# Polling cores spin on machines with at least four processors, else they yield to applications.
plane_idle() {
	if [ -n "${PLANE_IDLE:-}" ]; then
		printf '%s' "$PLANE_IDLE"
	elif [ "$(allowed_cpus | wc -l)" -ge 4 ]; then
		printf spin
	else
		printf yield
	fi
}

# start_plane NAME EAL... -- OPTIONS...: starts a data plane in the background, in the network namespace PLANE_NETNS if
# set; returns when it serves.
start_plane() {
	local name=$1 log
	local -a prefix=()
	shift
	log=$(plane_log "$name")
	: >"$log"
	[ -n "${PLANE_NETNS:-}" ] && prefix=(ip netns exec "$PLANE_NETNS")
	[ -n "${PLANE_WITHOUT_CAPABILITIES:-}" ] && prefix+=(setpriv --bounding-set=-all --inh-caps=-all --)
	# "ip netns exec" and setpriv become the data plane: the process id is the data plane's.
	"${prefix[@]}" "$DATAPLANE" "$@" --socket "$(plane_socket "$name")" \
		--placement "${PLANE_PLACEMENT:-auto}" ${PLANE_GENERATION:+--take-over} >"$log" 2>&1 </dev/null &
	PLANE_PID[$name]=$!
	await_plane "$name"
	[ -z "${PLANE_MOVES:-}" ] || start_mover "$name"
}

start_mover() {
	/usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/mover.py" "$(plane_socket "$1").ctl" >>"$WORK/$1.moves" 2>"$WORK/$1.mover" &
	MOVER_PID[$1]=$!
}

# Ends the moves of a plane, and prints their number; fails if many were asked for and none was made.
stop_mover() {
	local pid=${MOVER_PID[$1]:-}
	[ -n "$pid" ] || return 0
	unset "MOVER_PID[$1]"
	kill "$pid" 2>/dev/null
	wait "$pid" || [ $? = 143 ] || { # 143: ended before it had begun
		cat "$WORK/$1.mover" >&2
		return 1
	}
	say "data plane $1: $(tail -n 1 "$WORK/$1.moves"), $(grep -c event=queue_pair_stays "$(plane_log "$1")") given up"
	! grep -qE '^[0-9]{3,} accepted, 0 made' "$WORK/$1.moves"
}

# Ends all moves; fails if there was none since the script began.
check_moves() {
	local name
	for name in "${!MOVER_PID[@]}"; do
		stop_mover "$name" || return 1
	done
	grep -qhE 'accepted, [1-9][0-9]* made' "$WORK"/*.moves || {
		printf 'FAILED: no queue pair has moved\n' >&2
		return 1
	}
}

await_plane() {
	local name=$1 log
	log=$(plane_log "$name")
	until grep -q 'serving on' "$log"; do
		kill -0 "${PLANE_PID[$name]}" 2>/dev/null || fail "data plane $name does not start"
		sleep 0.05
	done
}

# Prints the EAL options that planes on one host need in addition to cores and devices.
eal_options() { # NAME
	printf -- '%s --no-pci --iova-mode=va --file-prefix=%s-%s%s --log-level=lib.eal:warning' \
		"$PLANE_MEMORY" "$(basename "$WORK")" "$1" "${PLANE_GENERATION:-}"
}

memif_device() { # ROLE
	printf -- '--vdev=net_memif0,role=%s,id=0,socket=%s/cable,socket-abstract=%s,bsize=%s,rsize=10' \
		"$1" "$WORK" "${CABLE_ABSTRACT:-no}" "$CABLE_BUFFER"
}

start_memif_plane() { # a|b OPTIONS...
	local name=$1 role=server own=1 peer=2
	shift
	[ "$name" = b ] && role=client own=2 peer=1
	# shellcheck disable=SC2046 # words are wanted
	start_plane "$name" $(plane_cores "$own") $(eal_options "$name") "$(memif_device "$role")" -- \
		--node "$own" --idle "$(plane_idle)" \
		--port "name=p0,device=net_memif0,address=192.0.2.$own/24,mtu=$CABLE_MTU" \
		--peer "node=$peer,address=192.0.2.$peer" "$@"
}

start_memif_pair() {
	start_memif_plane a "$@"
	start_memif_plane b "$@"
}

need_root() {
	[ "$(id -u)" = 0 ] || skip "network namespaces need root"
	local probe
	probe=oneside-probe-$$
	ip netns add "$probe" 2>/dev/null || skip "network namespaces cannot be made here"
	ip netns del "$probe"
}

# make_namespace NAME: makes a network namespace; $NETNS is its full name.
make_namespace() {
	NETNS=oneside-$$-$1
	ip netns add "$NETNS" || fail "no namespace $NETNS"
	NAMESPACES+=("$NETNS")
	ip -n "$NETNS" link set lo up
}

# make_veth NS_A NS_B: joins the namespaces by a veth pair, with veth0 in each.
make_veth() {
	ip link add veth0 netns "$1" mtu "$CABLE_MTU" type veth peer name veth0 netns "$2" mtu "$CABLE_MTU" ||
		fail "no veth pair"
	local ns
	for ns in "$1" "$2"; do
		# No offloads, so that frames are complete as on a cable; no IPv6 packets of the kernel's own.
		ip netns exec "$ns" ethtool -K veth0 tx off rx off gso off gro off tso off >/dev/null 2>&1
		ip netns exec "$ns" sysctl -qw net.ipv6.conf.veth0.disable_ipv6=1
		ip -n "$ns" link set veth0 up
	done
}

start_af_packet_plane() { # a|b OPTIONS...
	local name=$1 own=1 peer=2 network=${PLANE_NETWORK:-192.0.2.}
	shift
	[ "$name" = b ] && own=2 peer=1
	start_kernel_plane "$name" "$own" "${PLANE_DRIVER:-af_packet}" "$CABLE_MTU" --node "$own" --peer "node=$peer,address=$network$peer${PLANE_PEER:-}" "$@"
}

kernel_device() { # af_packet|af_xdp|tap
	case $1 in
	af_packet) echo "net_af_packet0,iface=veth0,framesz=8192,blocksz=65536,framecnt=1024${PLANE_QUEUES:+,qpairs=$PLANE_QUEUES}" ;;
	af_xdp) echo net_af_xdp0,iface=veth0,start_queue=0,queue_count=1 ;;
	tap) echo net_tap0,iface=tap0 ;;
	esac
}

# Starts a plane in its namespace, on a device whose other side belongs to the kernel.
start_kernel_plane() { # NAME HOST-NUMBER af_packet|af_xdp|tap MTU OPTIONS...
	local name=$1 own=$2 driver=$3 mtu=$4 network=${PLANE_NETWORK:-192.0.2.} bits=24 device
	shift 4
	[ "$network" != "${network%:}" ] && bits=64
	device=$(kernel_device "$driver")
	# shellcheck disable=SC2046
	PLANE_NETNS=oneside-$$-$name start_plane "$name" $(plane_cores "$own") $(eal_options "$name") \
		"--vdev=$device" -- --idle "$(plane_idle)" \
		--port "name=p0,device=${device%%,*},address=$network$own/$bits,mtu=$mtu" "$@"
}

start_veth_pair() {
	need_root
	make_namespace a
	make_namespace b
	make_veth "oneside-$$-a" "oneside-$$-b"
	start_af_packet_plane a "$@"
	start_af_packet_plane b "$@"
}

stop_plane() {
	local pid=${PLANE_PID[$1]} status
	stop_mover "$1" || fail "the mover of data plane $1"
	kill "$pid"
	wait "$pid"
	status=$?
	unset "PLANE_PID[$1]"
	[ "$status" = 0 ] || fail "data plane $1 ended with status $status: $(tail -n 5 "$(plane_log "$1")")"
	[ ! -e "$(plane_socket "$1")" ] || fail "data plane $1 left its socket behind"
	! grep -q 'event=state_wrong' "$(plane_log "$1")" || fail "data plane $1: $(grep -m 1 'event=state_wrong' "$(plane_log "$1")")"
}

kill_plane() {
	local pid=${PLANE_PID[$1]}
	stop_mover "$1" || fail "the mover of data plane $1"
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
	unset "PLANE_PID[$1]"
}

start_capture() {
	: >"$WORK/$1.capture"
	ip netns exec "$2" dumpcap -q -i "$3" -w "$WORK/$1.pcap" "${@:4}" >"$WORK/$1.capture" 2>&1 &
	CAPTURE_PID[$1]=$!
	until grep -q '^File:' "$WORK/$1.capture"; do
		kill -0 "${CAPTURE_PID[$1]}" 2>/dev/null || fail "dumpcap does not start"
		sleep 0.05
	done
}

stop_capture() {
	sleep 0.5 # dumpcap takes packets in batches
	kill -INT "${CAPTURE_PID[$1]}"
	wait "${CAPTURE_PID[$1]}" 2>/dev/null
	unset "CAPTURE_PID[$1]"
}

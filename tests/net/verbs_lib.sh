# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Functions to run unmodified programs of Debian's ibverbs-utils, rdmacm-utils and perftest in pairs on oneside's libibverbs
# and librdmacm; sources lib.sh.
#
#   verbs_init local|lanes|memif|veth6   starts data planes: both sides on one; on one with two polling cores, each queue
#                                  pair on the next core; on two joined by memif; on two joined by Ethernet with IPv6
#   on 0|1 PROGRAM...              runs a program on side 0 or 1, whose addresses are ${addresses[]}; ${OPTIONS[]}: options
#                                  of oneside-run
#   pair NAME PORT PROGRAM...      runs a server and a client that connect over TCP first
#   cm_pair NAME SERVER... -- CLIENT...   runs a pair that connects by rdma_cm; SERVER_STAYS=yes: the server is ended after
#                                  the client has succeeded
#
# Programs without rdma_cm connect over TCP on the loopback interface; if root runs the test, of a private namespace.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
RUN=$BUILD/api/verbs/oneside-run
for library in verbs/libibverbs rdmacm/librdmacm; do
	[ -e "$BUILD/api/$library.so.1" ] || fail "$library is not built: apt-get install libibverbs-dev librdmacm-dev"
done
INSIDE=() OPTIONS=()

# run_or_become PROGRAM ARGUMENTS...: in the background the shell becomes the program, so that its process id is the program's.
run_or_become() {
	[ "$BASHPID" = $$ ] || exec "$@"
	"$@"
}

verbs_init() {
	net_init
	export XDG_RUNTIME_DIR=$WORK # oneside-run's files
	if [ "$(id -u)" = 0 ] && ip netns add "oneside-$$-meet" 2>/dev/null; then
		NAMESPACES+=("oneside-$$-meet")
		ip -n "oneside-$$-meet" link set lo up
		INSIDE=(ip netns exec "oneside-$$-meet")
	fi

	# Programs of perftest poll without pause. If they share processors with the data planes, only a data plane that sleeps gets
	# a processor at once when there is work.
	[ "$(allowed_cpus | wc -l)" -ge 4 ] || PLANE_IDLE=${PLANE_IDLE:-sleep}
	if [ "$1" = lanes ]; then
		PLANE_CORES=2
		PLANE_PLACEMENT=next
	fi
	case $1 in
	local | lanes | memif) start_memif_pair ;; # a pair in any case: perftest needs a link that is up
	veth6)
		[ ${#INSIDE[@]} -gt 0 ] || skip "network namespaces need root"
		PLANE_NETWORK=2001:db8:: start_veth_pair
		;;
	*) fail "verbs_init local|lanes|memif|veth6" ;;
	esac
	case $1 in
	local | lanes)
		sockets=("$(plane_socket a)" "$(plane_socket a)")
		addresses=(192.0.2.1 192.0.2.1)
		;;
	memif)
		sockets=("$(plane_socket a)" "$(plane_socket b)")
		addresses=(192.0.2.1 192.0.2.2)
		;;
	veth6)
		sockets=("$(plane_socket a)" "$(plane_socket b)")
		addresses=(2001:db8::1 2001:db8::2)
		;;
	esac
}

on() { # 0|1 PROGRAM ARGUMENTS...
	local -a run=("${INSIDE[@]}" timeout 6000 "$RUN" --socket "${sockets[$1]}" "${OPTIONS[@]}" "${@:2}")
	run_or_become "${run[@]}"
}

# Writes the script $WORK/rank PROGRAM..., which mpirun starts: ranks alternate between the two sides.
write_rank() {
	cat >"$WORK/rank" <<END
#!/bin/sh
rank=\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}
[ \$((rank % 2)) = 0 ] && socket=${sockets[0]} || socket=${sockets[1]}
exec "$RUN" --only-verbs --socket "\$socket" "\$@"
END
	chmod +x "$WORK/rank"
}

listening() { # PORT
	"${INSIDE[@]}" ss -Htln "sport = :$1" | grep -q .
}

await_listening() { # PORT PID NAME
	until listening "$1"; do
		kill -0 "$2" 2>/dev/null || {
			cat "$WORK/$3.server" >&2
			fail "$3: the server does not listen"
		}
		sleep 0.05
	done
}

# until_clear FUNCTION NAME ARGUMENTS...: runs a pair, both of which must succeed. It is run again if perftest failed by a
# fault of its own: it measures the processor's clock at the end, and fails if other programs use the processor; with -R
# its client connects a second time, sometimes before its server listens again.
PERFTEST_FAILS='Correlation coefficient|RDMA_CM_EVENT_REJECTED; error: 8'
until_clear() {
	local tries=20
	until "$@"; do
		tries=$((tries - 1))
		grep -qE "$PERFTEST_FAILS" "$WORK/$2.server" "$WORK/$2.client" && [ "$tries" -gt 0 ] || {
			cat "$WORK/$2.server" "$WORK/$2.client" >&2
			fail "$2: ${*:3} fails at the $FAILED_AT"
		}
	done
	say "$2"
}

# pair NAME PORT PROGRAM ARGUMENTS...: runs a server and a client, both of which must succeed.
pair() { until_clear pair_once "$@"; }

pair_once() {
	local name=$1 port=$2 server
	shift 2
	on 0 "$@" -p "$port" >"$WORK/$name.server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	await_listening "$port" "$server" "$name"
	FAILED_AT=client
	on 1 "$@" -p "$port" 127.0.0.1 >"$WORK/$name.client" 2>&1 || {
		end_process "$server" 10
		return 1
	}
	FAILED_AT=server
	wait "$server"
}

# ---- rdma_cm ----

served() { # yes|no: succeeds if an attachment of data plane $SERVED (default: a) listens, or none does
	local listens=no
	! "$BUILD/control/onesidectl" -s "$(plane_socket "${SERVED:-a}").ctl" show listeners --json 2>/dev/null | grep '"state"' >/dev/null || listens=yes
	[ "$1" = "$listens" ]
}

until_served() { # yes|no NAME
	until served "$1"; do
		[ "$1" = no ] || kill -0 "$server" 2>/dev/null || {
			cat "$WORK/$2.server" >&2
			fail "$2: its server does not listen"
		}
		sleep 0.05
	done
}

cm_pair() { until_clear cm_pair_once "$@"; } # NAME SERVER -- CLIENT

cm_pair_once() {
	local name=$1 server
	local -a serve=()
	shift
	while [ "$1" != -- ]; do
		serve+=("$1")
		shift
	done
	shift
	until_served no "$name" # the previous server has ended
	on 0 "${serve[@]}" >"$WORK/$name.server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	until_served yes "$name"
	FAILED_AT=client
	on 1 "$@" >"$WORK/$name.client" 2>&1 || {
		end_process "$server" 10
		return 1
	}
	FAILED_AT=server
	if [ -n "${SERVER_STAYS:-}" ]; then
		end_process "$server" 10
		true
	else
		wait "$server"
	fi
}

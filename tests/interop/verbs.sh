# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Cases of interop.sh: Debian's unmodified verbs programs on both sides, on oneside's libibverbs and librdmacm on the host,
# and on rdma-core's and Soft-RoCE in the guest.
#
# Programs that connect over TCP run in the bridge's namespace, as in dapl2.sh.
VERBS_RUN=$BUILD/api/verbs/oneside-run
GUEST_GID=1 # GID 0 is the link-local address

verbs_init() {
	local program
	for program in ibv_rc_pingpong ucmatose ib_atomic_bw; do
		command -v "$program" >/dev/null || skip "there is no $program; install ibverbs-utils rdmacm-utils perftest"
	done
	[ -e "$BUILD/api/rdmacm/librdmacm.so.1" ] || skip "there is no librdmacm; install librdmacm-dev, and build again"
	ip -n "$SWITCH" addr replace "$MEETING/24" dev br0 || fail "the bridge takes no address"
}

# Prints WORDS with the server's address for @, and the index of the side's GID for %.
verbs_words() { # ADDRESS INDEX WORDS
	local words=${3//@/$1}
	printf '%s' "${words//%/$2}"
}

listens_here() { # cm|PORT
	case $1 in
	cm) python3 "$HERE/telemetry.py" "$(plane_telemetry a)" /oneside/clients listeners 2>/dev/null | grep -q ' [1-9]' ;;
	*) ip netns exec "$SWITCH" ss -ltnH "sport = :$1" | grep -q . ;;
	esac
}

await_listener() { # here|there cm|PORT [JOB]: or until the program has ended
	local what tenths=$((LIMIT * 10))
	if [ "$1" = here ]; then
		until listens_here "$2" || ! kill -0 "$HERE_PID" 2>/dev/null || [ "$tenths" = 0 ]; do
			sleep 0.1
			tenths=$((tenths - 1))
		done
	else
		what='rdma resource show cm_id | grep -q LISTEN'
		[ "$2" = cm ] || what="grep -q :$(printf %04X "$2").*:0000.0A /proc/net/tcp /proc/net/tcp6"
		guest sh -c "'until $what || [ -e /host/jobs/${3:-talk}.rc ]; do usleep 50000; done'"
	fi
}

# perftest's client connects a second time with -R, sometimes before its server listens again.
TOO_EARLY='RDMA_CM_EVENT_REJECTED; error: 8'
# perftest measures the processor's clock at the end, and fails if other programs used the processor meanwhile.
CLOCK_LOST='Correlation coefficient'
# Both sides fail if the emulated guest needs more than the second that its kernel allows for resolving a neighbour.
NO_NEIGHBOUR='Failed to modify QP .* to RTR'
fails_alone() {
	local words
	for words in "$TOO_EARLY" "$CLOCK_LOST" "$NO_NEIGHBOUR"; do
		said here "$words" || said there "$words" && return
	done
	return 1
}

# verbs_once serve|connect cm|PORT SERVER CLIENT: runs both programs; succeeds if both do.
verbs_once() {
	local role=$1 how=$2 server=$3 client=$4 address=$THEIRS status
	: >"$WORK/ours.log"
	if [ "$role" = serve ]; then
		address=$OURS
		[ "$how" = cm ] || address=$MEETING
		# shellcheck disable=SC2046 # words are wanted
		here "$VERBS_RUN" --socket "$(plane_socket a)" $(verbs_words "$address" 0 "$server")
		await_listener here "$how"
		there talk "$(verbs_words "$address" $GUEST_GID "$client")"
		guest_end talk
		status=$?
		! said there "$TOO_EARLY" || kill "$HERE_PID"
		wait "$HERE_PID" && [ "$status" = 0 ]
	else
		there talk "$(verbs_words "$address" $GUEST_GID "$server")"
		await_listener there "$how"
		# shellcheck disable=SC2046
		here "$VERBS_RUN" --socket "$(plane_socket a)" $(verbs_words "$address" 0 "$client")
		wait "$HERE_PID"
		status=$?
		! said here "$TOO_EARLY" || guest killall "${server%% *}"
		guest_end talk && [ "$status" = 0 ]
	fi
}

# verbs cm|PORT SERVER CLIENT: runs both programs in each of ROLES. PROOF: a text that the client must print.
verbs() {
	local role tries client
	for role in $ROLES; do
		tries=30 # perftest can come too early each time while the emulated guest is slow
		until verbs_once "$role" "$@"; do
			tries=$((tries - 1))
			{ [ "$tries" -gt 0 ] && fails_alone; } || show_both "$3, oneside ${role}s"
		done
		client=here
		[ "$role" = connect ] || client=there
		[ -z "${PROOF:-}" ] || said $client "$PROOF" || show_both "$3, oneside ${role}s: not said: $PROOF"
		say "ok   $3, oneside ${role}s"
	done
}

# rping's client has status 0 even if its pings fail: PROOF is the output of the last ping.
rping() { # OPTIONS...
	PROOF=rdma-ping-4: verbs cm "rping -s -a @ -V -C 5 $*" "rping -c -v -a @ -V -C 5 $*"
}

perftest() { # PORT PROGRAM OPTIONS...
	verbs "$1" "$2 -F -x % -p $1 ${*:3}" "$2 -F -x % -p $1 ${*:3} @"
}

perftest_cm() { # PROGRAM OPTIONS...
	verbs cm "$1 -F -R ${*:2}" "$1 -F -R ${*:2} @"
}

# -o limits READs, because perftest otherwise requests as many as the peer offers: Soft-RoCE's 128 exceed our limit.
case_verbs() {
	local size
	start_interop_plane 4 1500
	verbs_init
	for size in 64 1025 65535; do
		rping -S $size
	done
	rping -q
	verbs cm "ucmatose -b @ -c 3 -C 3 -S 1000" "ucmatose -s @ -c 3 -C 3 -S 1000"
	verbs 18515 "ibv_rc_pingpong -g % -c -n 100" "ibv_rc_pingpong -g % -c -n 100 @"
	verbs 18515 "ibv_rc_pingpong -g % -c -e -s 70000 -n 20" "ibv_rc_pingpong -g % -c -e -s 70000 -n 20 @"
	perftest 18516 ib_write_bw -s 65536 -n 20
	perftest 18516 ib_read_bw -o 16 -s 4096 -n 100
	perftest 18516 ib_send_bw -s 4096 -n 200
	perftest 18516 ib_write_lat -s 8 -n 100
	perftest 18516 ib_atomic_bw -o 16 -n 100
	perftest_cm ib_write_bw -s 65536 -n 20
	[ "$(python3 "$HERE/telemetry.py" "$(plane_telemetry a)" /oneside/transport recognized)" = "recognized 0" ] ||
		fail "Soft-RoCE was taken for a oneside"
	stop_plane a
}

# More options of perftest, in the suite slow.
case_options() {
	start_interop_plane 4 1500
	verbs_init
	perftest 18516 ib_write_bw -s 4096 -n 200
	perftest 18516 ib_write_bw -q 16 -s 4096 -n 20
	perftest 18516 ib_read_lat -o 16 -s 8 -n 50
	perftest 18516 ib_send_bw --use-srq -q 2 -s 4096 -n 50
	perftest 18516 ib_send_lat -s 64 -n 50
	perftest 18516 ib_send_lat -c UD -s 64 -n 50 -r 512
	perftest 18516 ib_atomic_lat -o 16 -n 50
	perftest_cm ib_read_bw -s 10001 -n 20
	perftest_cm ib_send_bw -s 4096 -n 200
	perftest_cm ib_write_lat -s 8 -n 50
	perftest_cm ib_read_lat -s 8 -n 50
	perftest_cm ib_send_lat -s 64 -n 50
	stop_plane a
}

# Datagrams, at most as many as there are receives: a datagram that finds no receive is lost.
case_datagrams() {
	start_interop_plane 4 1500
	verbs_init
	verbs 18515 "ibv_ud_pingpong -g % -c -n 100" "ibv_ud_pingpong -g % -c -n 100 @"
	verbs 18515 "ibv_ud_pingpong -g % -c -e -s 1024 -n 50" "ibv_ud_pingpong -g % -c -e -s 1024 -n 50 @"
	verbs cm "udaddy -b @ -c 2 -C 5 -S 500" "udaddy -s @ -c 2 -C 5 -S 500"
	perftest 18516 ib_send_bw -c UD -s 1024 -n 100 -r 512
	stop_plane a
}

# IPv6 with a path MTU of 4096; perftest does not support IPv6.
case_verbs6() {
	start_interop_plane 6 "$CABLE_MTU"
	verbs_init
	# getaddrinfo() accepts IPv6 addresses only if the machine has one.
	ip netns exec "$SWITCH" sysctl -qw net.ipv6.conf.lo.disable_ipv6=0
	ip -n "$SWITCH" addr replace fd00::1/128 dev lo || fail "no IPv6 address in the bridge's namespace"
	GUEST_GID=2
	rping -S 64
	rping -S 16385
	THEIRS=192.0.2.10 verbs 18515 "ibv_rc_pingpong -g % -c -n 100" "ibv_rc_pingpong -g % -c -n 100 @"
	THEIRS=192.0.2.10 verbs 18515 "ibv_ud_pingpong -g % -c -n 100" "ibv_ud_pingpong -g % -c -n 100 @"
	GUEST_GID=1
	stop_plane a
}

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run the unmodified programs of Debian's dapl2-utils on the provider library for uDAPL 2.0:
#
#   dapl2.sh local    both sides on one data plane; dtest without its default of 900 MB, dapltest without an LMR of 1 GiB
#   dapl2.sh memif    on two data planes joined by memif
#
# dtest, dtestx and dtestcm first connect over TCP on the loopback interface, always at port 15828, then over the data
# planes. If root runs the test, each row of programs has its own loopback interface, and rows run in parallel, because
# some programs sleep for seconds.

. "$(dirname "$0")/lib.sh"
for program in dtest dtestx dtestcm dtestsrq dapltest; do
	command -v "$program" >/dev/null || skip "$program is missing: apt-get install dapl2-utils"
done
LIBRARY=$BUILD/api/dat2/libdaplone.so.2
[ -e "$LIBRARY" ] || fail "$LIBRARY is not built"
net_init
cable=$1
SERVER=192.0.2.1
MEETING_PORT=15828

# Some of these programs poll for seconds. If they share processors with the data planes, only a data plane that sleeps
# gets a processor at once when there is work.
[ "$(allowed_cpus | wc -l)" -ge 4 ] || PLANE_IDLE=${PLANE_IDLE:-sleep}

# Limits of receives and of requests of an endpoint that suffice for dtestsrq.
LIMITS=(--limit max_srq_wr=16384 --limit max_qp_wr=16384)

INSIDE=() # command prefix that enters the namespace of the row
LOGS=$WORK # folder for logs of the row

# own_loopback NAME: makes a namespace with a loopback interface; leaves INSIDE empty if that is impossible.
own_loopback() {
	local namespace=oneside-$$-$1
	INSIDE=()
	[ "$(id -u)" = 0 ] && ip netns add "$namespace" 2>/dev/null || return
	NAMESPACES+=("$namespace")
	ip -n "$namespace" link set lo up
	INSIDE=(ip netns exec "$namespace")
}

# rows FUNCTION...: runs the functions, in parallel if each has its own loopback interface
rows() {
	local row failed=0
	local -A running=()
	for row in "$@"; do
		own_loopback "$row"
		LOGS=$WORK/$row
		mkdir "$LOGS"
		(
			APPLICATIONS=()
			trap 'kill "${APPLICATIONS[@]}" 2>/dev/null' EXIT
			trap 'exit 143' TERM
			"$row"
		) >"$LOGS/out" 2>&1 &
		running[$row]=$!
		APPLICATIONS+=($!)
		if [ ${#INSIDE[@]} = 0 ]; then
			wait $! || failed=1
			unset "running[$row]"
		fi
	done
	for row in "${!running[@]}"; do
		wait "${running[$row]}" || failed=1
	done
	for row in "$@"; do
		cat "$WORK/$row/out"
	done
	[ "$failed" = 0 ] || exit 1 # the row has printed the reason
	INSIDE=()
	LOGS=$WORK
}

case $cable in
local)
	start_memif_plane a "${LIMITS[@]}"
	sockets=("$(plane_socket a)" "$(plane_socket a)")
	;;
memif)
	start_memif_pair "${LIMITS[@]}"
	sockets=("$(plane_socket a)" "$(plane_socket b)")
	;;
*)
	fail "dapl2.sh: \"$cable\" is not a kind of cable"
	;;
esac

# The IA has the same name on both sides, as on two hosts, because clients open the IA that the server names.
IA=oneside-v2
for end in 0 1; do
	printf '%s u2.0 nonthreadsafe default %s oneside.2.0 "socket=%s" ""\n' \
		$IA "$LIBRARY" "${sockets[$end]}" >"$WORK/dat.conf.$end"
done

show() {
	tail -n 40 "$LOGS/server.out" "$LOGS/client.out" >&2
	fail "$* over $cable"
}

# client ARGUMENTS...: runs a program, which must succeed; its output is in client.out.
client() {
	DAT_OVERRIDE=$WORK/dat.conf.1 "${INSIDE[@]}" "$@" >"$LOGS/client.out" 2>&1
	local status=$?
	[ "$status" = 0 ] || show "$* ends with status $status"
}

# start_server TEXT ARGUMENTS...: returns when the server has printed TEXT.
start_server() {
	local text=$1
	shift
	: >"$LOGS/server.out" # discard the output of the previous server
	DAT_OVERRIDE=$WORK/dat.conf.0 "${INSIDE[@]}" stdbuf -oL "$@" >"$LOGS/server.out" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	until grep -q "$text" "$LOGS/server.out"; do
		kill -0 "$server" 2>/dev/null || show "$* does not start"
		sleep 0.05
	done
}

wait_server() {
	wait "$server" || show "the server of $* ends with status $?"
}

listening() {
	"${INSIDE[@]}" ss -ltnH "sport = :$MEETING_PORT" | grep -q .
}

# meet PROGRAM OPTIONS...: runs server and client once.
meet() {
	local program=$1
	shift
	start_server . "$program" -P $IA -s "$@"
	until listening; do
		kill -0 "$server" 2>/dev/null || show "$program does not listen"
		sleep 0.05
	done
	client "$program" -P $IA -h 127.0.0.1 "$@"
}

# pair TEXT PROGRAM OPTIONS...: runs server and client; both must print TEXT.
pair() {
	local text=$1 tries=5
	shift
	meet "$@"
	# The server of dtest may let the client start before it listens on its connection qualifier: try again.
	while grep -q 'CONNECTION_EVENT_NON_PEER_REJECTED' "$LOGS/client.out" && [ "$tries" -gt 0 ]; do
		kill "$server"
		wait "$server"
		tries=$((tries - 1))
		meet "$@"
	done
	wait_server "$1"
	expect "$text" "$LOGS/client.out"
	expect "$text" "$LOGS/server.out"
	say "passed: $*"
}

if [ -x "$BUILD/tests/net/net-dat2-cases" ]; then
	sed "s/^$IA/server/" "$WORK/dat.conf.0" >"$WORK/dat.conf"
	sed "s/^$IA/client/" "$WORK/dat.conf.1" >>"$WORK/dat.conf"
	DAT_OVERRIDE=$WORK/dat.conf "$BUILD/tests/net/net-dat2-cases" server client ||
		fail "net-dat2-cases over $cable"
	say "passed: refusals with private data, arguments of 2.0"
fi

# Operations that only 2.0 has, with their errors; tests/interop runs the program against Soft-RoCE.
if [ -x "$BUILD/tests/interop/udapl2-operations" ]; then
	for end in 0 1; do
		sed "s/^$IA/oneside/" "$WORK/dat.conf.$end" >"$WORK/dat.operations.$end"
	done
	for operation in 'SEND with invalidate' 'WRITE with' FETCH-ADD CMP-SWAP 'a request that is rejected'; do
		: >"$LOGS/server.out"
		DAT_OVERRIDE=$WORK/dat.operations.0 "$BUILD/tests/interop/udapl2-operations" serve \
			>"$LOGS/server.out" 2>&1 &
		server=$!
		APPLICATIONS+=("$server")
		until grep -q '^listening' "$LOGS/server.out"; do
			kill -0 "$server" 2>/dev/null || show "udapl2-operations does not start"
			sleep 0.05
		done
		DAT_OVERRIDE=$WORK/dat.operations.1 "$BUILD/tests/interop/udapl2-operations" connect $SERVER \
			"$operation" >"$LOGS/client.out" 2>&1 || show "udapl2-operations: $operation"
		wait_server udapl2-operations
		say "passed: udapl2-operations: $operation"
	done
fi

# dtest and dtestcm use the same connection qualifier: run them one after the other.
dtests() {
	local -a size=()
	[ "$cable" = memif ] || size=(-b 65536 -B 100)
	pair 'DAPL Test Complete. PASSED' dtest "${size[@]}"
	pair 'DAPL Test Complete. PASSED' dtest -c "${size[@]}"
	pair 'DAPL Test Complete. PASSED' dtest -p -b 1000 -B 100
	pair 'DAPL Test Complete. PASSED' dtest -W -b 64
	pair 'DAPL Test Complete. PASSED' dtest -W -a -i 16384 -D -b 65536 -B 20
	pair 'DAPL Test Complete. PASSED' dtest -w -b 65536 -B 1000 -S 100
	pair 'DAPL Test Complete. PASSED' dtest -w -u -b 65536 -B 1000 -p
	pair 'DAPL Test Complete. PASSED' dtest -u -t -b 4096
	pair 'DAPL Test Complete. PASSED' dtest -d 1 -b 4096
	pair 'ALL 1000 CONNECTED' dtestcm
	pair 'ALL 200 CONNECTED' dtestcm -w -m -b 50 -c 200
	pair 'ALL 200 CONNECTED' dtestcm -p 50000 -b 1 -c 200
	pair 'ALL 5 CONNECTED' dtestcm -v -d 1 -c 5
}

dtestxs() {
	pair 'IB extension test - immed/atomic test PASSED' dtestx
	for text in RDMA_WRITE_WITH_IMMEDIATE_DATA CMP_SWAP FETCH_ADD; do
		expect "$text test - PASSED" "$LOGS/client.out"
		expect "$text test - PASSED" "$LOGS/server.out"
	done
	pair 'IB extension test - immed/atomic test PASSED' dtestx -p -b 4096
}

# transfer TEST ARGUMENTS...: runs one client of the running dapltest server.
transfer() {
	client dapltest -T "$1" -D $IA -s $SERVER "${@:2}"
	grep -Eiq 'fail|error|mismatch|unexpected' "$LOGS/client.out" "$LOGS/server.out" && show "dapltest $*"
	expect 'End of Work -- Client Exiting' "$LOGS/client.out"
	say "passed: dapltest -T $*"
}

serve_dapltest() {
	start_server 'Service Point Ready' dapltest -T S -D $IA
}

quit_dapltest() {
	transfer Q
	wait_server 'dapltest -T S'
	expect 'Exiting' "$LOGS/server.out"
}

# dapltest has two faults. With -V segments must be multiples of 256 bytes. With three threads (-t) or more, two must not
# finish before another one, which polls every 10 ms, has begun: iterations must take long.
dapltests() {
	serve_dapltest
	transfer T -i 200 client SR 4096 2 server SR 4096 2
	transfer T -i 200 -P -V client SR 256 1 server RW 40960 3 server SR 256 1
	transfer T -i 50 -V client RR 4096 1 server RR 100000 1 client SR 256 1 server SR 256 1
	transfer T -i 50 -V -t 2 -w 4 client RW 4096 1 server RW 2048 4 client SR 1024 4 server SR 4096 2 \
		client SR 1024 3 -f server SR 2048 1 -f
	transfer T -i 2000 -t 8 -w 8 client SR 256 1 server SR 256 1
	transfer T -i 50 -r -t 2 -w 4 -V client SR 256 1 server SR 256 1
	transfer T -i 400 -P -t 4 -w 2 -V client RW 4096 1 server RW 4096 1 client SR 256 1 server SR 256 1
	transfer T -i 20 -V client RR 65536 4 server RR 65536 4 client RW 65536 4 server RW 65536 4 \
		client SR 256 1 server SR 256 1
	transfer T -i 10 -V client RW 1048576 1 server RR 1048576 1 client SR 256 1 server SR 256 1
	transfer T -i 100 client SR 100 3 server SR 77 2 client RW 1 1 server RR 3 1
	quit_dapltest
	serve_dapltest
	transfer P -i 200 -p 16 RW 4096 2
	transfer P -i 200 -p 1 RW 4096 1
	transfer P -i 200 RW 64 1
	transfer P -i 500 -p 16 -m p RW 8 1
	transfer P -i 500 -p 64 -m p RW 4096 4
	transfer P -i 500 -p 64 -m p RR 4096 4
	transfer P -i 500 -p 8 -m b RR 65536 1
	transfer P -i 100 -p 1 -m b RR 64 1
	transfer P -i 100 -p 16 -m b RW 1048576 1
	quit_dapltest
}

say "== dtest, dtestx, dtestcm, dapltest: transaction, performance, quit, over $cable"
rows dtests dtestxs dapltests

# srq OPTIONS...: makes many connections that share one receive queue on each side.
srq() {
	start_server 'Accepting' dtestsrq -P $IA -s "$@"
	client dtestsrq -P $IA -h $SERVER "$@"
	wait_server dtestsrq
	# dtestsrq has status 0 even if it fails: check its output.
	expect 'Test Complete' "$LOGS/client.out"
	expect 'Test Complete' "$LOGS/server.out"
	say "passed: dtestsrq $*"
}

say "== dtestsrq"
srq
srq -c 10 -B 10 -t 10
srq -c 100 -B 100
srq -c 20 -b 65536
srq -S 0 -c 10 -B 10

# limit TEST TEXT MAXIMUM: dapltest must create at least ten objects, and frees them.
limit() {
	local reached
	client dapltest -T L -D $IA -m "$3" "limit_$1"
	reached=$(sed -n "s/.*LimitTest: $2: *//p" "$LOGS/client.out" | head -n 1)
	[ "${reached:-0}" -ge 10 ] || show "dapltest limit_$1: \"$reached\""
	say "passed: dapltest limit_$1: $reached"
}

say "== dapltest: limits"
limit ia 'IAs opened' 1000
limit pz 'PZs created' 1000
limit cno 'CNOs created' 1000
limit evd 'EVDs created' 1000
limit ep 'EPs created' 1000
limit rsp 'RSPs created' 1000
limit psp 'PSPs created' 1000
limit lmr 'LMRs created' 1000
limit rpost 'recv buffers posted per EP' 1000

# dapltest probes sizes of an LMR up to 1 GiB; registration copies the memory, so 2 GiB exist for a moment.
if [ "$cable" = local ]; then
	: # takes long
elif [ "$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)" -ge $((4 << 20)) ]; then
	client dapltest -T L -D $IA limit_size_lmr
	expect 'LMR of 0x40000000 bytes OK' "$LOGS/client.out"
	say 'passed: dapltest limit_size_lmr: 1 GiB'
else
	say 'left out: dapltest limit_size_lmr: less than 4 GiB of memory are available'
fi

# feature NAME CASES...: runs cases of dapltest's function tests, with good and bad arguments. UNSUPP marks a case that
# dapltest itself does not implement.
feature() {
	local name=$1 number unsupported=
	shift
	for number in "$@"; do
		client dapltest -T F -D $IA -f "$name" "case$number"
		if grep -q 'Result: UNSUPP' "$LOGS/client.out"; then
			unsupported+=" $number"
		else
			expect 'Result: PASS' "$LOGS/client.out"
		fi
	done
	say "passed: dapltest -T F -f $name, cases $*${unsupported:+ (not in dapltest:$unsupported)}"
}

say "== dapltest: functions"
feature endpoint {0..2}
feature pz {0..2}
feature mem {0..4}
feature connmgt 0 1
# Leave out cases 13 and 15: they pass invalid handles, which libdat2 dereferences before it calls a provider, and crashes.
feature hwconn {0..3}
feature queryinfo {0..12} 14 16 17

stop_plane a
[ "$cable" = local ] || stop_plane b

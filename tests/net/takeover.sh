#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# New data planes take over from those that serve (doc/upgrade.md), between two data planes over af_packet:
#
#   takeover.sh traffic [N]   N times (default 10) at one end, then at the other, under oneside-perf and rping -V
#   takeover.sh memif [N [abstract]]   the same over memif, whose socket is a file or has an abstract name
#   takeover.sh held          while the old one waits for a new process that hangs, a third one takes the memif's socket; the port
#                             opens when that one ends
#   takeover.sh tap [N]       the same over taps, each bridged to a veth: the kernel's side is a new interface each time
#   takeover.sh af_xdp [N]    the same over af_xdp
#   takeover.sh ipsec [N]     the same over af_packet, encrypted
#   takeover.sh local [N [CORES [PLACEMENT]]]   N times under the same programs on one data plane
#   takeover.sh rsm [N]       N times at the exporter's end, then at the importer's, then where both are, under RSM transfers,
#                             signals and mappings, of peers that share a secret
#   takeover.sh mixed [N [one|both|local]...]   N times (default 100) at one end, then at both at once, then where both ends are,
#                             under 64 endpoints of uDAPL, RSM and verbs at once (CABLE=memif: over memif)
#   takeover.sh cores [veth|memif|ipsec|local]   with more and fewer polling cores, under the same programs
#   takeover.sh gaps [N]      the longest times between completions of 8 B writes in N take-overs (default 20), with 1,000 idle
#                             connections and 1 GiB registered (CABLE=memif: over memif; CABLE=local: within one data plane); GAPS=FILE
#                             gets a line for each, in us: the data plane stopped, a program waited
#   takeover.sh killed [STEP] each process is killed at each step of enum takeover_step; afterwards one serves
#   takeover.sh failed        new processes die before the commit; the old one has as many descriptors as before
#   takeover.sh upgrade       onesidectl upgrade, and what it refuses
#   takeover.sh user          the same of a user without privileges
#   takeover.sh golden FILE   writes the state of a data plane with objects of many kinds, for tests/data/takeover
#   takeover.sh refused       what cannot be taken over is refused with its name, and the old one goes on
. "$(dirname "$0")/verbs_lib.sh"
. "$(dirname "$0")/esp_lib.sh"
. "$(dirname "$0")/upgrade_lib.sh"
PERF=$BUILD/perf/oneside-perf
[ -x "$PERF" ] || skip "there is no oneside-perf (-Dperf=false)"
command -v rping >/dev/null || skip "rping is missing: apt-get install rdmacm-utils"
GENERATION=1
PIDS=() # of programs that have to go on
CABLE_MTU=4200
DRIVER=af_packet # of a veth
declare -A ENCRYPTION=([a]="" [b]="") # options, of words without blanks

init_planes() {
	[ -n "${WORK:-}" ] || net_init
	need_root
	[ -z "${SHARE_SECRET:-}" ] || share_secret
	export XDG_RUNTIME_DIR=$WORK
	PLANE_IDLE=${PLANE_IDLE:-sleep}
	CABLE=${1:-veth}
	EXTRA=()
	[ "$CABLE" = memif ] || EXTRA=(--metrics 0.0.0.0:9464)
	# A busy machine must not look like a dead peer of RSM.
	EXTRA+=(--keepalive-ms 20000)
	if [ "$CABLE" = memif ]; then
		start_memif_pair --log-level "${LEVEL:-info}" "${EXTRA[@]}"
	else
		make_namespace a
		make_namespace b
		make_veth "oneside-$$-a" "oneside-$$-b"
		[ "$DRIVER" != tap ] || bridge_taps
		start_a_or_b a
		start_a_or_b b
	fi
	make_namespace meet
	INSIDE=(ip netns exec "$NETNS")
	addresses=(192.0.2.1 192.0.2.2)
	sockets=("$(plane_socket a)" "$(plane_socket b)")
}

# Joins each namespace's tap0, whenever it is made, to its end of the cable. The kernel's side gets an address of its own: at
# first it has the data plane's, and a bridge would keep frames for it.
bridge_taps() {
	local name ns
	for name in a b; do
		ns=oneside-$$-$name
		ip -n "$ns" link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 || fail "no bridge"
		ip -n "$ns" link set veth0 master br0
		ip -n "$ns" link set br0 up
		while sleep 0.02; do
			ip -n "$ns" link show tap0 | tr '\n' ' ' | grep -q 'master br0.*02:00:00:00:00:01' ||
				ip -n "$ns" link set tap0 address 02:00:00:00:00:01 master br0 up
		done 2>/dev/null &
		APPLICATIONS+=("$!")
	done
}

start_a_or_b() { # NAME
	# shellcheck disable=SC2086
	PLANE_DRIVER=$DRIVER start_af_packet_plane "$1" --log-level "${LEVEL:-info}" "${EXTRA[@]}" ${ENCRYPTION[$1]}
}

# The planes prove to each other who they are when an RSM import connects.
share_secret() {
	(umask 077 && printf '%032d\n' 0 | tr 0 1 >"$WORK/secret")
	PLANE_PEER=,secret_file=$WORK/secret
}

# try_take_over NAME OPTIONS...: starts a data plane that takes over from the one of that name; $NEW is its process,
# $NEW_LOG its log.
try_take_over() {
	local name=$1 own=1 peer=2 role=server device network=${PLANE_NETWORK:-192.0.2.} bits=24
	local -a within=()
	GENERATION=$((GENERATION + 1))
	[ "$name" = b ] && own=2 peer=1 role=client
	[ "$network" != "${network%:}" ] && bits=64
	if [ "$CABLE" = memif ]; then
		device=$(memif_device "$role")
	else
		device=--vdev=$(kernel_device "$DRIVER")
		within=(ip netns exec "oneside-$$-$name")
	fi
	NEW_LOG=$WORK/$name-$GENERATION.log
	: >"$NEW_LOG"
	# shellcheck disable=SC2046,SC2086
	"${within[@]}" "$DATAPLANE" $(plane_cores "$own") \
		$(PLANE_GENERATION=-$GENERATION eal_options "$name") \
		"$device" -- --idle "$(plane_idle)" --port "name=p0,device=$(sed 's/--vdev=//; s/,.*//' <<<"$device"),address=$network$own/$bits,mtu=$CABLE_MTU" --node "$own" \
		--peer "node=$peer,address=$network$peer${PLANE_PEER:-}" --socket "$(plane_socket "$name")" --log-level "${LEVEL:-info}" --placement "${PLANE_PLACEMENT:-auto}" \
		"${EXTRA[@]}" ${ENCRYPTION[$name]} --take-over "${@:2}" >"$NEW_LOG" 2>&1 </dev/null &
	NEW=$!
	APPLICATIONS+=("$NEW")
}

# await_new NAME: the new data plane serves, and the old one has ended. On a busy machine requests may take longer than the
# old one waits for them.
await_new() {
	local old=${PLANE_PID[$1]} tries=1
	until grep -q 'serving on' "$NEW_LOG"; do
		sleep "${LOOK_INTERVAL:-0.05}"
		alive "$NEW" && continue
		if [ "$tries" = 10 ] || ! grep -q 'try again' "$NEW_LOG"; then
			fail "data plane $1 is not taken over: $(tail -n 5 "$NEW_LOG")"
		fi
		tries=$((tries + 1))
		try_take_over "$1"
	done
	wait "$old" || fail "the old data plane $1 ended with status $?"
	echo $(($(step_at take-committed "$NEW_LOG") - $(step_at give-asked "$WORK/$1.log"))) >>"$WORK/gaps"
	PLANE_PID[$1]=$NEW
	ln -sf "$NEW_LOG" "$WORK/$1.log"
	going_on
}

step_at() { grep -o "step=$1 at_us=[0-9]*" "$2" | tail -n 1 | sed 's/.*=//'; } # STEP LOG: microseconds

# Prints how long requests and cores stood still.
say_gaps() {
	sort -n "$WORK/gaps" | awk '{ at[NR] = $1 / 1000 } END {
		printf "%d take-overs: stopped for %.0f ms in the middle, %.0f ms at most\n", NR, at[int((NR + 1) / 2)], at[NR] }'
}

take_over() { # NAME
	local -a before
	[ -z "${ENCRYPTION[$1]}" ] || before=("$(encrypted "$1")" "$(number "$1")")
	try_take_over "$1"
	await_new "$1"
	[ -z "${ENCRYPTION[$1]}" ] || check_encryption "$1" "${before[@]}"
}

# encrypted NAME: how many frames the cores of a data plane have encrypted.
encrypted() {
	ctl "$1" show cores --json | /usr/bin/python3 -c 'import json, sys
print(sum(core["esp_sent"] for core in json.load(sys.stdin)["cores"]))'
}

# number NAME: the last sequence number that a data plane has sent.
number() {
	ctl "$1" show ipsec --json | /usr/bin/python3 -c 'import json, sys
print([sa["number"] for sa in json.load(sys.stdin)["ipsec"] if sa["direction"] == "out"][0])'
}

# The new data plane goes on at the next number: neither at an earlier one, nor behind all that were reserved, as after a
# crash. Nothing is sent in the clear.
check_encryption() { # NAME ENCRYPTED-BEFORE NUMBER-BEFORE
	local plane reason now sent
	await_pings 1
	now=$(number "$1")
	sent=$(($(encrypted "$1") - $2))
	[ "$now" -gt "$3" ] || fail "sequence number $now after $3"
	[ "$((now - $3 - sent))" -lt $((1 << 19)) ] || fail "sequence numbers are left out: $now after $3, for $sent frames"
	for plane in a b; do
		for reason in esp_plain esp_replay esp_icv esp_spi esp_no_association; do
			[ "$(drops "$plane" "$reason")" = 0 ] || fail "$plane: $(ctl "$plane" show drops)"
		done
	done
}

# Gives both ends keys.
encrypt() {
	need_crypto ipsec_mb openssl
	CABLE_MTU=4228 # fits ESP
	make_key ab 36
	make_key ba 20
	ENCRYPTION[a]="--state $WORK/state-a $(ipsec b 192.0.2.2 "0x1001:$WORK/ab.key" "0x1002:$WORK/ba.key")"
	ENCRYPTION[b]="--state $WORK/state-b $(ipsec a 192.0.2.1 "0x1002:$WORK/ba.key" "0x1001:$WORK/ab.key")"
}

going_on() {
	local pid
	for pid in "${PIDS[@]}"; do
		kill -0 "$pid" 2>/dev/null || fail "a program has ended: $(cat "$WORK"/*.server "$WORK"/*.client 2>/dev/null)"
	done
}

# True if rping's server listens; within one host oneside-perf's listens at the same data plane.
served() { "$BUILD/control/onesidectl" -s "$(plane_socket a).ctl" show listeners 2>/dev/null | grep -w rping >/dev/null; }

# Starts a program pair that goes on for SECONDS.
start_programs() { # SECONDS
	local host=192.0.2.2
	[ "${sockets[0]}" != "${sockets[1]}" ] || host=192.0.2.1
	ONESIDE_SOCKET=${sockets[1]} "$PERF" --once -t write_lat -D "$1" >"$WORK/perf.server" 2>&1 &
	PERF_SERVER=$!
	until grep -qs 'serving on' "$WORK/perf.server"; do sleep 0.05; done
	ONESIDE_SOCKET=${sockets[0]} "$PERF" -t write_lat -D "$1" -s 8 "$host" >"$WORK/perf.client" 2>&1 &
	PERF_CLIENT=$!
	on 0 rping -s -p 7174 -a 192.0.2.1 >"$WORK/rping.server" 2>&1 &
	RPING_SERVER=$!
	local server=$RPING_SERVER
	until_served yes rping
	: >"$WORK/rping.client"
	on 1 rping -c -v -V -p 7174 -a 192.0.2.1 >>"$WORK/rping.client" 2>&1 &
	RPING_CLIENT=$!
	PIDS=("$RPING_SERVER" "$RPING_CLIENT")
	APPLICATIONS+=("$PERF_SERVER" "$PERF_CLIENT" "${PIDS[@]}")
	await_pings 10
}

# Ends oneside-perf, which must still be running.
end_perf() {
	alive "$PERF_CLIENT" && alive "$PERF_SERVER" || fail "oneside-perf has ended: $(cat "$WORK/perf.client" "$WORK/perf.server")"
	kill "$PERF_CLIENT" "$PERF_SERVER"
}

# await_pings N: waits for N more pings, whose data rping -V compares. The file grows by megabytes a second.
await_pings() {
	local from
	from=$(stat -c %s "$WORK/rping.client")
	until [ "$(tail -c +$((from + 1)) "$WORK/rping.client" | head -c 100000 | grep -c 'ping data')" -ge "$1" ]; do
		going_on
		sleep 0.05
	done
}

# usage NAME: descriptors, mappings and resident memory (MiB) of a data plane.
usage() {
	local pid=${PLANE_PID[$1]}
	printf '%s descriptors, %s mappings, %s MiB' "$(find "/proc/$pid/fd" -mindepth 1 | wc -l)" \
		"$(grep -c . "/proc/$pid/maps")" "$(awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status")"
}

# The new process dies, or hangs, before the commit: the old one ends it, and opens its ports again.
fail_to_take_over() { # NAME STEP-OF-DEATH STEP-OF-HANGING
	local before
	before=$(grep -c 'event=takeover_refused' "$WORK/$1.log")
	ONESIDE_TAKEOVER_KILL=$2 ONESIDE_TAKEOVER_STOP=$3 try_take_over "$1"
	until_gone "$NEW"
	until [ "$(grep -c 'event=takeover_refused' "$WORK/$1.log")" -gt "$before" ]; do sleep 0.05; done
	await_pings 3
}

test_traffic() { # N NAME...
	local name i
	start_programs 86400
	for name in "${@:2}"; do
		say "data plane $name: $(usage "$name")"
		if [ "$CABLE" = memif ] || [ "$DRIVER" = tap ] || [ "$DRIVER" = af_xdp ]; then
			fail_to_take_over "$name" take-built ''
			fail_to_take_over "$name" '' take-built
		fi
		for ((i = 1; i <= $1; i++)); do
			take_over "$name"
			await_pings 3
			[ "$i" != 1 ] || say "data plane $name after one: $(usage "$name")"
		done
		say "data plane $name after $((i - 1)): $(usage "$name")"
	done
	end_perf
	say_gaps
	kill "$RPING_CLIENT"
	wait "$RPING_SERVER" # ends with its client
	! grep -iE 'error|mismatch|fail|flush' "$WORK/rping.client" || fail "rping"
	PIDS=()
	stop_plane a
	stop_plane b
}

# Binds the abstract name of the memif's socket as soon as it is free, until the file RELEASE exists.
hold_cable() {
	/usr/bin/python3 - "$WORK/cable" "$WORK/release" <<-'END'
		import os, socket, sys, time
		while True:
		    holder = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		    try:
		        holder.bind("\0" + sys.argv[1])
		        break
		    except OSError:
		        holder.close()
		        time.sleep(0.0005)
		print("held", flush=True)
		while not os.path.exists(sys.argv[2]):
		    time.sleep(0.05)
	END
}

test_held() {
	local before
	start_programs 86400
	hold_cable >"$WORK/holder" &
	APPLICATIONS+=("$!")
	ONESIDE_TAKEOVER_STOP=take-received try_take_over a
	until_gone "$NEW"
	until grep -q 'event=takeover_port' "$WORK/a.log"; do sleep 0.05; done
	grep -q held "$WORK/holder" || fail "nobody held the socket"
	before=$(grep -c 'event=rings' "$WORK/b.log")
	touch "$WORK/release"
	until [ "$(grep -c 'event=rings' "$WORK/b.log")" -gt "$before" ]; do sleep 0.05; done
	await_pings 3
}

# The names of the steps, from the list that the code has.
steps() { grep -o '\[TAKEOVER_[A-Z_]*\] = "[a-z-]*"' "$(dirname "$0")/../../control/takeover/wire.c" | cut -d'"' -f2; }

serves() { # NAME
	"$BUILD/control/onesidectl" -s "$(plane_socket "$1").ctl" show clients >"$WORK/shown" 2>&1
}

rounds() { grep -c '^round' "$WORK/rsm"; }

# await_rounds N: waits for N more rounds of net-rsm-takeover.
await_rounds() {
	local want=$(($(rounds) + $1))
	until [ "$(rounds)" -ge "$want" ]; do
		alive "$RSM" || fail "net-rsm-takeover has ended: $(tail -n 5 "$WORK/rsm")"
		sleep 0.05
	done
}

start_rsm() { # IMPORTERS-SOCKET EXPORTERS-SOCKET
	: >"$WORK/rsm"
	rm -f "$WORK/until"
	UNTIL=$WORK/until "$BUILD/tests/net/net-rsm-takeover" "$1" "$2" >"$WORK/rsm" 2>&1 &
	RSM=$!
	APPLICATIONS+=("$RSM")
	await_rounds 3
}

end_rsm() {
	touch "$WORK/until"
	wait "$RSM" || fail "net-rsm-takeover: $(tail -n 5 "$WORK/rsm")"
}

# The programs go on if all the state is in one process, or the other: it crosses when it is sent.
kill_at() { # STEP
	local step=$1 old dead go_on=yes lives
	ONESIDE_TAKEOVER_KILL=$step start_a_or_b a
	[ -n "${PLANE_PID[b]:-}" ] || start_a_or_b b
	old=${PLANE_PID[a]}
	start_programs 300
	start_rsm "${sockets[1]}" "${sockets[0]}"
	case $step in
	give-*)
		try_take_over a
		dead=$old lives=$NEW
		;;
	*)
		ONESIDE_TAKEOVER_KILL=$step try_take_over a
		dead=$NEW lives=$old
		;;
	esac
	case $step in
	give-asked | give-stopped | give-written | give-closed) go_on=no ;;
	take-committed) go_on=no lives='' ;; # the new one was alone: the end of a crash
	esac
	until_gone "$dead"
	[ "$step" != take-committed ] || until_gone "$old"
	if [ "$go_on" = yes ]; then
		await_pings 3
		await_rounds 3
		end_rsm
	else
		PIDS=()
		wait "$RSM" && fail "$step: net-rsm-takeover does not report the end"
		wait "$PERF_CLIENT" && fail "$step: oneside-perf does not report the end"
	fi
	if [ -n "$lives" ]; then
		until serves a; do
			alive "$lives" || fail "$step: none serves: $(cat "$NEW_LOG")"
			sleep 0.05
		done
		alive "$lives" || fail "$step: the wrong one serves"
	fi
	say "killed at $step: programs go on: $go_on; one serves: ${lives:+yes}"
	PIDS=()
	for pid in "$PERF_CLIENT" "$RPING_CLIENT" "$RPING_SERVER" "$PERF_SERVER" $lives; do
		end_process "$pid" 20
	done
	wait "$old" "$NEW" 2>/dev/null
	unset "PLANE_PID[a]"
	rm -f "$WORK"/a.sock*
}

# refused SENTENCE: the new data plane has ended with it, and the old one serves.
refused() {
	wait "$NEW" && fail "a take-over succeeds that should not"
	expect "$1" "$NEW_LOG"
	serves a || fail "the old data plane does not serve any more"
	going_on
	await_pings 3
}

metrics() { # NAME FILE
	"$BUILD/control/onesidectl" -s "$(plane_socket "$1").ctl" metrics >"$2" || fail "onesidectl metrics: $(cat "$2")"
}

# check_counters BEFORE AFTER [sums]: fails if a counter is less or missing afterwards; sums: those of all cores together.
check_counters() {
	/usr/bin/python3 - "$@" <<-'END' || fail "a counter is reset"
		import collections, re, sys
		def counters(name):
		    values = collections.Counter()
		    for key, value in re.findall(r"^(\w+_(?:total|bucket|sum|count)(?:\{.*\})?) (\S+)$", open(name).read(), re.M):
		        values[re.sub(r'core="\d+",?', "", key) if "sums" in sys.argv else key] += float(value)
		    return values
		before, after = counters(sys.argv[1]), counters(sys.argv[2])
		less = [f"{key}: {value} before, {after.get(key)} after" for key, value in before.items() if after.get(key, -1) < value]
		counted = sum(value > 0 for value in before.values())
		print("\n".join(less) or f"{counted} counters go on", flush=True)
		sys.exit(1 if less or counted < 40 else 0)
	END
}

test_refused() {
	init_planes
	start_programs 300
	CABLE_MTU=4096 try_take_over a
	refused 'port p0: mtu 4096 differs from the 4200 of the data plane that serves'
	# The programs' sockets stay open, though the new process does not admit them.
	metrics a "$WORK/before"
	try_take_over a --limit max_clients=1 --limit max_clients_per_uid=1
	refused 'the state is refused'
	metrics a "$WORK/after"
	check_counters "$WORK/before" "$WORK/after"
	# Verbs with a shared receive queue and datagrams go on, without an asynchronous event.
	start_mixed_verbs "${sockets[@]}"
	await_mixed 2
	metrics a "$WORK/before"
	take_over a
	metrics a "$WORK/after"
	check_counters "$WORK/before" "$WORK/after"
	await_mixed 2
	end_mixed
	await_pings 3
	ip -n "oneside-$$-a" link set lo up
	ip netns exec "oneside-$$-a" /usr/bin/python3 -c 'import urllib.request as r; print(r.urlopen("http://127.0.0.1:9464/metrics").read().decode())' \
		>"$WORK/metrics" || fail "the metrics' address is not taken over"
	expect 'oneside_port_rx' "$WORK/metrics"
}

descriptors() { find "/proc/${PLANE_PID[$1]}/fd" -mindepth 1 | wc -l; }

# With an IPv6 address, for which a port has a socket of multicast groups.
test_failed() {
	local before i
	PLANE_NETWORK=fd00::
	init_planes
	start_rsm "${sockets[1]}" "${sockets[0]}"
	before=$(descriptors a)
	request a peer add 9 fd00::9 || fail "onesidectl peer add: $(cat "$WORK/ctl")"
	for i in 1 2; do
		ONESIDE_TAKEOVER_KILL=take-built try_take_over a
		until_gone "$NEW"
		until [ "$(grep -c 'event=takeover_refused' "$WORK/a.log")" = "$i" ]; do sleep 0.05; done
		serves a || fail "the old data plane does not serve any more"
	done
	for ((i = 0; i < 600; i++)); do # the last ones are closed a moment later
		[ "$(descriptors a)" != "$before" ] || break
		sleep 0.05
	done
	[ "$(descriptors a)" = "$before" ] || fail "$before descriptors before, $(descriptors a) after failed take-overs"
	request a show peers
	expect 'fd00::9' "$WORK/ctl"
	await_rounds 3
	end_rsm
}

mappings() { grep -c . "/proc/${PLANE_PID[$1]}/maps"; }

# as_before NAME DESCRIPTORS MAPPINGS: a data plane has no more than that, but for mappings that the kernel joins or splits;
# the last ones go a moment later.
as_before() {
	local i
	for ((i = 0; i < 600; i++)); do
		[ "$(descriptors "$1")" != "$2" ] || [ "$(mappings "$1")" -gt $(($3 + 4)) ] || return 0
		sleep 0.05
	done
	fail "data plane $1: $2 descriptors, $3 mappings before, $(usage "$1") after"
}

replace_under_rsm() { # NAME N
	local i before
	say "data plane $1: $(usage "$1")"
	take_over "$1"
	await_rounds 3
	before=("$(descriptors "$1")" "$(mappings "$1")")
	for ((i = 1; i < $2; i++)); do
		take_over "$1"
		await_rounds 3
	done
	as_before "$1" "${before[@]}"
	say "data plane $1 after one: ${before[0]} descriptors, ${before[1]} mappings; after $i: $(usage "$1"); $(rounds) rounds"
}

test_rsm() { # N
	local name
	start_rsm "${sockets[@]}"
	replace_under_rsm b "$1"
	replace_under_rsm a "$1"
	end_rsm
	say "one data plane"
	start_rsm "${sockets[0]}" "${sockets[0]}"
	replace_under_rsm a "$1"
	end_rsm
	say_gaps
	! grep -hE 'event=(peer_lost|node_wrong)|event=attachment_ended.*reason=' "$WORK"/*.log || fail "an end that nobody wanted"
	say "new segments and imports"
	"$BUILD/tests/net/net-rsm" "${sockets[@]}" >"$WORK/cases" 2>&1 || fail "net-rsm: $(cat "$WORK/cases")"
	for name in a b; do
		stop_plane "$name"
	done
}

# ---- programs of all kinds at once ----

MIXED=() # names of the programs; the output of NAME is in $WORK/mixed-NAME
declare -A MIXED_PID=()

mixed() { # NAME PROGRAM...
	"${@:2}" >"$WORK/mixed-$1" 2>&1 &
	MIXED_PID[$1]=$!
	MIXED+=("$1")
	APPLICATIONS+=("$!")
}

start_mixed_verbs() { # SOCKET SERVERS-SOCKET
	local name
	MIXED=()
	# A program that opens a port before its link is up gets an asynchronous event.
	for name in a b; do
		until grep -q 'event=link .*the link is up' "$WORK/$name.log"; do sleep 0.05; done
	done
	rm -f "$WORK/until"
	export UNTIL=$WORK/until
	mixed verbs "$RUN" --socket "$1" "$BUILD/tests/net/net-verbs-mixed" "$@" mixed
}

# start_mixed SOCKET SERVERS-SOCKET: rounds of RSM are on one data plane, too, for mappings.
start_mixed() {
	local programs=$BUILD/tests/net
	start_mixed_verbs "$@"
	ONESIDE_SOAK_SECONDS=3600 mixed dat "$programs/net-dat-load" "$@" soak
	mixed rsm "$programs/net-rsm-takeover" "$@"
	[ "$1" = "$2" ] || mixed map "$programs/net-rsm-takeover" "$1" "$1"
	await_mixed 2
}

# await_mixed N: waits for N more rounds of each program.
await_mixed() {
	local name
	local -A want=()
	for name in "${MIXED[@]}"; do
		want[$name]=$(($(grep -c '^round' "$WORK/mixed-$name") + $1))
	done
	for name in "${MIXED[@]}"; do
		until [ "$(grep -c '^round' "$WORK/mixed-$name")" -ge "${want[$name]}" ]; do
			alive "${MIXED_PID[$name]}" || fail "the $name program has ended: $(tail -n 5 "$WORK/mixed-$name")"
			sleep 0.05
		done
	done
}

end_mixed() {
	local name
	touch "$UNTIL"
	for name in "${MIXED[@]}"; do
		wait "${MIXED_PID[$name]}" || fail "the $name program: $(tail -n 5 "$WORK/mixed-$name")"
		say "$name: $(grep -c '^round' "$WORK/mixed-$name") rounds; $(grep -v '^round' "$WORK/mixed-$name" | tr -s ' \n' ' ')"
	done
	! grep -hE 'event=(peer_lost|node_wrong)|event=attachment_ended.*reason=' "$WORK"/*.log || fail "an end that nobody wanted"
}

# Prints a line for each data plane, and each process of the programs: name, descriptors, mappings, MiB.
mixed_usage() { # NAME...
	local name pid
	for name in "$@"; do
		process_usage "data plane $name" "${PLANE_PID[$name]}"
	done
	for name in "${MIXED[@]}"; do
		for pid in $(pgrep -P "${MIXED_PID[$name]}"); do
			process_usage "$name $pid" "$pid"
		done
	done
}

process_usage() { # NAME PID
	printf '%s: %s descriptors, %s mappings, %s MiB\n' "$1" "$(find "/proc/$2/fd" -mindepth 1 | wc -l)" \
		"$(grep -c . "/proc/$2/maps")" "$(awk '/^RssAnon/ { print int($2 / 1024) }' "/proc/$2/status")"
}

# Compares two outputs of mixed_usage. Mappings may be joined or split by the kernel.
no_more_than() { # FILE-BEFORE FILE-AFTER
	awk -F': ' 'NR == FNR { before[$1] = $2; next }
		{ split(before[$1], was, " "); split($2, is, " ") }
		!($1 in before) || is[1] > was[1] || is[3] > was[3] + 8 || is[5] > was[5] + 8 + was[5] / 10 { print $1 ": " before[$1] " before, " $2 " after"; more = 1 }
		END { exit more }' "$@" >"$WORK/more"
}

# replace_under_mixed N NAME...: replaces these data planes, all at once, N times.
replace_under_mixed() {
	local n=$1 i name looks
	local -A new=() log=()
	shift
	for ((i = 1; i <= n; i++)); do
		for name in "$@"; do
			try_take_over "$name"
			new[$name]=$NEW log[$name]=$NEW_LOG
		done
		for name in "$@"; do
			NEW=${new[$name]} NEW_LOG=${log[$name]}
			await_new "$name"
		done
		await_mixed 1
		[ "$i" != 1 ] || {
			sleep 1
			mixed_usage "$@" >"$WORK/usage-first"
		}
	done
	# A program may connect at this moment, and the last things go a moment later.
	for ((looks = 0; looks < 600; looks++)); do
		mixed_usage "$@" >"$WORK/usage-last"
		! no_more_than "$WORK/usage-first" "$WORK/usage-last" || break
		sleep 0.1
	done
	say "after the first take-over of $*:" && cat "$WORK/usage-first"
	say "after $n:" && cat "$WORK/usage-last"
	[ "$looks" -lt 600 ] || fail "more than before: $(cat "$WORK/more")"
}

test_mixed() { # N one|both|local...
	local ends
	for ends in "${@:2}"; do
		say "$ends:"
		case $ends in
		one | both) start_mixed "${sockets[@]}" ;;
		local) start_mixed "${sockets[0]}" "${sockets[0]}" ;;
		esac
		case $ends in
		one | local) replace_under_mixed "$1" a ;;
		both) replace_under_mixed "$1" a b ;;
		esac
		end_mixed
	done
	say_gaps
	stop_plane a
	stop_plane b
}

# ---- another number of polling cores ----

endpoints_on() { # NAME CORE: their number
	ctl "$1" show endpoints --json | /usr/bin/python3 -c "import json, sys
print(sum(end.get('core') == $2 for end in json.load(sys.stdin)['endpoints']))"
}

# change_cores NAME CORES: all goes on, and what is connected can move to the last core.
change_cores() {
	metrics "$1" "$WORK/before"
	PLANE_CORES=$2 take_over "$1"
	expect "with $2 polling core" "$NEW_LOG"
	metrics "$1" "$WORK/after"
	check_counters "$WORK/before" "$WORK/after" sums
	await_pings 3
	await_mixed 1
	[ "$2" != 1 ] || return 0
	/usr/bin/python3 "$(dirname "$0")/mover.py" "$(plane_socket "$1").ctl" "$2"
	until grep -q "event=queue_pair_moved qpn=0x[0-9a-f]* core=$2\$" "$NEW_LOG"; do
		going_on
		sleep 0.05
	done
	await_pings 3
	await_mixed 1
}

test_cores() { # NAME...
	local name before
	start_programs 86400
	start_mixed "${sockets[@]}"
	for name in "$@"; do
		change_cores "$name" 2
		change_cores "$name" 3
		before=$(endpoints_on "$name" 3)
		change_cores "$name" 1
		[ "$(endpoints_on "$name" 1)" -ge "$before" ] || fail "no queue pair came to the only core"
		PLANE_CORES=3 take_over "$name"
		[ "$(endpoints_on "$name" 3)" -gt 0 ] || fail "$before queue pairs were on the third core before; none is there again"
		await_mixed 1
		change_cores "$name" 2
		change_cores "$name" 1
	done
	end_mixed
	end_perf
	say_gaps
	kill "$RPING_CLIENT"
	wait "$RPING_SERVER"
	! grep -iE 'error|mismatch|fail|flush' "$WORK/rping.client" || fail "rping"
	PIDS=()
	for name in "${!PLANE_PID[@]}"; do
		stop_plane "$name"
	done
}

test_gaps() { # N
	local i before
	LOOK_INTERVAL=1 # the processes of a look take as long as much of the take-over
	rm -f "$WORK/until"
	export UNTIL=$WORK/until
	mixed gaps "$RUN" --socket "${sockets[0]}" "$BUILD/tests/net/net-verbs-mixed" "${sockets[@]}" gaps
	until grep -q '^ready' "$WORK/mixed-gaps"; do
		alive "${MIXED_PID[gaps]}" || fail "the program has ended: $(cat "$WORK/mixed-gaps")"
		sleep 0.1
	done
	for ((i = 0; i < $1; i++)); do
		before=$(grep -c '^gap' "$WORK/mixed-gaps")
		take_over a
		sleep 1
		tail -n +$((before + 2)) "$WORK/mixed-gaps" | sed -n 's/^gap //p' | sort -n | tail -n 1 >>"$WORK/longest"
	done
	touch "$UNTIL"
	wait "${MIXED_PID[gaps]}" || fail "$(cat "$WORK/mixed-gaps")"
	say_gaps
	[ -z "${GAPS:-}" ] || paste "$WORK/gaps" "$WORK/longest" >"$GAPS"
	say "longest time between completions in each take-over, us: $(sort -n "$WORK/longest" | tr '\n' ' ')"
	stop_plane a
	stop_plane b
}

test_killed() {
	local step
	init_planes
	stop_plane a
	[ "$(steps | wc -l)" -ge 14 ] || fail "the steps are not found"
	for step in ${1:-$(steps)}; do
		kill_at "$step"
	done
	stop_plane b
}

# Copies the state that process PID has received, while it reads it.
copy_state() { # PID FILE
	/usr/bin/python3 - "$@" <<-'END'
		import os, re, signal, sys
		pid, file = int(sys.argv[1]), sys.argv[2]
		while True:
		    found = re.search(r"^(\S+) .*memfd:oneside-takeover", open(f"/proc/{pid}/maps").read(), re.M)
		    if found:
		        os.kill(pid, signal.SIGSTOP)
		        with open(f"/proc/{pid}/map_files/{found[1]}", "rb") as state, open(file, "wb") as copy:
		            copy.write(state.read())
		        os.kill(pid, signal.SIGCONT)
		        break
	END
}

# perftest PORT OPTIONS...: starts a pair of ib_send_bw.
perftest() {
	local port=$1
	on 0 ib_send_bw -p "$port" "${@:2}" >"$WORK/$port.server" 2>&1 &
	APPLICATIONS+=("$!")
	await_listening "$port" "$!" "$port"
	on 1 ib_send_bw -p "$port" "${@:2}" 127.0.0.1 >"$WORK/$port.client" 2>&1 &
	APPLICATIONS+=("$!")
}

test_golden() { # FILE
	PLANE_CORES=2 PLANE_PLACEMENT=next # attachments have several lanes
	encrypt
	init_planes
	start_programs 60
	start_rsm "${sockets[1]}" "${sockets[0]}"
	perftest 18601 -D 60 -c UD
	perftest 18602 -n 100000000 --use-srq -q 2 -e
	request a peer add 9 192.0.2.9 || fail "onesidectl peer add: $(cat "$WORK/ctl")"
	sleep 5
	try_take_over a
	copy_state "$NEW" "$1" || fail "the new data plane has read its state too fast: $(tail -n 3 "$NEW_LOG")"
	await_new a
	say "$(wc -c <"$1") bytes"
}

# ---- onesidectl upgrade ----

# not_upgraded NAME TEXT WORDS...: onesidectl WORDS fails with TEXT, and the data plane goes on without a child.
not_upgraded() {
	local status=0
	request "$1" "${@:3}" || status=$?
	[ "$status" = 1 ] || fail "onesidectl ${*:3}: status $status: $(cat "$WORK/ctl")"
	expect "$2" "$WORK/ctl"
	[ -z "$(pgrep -P "${PLANE_PID[$1]}")" ] || fail "the data plane has a child after: onesidectl ${*:3}"
	serves "$1" || fail "the data plane does not serve any more"
	going_on
}

# SIGHUP while the new process prepares itself: it has read the configuration before, and reads it again.
test_hangup() {
	local old=${PLANE_PID[a]} asker looks before
	reloads() { grep -c 'event=changed command=reload' "$WORK/a.log"; }
	before=$(reloads)
	request a upgrade &
	asker=$!
	until [ -n "$(pgrep -P "$old")" ]; do sleep 0.01; done
	kill -HUP "$old"
	wait "$asker" || fail "onesidectl upgrade: $(cat "$WORK/ctl")"
	PLANE_PID[a]=$(sed -n 's/^process \([0-9]*\) .*/\1/p' "$WORK/ctl")
	until_gone "$old"
	for ((looks = 1500; looks > 0; looks--)); do
		[ "$(reloads)" -lt $((before + 2)) ] || return 0
		sleep 0.02
	done
	fail "a SIGHUP is lost: $(($(reloads) - before)) reloads"
}

test_upgrade() {
	local prefix i first
	init_planes
	request a peer add 9 192.0.2.9 || fail "onesidectl peer add: $(cat "$WORK/ctl")"
	prefix=$(basename "$WORK")-a
	start_programs 86400
	for ((i = 1; i <= 5; i++)); do
		upgrade a "$prefix.$((2 - i % 2))" upgrade
		await_pings 3
		[ "$i" != 1 ] || first=$(descriptors a)
	done
	for ((i = 0; i < 600; i++)); do # the last ones are closed a moment later
		[ "$(descriptors a)" -gt "$first" ] || break
		sleep 0.05
	done
	[ "$i" != 600 ] || fail "$first descriptors after one upgrade, $(descriptors a) after five"
	: >"$WORK/data"
	request a show peers
	expect '192.0.2.9' "$WORK/ctl"
	not_upgraded a '/bin/false has ended without a reason, with status 1' upgrade /bin/false
	not_upgraded a 'No such file or directory' upgrade "$WORK/missing"
	not_upgraded a "file $WORK/data: Permission denied" upgrade "$WORK/data"
	request a show peers
	expect '192.0.2.9' "$WORK/ctl"
	cp "$DATAPLANE" "$WORK/copy"
	(cd "$WORK" && upgrade a "$prefix.2" upgrade copy && say "${PLANE_PID[a]}" >"$WORK/pid") || exit 1
	PLANE_PID[a]=$(cat "$WORK/pid")
	await_pings 3
	request a reload upgrade || fail "onesidectl reload upgrade: $(cat "$WORK/ctl")"
	expect 'changed: peers' "$WORK/ctl" # no upgrade: the configuration, which lacks the peer, is read
	cp "$DATAPLANE" "$WORK/newer" && mv "$WORK/newer" "$WORK/copy"
	upgrade a "$prefix.1" reload upgrade
	rm "$WORK/copy"
	not_upgraded a "file $WORK/copy: No such file or directory" upgrade
	await_pings 3
	kill "$RPING_CLIENT"
	PIDS=()
	wait "$RPING_SERVER"
	end_perf
	upgrade a "$prefix.2" upgrade "$DATAPLANE"
	test_hangup
	end_upgraded a
	stop_plane b
	# A process that the data plane has started serves only if it takes over: the configuration may name another socket.
	# shellcheck disable=SC2046
	if ONESIDE_REASON_FD=3 "$DATAPLANE" $(plane_cores 1) $(eal_options nobody) --no-pci -- --port name=p0,device=net_memif0,address=192.0.2.9/24 --socket "$WORK/nobody" --take-over \
		3> >(cat >"$WORK/reason") >"$WORK/nobody.log" 2>&1; then
		fail "a second data plane serves: $(cat "$WORK/nobody.log")"
	fi
	expect 'does not listen at the configured ctl socket' "$WORK/nobody.log"
}

# Without --file-prefix, and with the capabilities that taking over needs if programs are attached.
test_user() {
	local -a user=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs)
	local caps=-all,+checkpoint_restore,+dac_override
	local -a able=("${user[@]}" "--inh-caps=$caps" "--ambient-caps=$caps" "--bounding-set=$caps")
	net_init
	need_root
	chown 65534 "$WORK"
	install -d -o 65534 "$WORK/nobody"
	export XDG_RUNTIME_DIR=$WORK/nobody
	: >"$WORK/a.log"
	# shellcheck disable=SC2046,SC2086 # words are wanted
	"${able[@]}" "$DATAPLANE" $(plane_cores 1) $PLANE_MEMORY --no-pci --iova-mode=va --vdev=net_null0,no-rx=1 -- \
		--idle sleep --port name=p0,device=net_null0,address=192.0.2.1/24 --socket "$(plane_socket a)" \
		--ctl-admin-group 61002 >"$WORK/a.log" 2>&1 </dev/null &
	PLANE_PID[a]=$!
	await_plane a
	sockets=("$(plane_socket a)" "$(plane_socket a)") addresses=(192.0.2.1 192.0.2.1)
	start_programs 86400
	AS=(setpriv --reuid 65533 --regid 65533 --groups 61002 --no-new-privs)
	not_upgraded a "only root or the data plane's own user may upgrade it" upgrade
	AS=("${user[@]}" --bounding-set=-all --inh-caps=-all)
	not_upgraded a 'only root may name a file' upgrade "$DATAPLANE"
	upgrade a rte.1 upgrade
	await_pings 3
	upgrade a rte.2 upgrade
	await_pings 3
	PIDS=()
	end_upgraded a
}

case $1 in
traffic)
	init_planes
	test_traffic "${2:-10}" a b
	;;
held)
	CABLE_ABSTRACT=yes
	init_planes memif
	test_held
	;;
af_xdp)
	python3 -c 'import socket; socket.socket(44, socket.SOCK_RAW, 0)' 2>/dev/null || skip "this kernel has no AF_XDP sockets"
	DRIVER=af_xdp CABLE_MTU=1500
	init_planes
	test_traffic "${2:-10}" a b
	;;
ipsec)
	net_init
	encrypt
	init_planes
	test_traffic "${2:-10}" a b
	;;
memif)
	[ "${3:-}" != abstract ] || CABLE_ABSTRACT=yes
	init_planes memif
	test_traffic "${2:-10}" a b
	# DPDK's listener, without its device, would accept the peer and never answer.
	! grep -h 'accept connection request on socket fd -1' "$WORK"/*.log | head -n 1 | grep . || fail "an old listener goes on"
	;;
tap)
	CABLE_MTU=1500 DRIVER=tap
	init_planes
	test_traffic "${2:-10}" a b
	;;
local)
	PLANE_CORES=${3:-1} PLANE_PLACEMENT=${4:-auto}
	init_planes
	sockets[1]=${sockets[0]} addresses[1]=192.0.2.1
	test_traffic "${2:-10}" a
	;;
rsm)
	SHARE_SECRET=yes
	init_planes
	test_rsm "${2:-10}"
	;;
mixed)
	[ -x "$BUILD/tests/net/net-verbs-mixed" ] || skip "libibverbs-dev is missing"
	[ "${CABLE:-veth}" = memif ] || SHARE_SECRET=yes
	init_planes "${CABLE:-veth}"
	[ $# -gt 2 ] || set -- mixed "${2:-100}" one both local
	test_mixed "${@:2}"
	;;
cores)
	[ -x "$BUILD/tests/net/net-verbs-mixed" ] || skip "libibverbs-dev is missing"
	PLANE_PLACEMENT=next # lanes on all cores
	case ${2:-veth} in
	veth)
		SHARE_SECRET=yes
		init_planes
		test_cores a b
		;;
	memif)
		init_planes memif
		test_cores a b
		;;
	ipsec)
		net_init
		encrypt
		init_planes
		test_cores a
		;;
	local)
		PLANE_PLACEMENT=auto # ends are on one core, which copies
		init_planes
		sockets[1]=${sockets[0]} addresses[1]=192.0.2.1
		test_cores a
		;;
	esac
	;;
gaps)
	[ -x "$BUILD/tests/net/net-verbs-mixed" ] || skip "libibverbs-dev is missing"
	within=${CABLE:-veth}
	init_planes "${within/local/veth}"
	[ "$within" != local ] || sockets[1]=${sockets[0]}
	test_gaps "${2:-20}"
	;;
killed) test_killed "${2:-}" ;;
failed) test_failed ;;
upgrade) test_upgrade ;;
user) test_user ;;
golden)
	net_init
	test_golden "${2:?golden FILE}"
	;;
refused) test_refused ;;
*) fail "takeover.sh traffic|memif|ipsec|local|rsm|mixed|gaps [N], cores [CABLE], killed [STEP], failed, upgrade, user, or refused" ;;
esac

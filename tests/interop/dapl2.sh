# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# A case of interop.sh: the unmodified programs of Debian's dapl2-utils on both sides, on oneside's provider on the
# host, and on OFED's (libdaplofa, over verbs and rdma_cm) in the guest.
#
# dtest, dtestx and dtestcm first connect over TCP; the host's programs therefore run in the bridge's namespace, where
# the bridge has a kernel address. The IA has the same name on both sides, since clients open the IA that the server
# names.
MEETING=192.0.2.3
MEETING_PORT=15828
MEETING_HEX=3DD4 # as in /proc/net/tcp
IA=oneside

dapl2_init() {
	ip -n "$SWITCH" addr add "$MEETING/24" dev br0 || fail "the bridge takes no address"
	printf '%s u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "eth0 0" ""\n' $IA >"$GUEST_RUN/dat.conf"
}

# here COMMAND...: runs COMMAND on the host, in the background, as process $HERE_PID, with its output in $HERE_LOG.
# there NAME COMMAND...: runs COMMAND in the guest, in the background, as job NAME.
here() {
	local log=${HERE_LOG:-$WORK/ours.log}
	: >"$log" # discard the output of the previous program
	DAT_OVERRIDE=$WORK/dat2.conf timeout -k 3 "$LIMIT" ip netns exec "$SWITCH" stdbuf -oL "$@" >"$log" 2>&1 &
	HERE_PID=$!
	APPLICATIONS+=("$HERE_PID")
}

there() {
	local name=$1
	shift
	guest_begin "$name" "env DAT_OVERRIDE=/host/dat.conf $*"
}

# said here|there TEXT: succeeds if the host's program, or the guest's job `talk`, has printed TEXT.
said() {
	local log=$WORK/ours.log
	[ "$1" = here ] || log=$GUEST_RUN/jobs/talk.out
	grep -q "$2" "$log" 2>/dev/null
}

# Waits until the server listens at MEETING_PORT, or has ended.
await_meeting() { # serve|connect
	if [ "$1" = serve ]; then
		until ip netns exec "$SWITCH" ss -ltnH "sport = :$MEETING_PORT" | grep -q .; do
			kill -0 "$HERE_PID" 2>/dev/null || return
			sleep 0.1
		done
	else
		guest sh -c "'until grep -q :$MEETING_HEX.*:0000.0A /proc/net/tcp /proc/net/tcp6 || \
			[ -e /host/jobs/talk.rc ]; do usleep 50000; done'"
	fi
}

# Waits until dapltest's server listens, or has ended. The host's prints a line; the guest's output goes to a file, which
# is written too late.
await_dapltest() { # serve|connect
	if [ "$1" = serve ]; then
		until said here 'Service Point Ready'; do
			kill -0 "$HERE_PID" 2>/dev/null || return
			sleep 0.1
		done
	else
		guest sh -c "'until rdma resource show cm_id | grep -q LISTEN || [ -e /host/jobs/talk.rc ]; do \
			usleep 50000; done'"
	fi
}

show_both() {
	{
		printf -- '---- ours:\n'
		tail -n 30 "$WORK/ours.log"
		printf -- '---- the guest:\n'
		guest_output talk | tail -n 30
	} >&2
	fail "$*"
}

# meet_once serve|connect PROGRAM OPTIONS...: status 0 if both sides ended, 1 if the server rejected the client: dtest's
# server sends its address to the client before it listens there.
meet_once() {
	local role=$1 program=$2 early='CONNECTION_EVENT_NON_PEER_REJECTED\|0x4003' # dtestx prints the number of the event
	shift 2
	if [ "$role" = serve ]; then
		here "$program" -P $IA -s "$@"
		await_meeting serve
		there talk "$program -P $IA -h $MEETING $*"
		guest_end talk
		! said there $early || kill "$HERE_PID"
		wait "$HERE_PID"
		! said there $early
	else
		there talk "$program -P $IA -s $*"
		await_meeting connect
		here "$program" -P $IA -h "$THEIRS" "$@"
		wait "$HERE_PID"
		! said here $early || guest killall "$program"
		guest_end talk
		! said here $early
	fi
}

# meet TEXT PROGRAM OPTIONS...: runs PROGRAM in each of ROLES; both sides must print TEXT.
meet() {
	local text=$1 role tries
	shift
	for role in $ROLES; do
		tries=5
		until meet_once "$role" "$@" || [ "$tries" = 0 ]; do tries=$((tries - 1)); done
		{ said here "$text" && said there "$text"; } || show_both "$*, oneside ${role}s"
		say "ok   $*, oneside ${role}s"
	done
}

# transfer ARGUMENTS...: runs one client of the running dapltest server, on the other side.
transfer() {
	local client=$WORK/ours.log
	if [ "$DAPLTEST" = serve ]; then
		there client "dapltest -T $1 -D $IA -s $OURS ${*:2}"
		guest_end client
		client=$GUEST_RUN/jobs/client.out
	else
		here dapltest -T "$1" -D $IA -s "$THEIRS" "${@:2}"
		wait "$HERE_PID"
	fi
	grep -Eiq 'fail|error|mismatch|unexpected' "$client" && DAPLTEST=
	grep -q 'End of Work -- Client Exiting' "$client" || DAPLTEST=
	[ -n "$DAPLTEST" ] || {
		tail -n 30 "$client" >&2
		show_both "dapltest $*"
	}
	say "ok   dapltest -T $*, oneside ${DAPLTEST}s"
}

case_dapl2() {
	if [ -z "$(dapl2_provider)" ] || [ "$(dapl2_programs | wc -w)" -lt 4 ]; then
		leave_out "there is no uDAPL 2.0 of OFED's; install dapl2-utils: case dapl2"
		return
	fi
	start_interop_plane 4 1500
	dapl2_init
	# Without -b and -B dtest allocates 900 MB, more than the guest has.
	meet 'DAPL Test Complete. PASSED' dtest -b 65536 -B 100
	meet 'DAPL Test Complete. PASSED' dtest -w -b 65536 -B 100 -S 10
	meet 'DAPL Test Complete. PASSED' dtest -c -b 1000 -B 50
	meet 'IB extension test - immed/atomic test PASSED' dtestx
	meet 'ALL 50 CONNECTED' dtestcm -c 50 -b 10
	for DAPLTEST in $ROLES; do
		if [ "$DAPLTEST" = serve ]; then here dapltest -T S -D $IA; else there talk "dapltest -T S -D $IA"; fi
		SERVER_PID=$HERE_PID
		await_dapltest "$DAPLTEST"
		transfer T -i 20 -V client SR 4096 1 server RW 40960 3 server SR 4096 1
		transfer T -i 20 -t 2 -w 2 -V client RR 4096 1 server RR 2048 4 client SR 1024 4 server SR 4096 2
		transfer P -i 100 -p 16 RW 4096 2
		transfer P -i 50 -p 1 -m b RR 4096 1
		transfer Q
		if [ "$DAPLTEST" = serve ]; then wait "$SERVER_PID"; else guest_end talk; fi || show_both "the server of dapltest"
	done
	stop_plane a
}

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run each command of README.md, of the man pages' examples and of --help, and check its effect. The test runs in
# namespaces with an empty /run and an interface veth0. Commands that cannot run here are listed below with the reason; an
# unknown command is a failure.
. "$(dirname "$0")/lib.sh"
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
[ "$(id -u)" = 0 ] || skip "network and mount namespaces need root"
if [ -z "${COMMANDS_INSIDE:-}" ]; then
	unshare -m -n true 2>/dev/null || skip "namespaces cannot be made here"
	COMMANDS_INSIDE=1 exec unshare -m -n bash "$0"
fi
net_init
[ "$(allowed_cpus | head -n 2 | tr '\n' ' ')" = "0 1 " ] || skip "-l 0,1 needs processors 0 and 1"
mount -t tmpfs tmpfs /run && mkdir /run/oneside || fail "no private /run" # RuntimeDirectory= of the service
ip link set lo up
ip link add veth0 type veth peer name veth1 && ip link set veth0 up && ip link set veth1 up || fail "no veth pair"
ip addr add 192.0.2.100/24 dev veth1
ethtool -K veth1 tx off gso off tso off >/dev/null || fail "README: ethtool" # as README.md says
cd "$WORK" || exit 1

# as_here COMMAND: prints the arguments with this test's files, with an idle method that suits few processors, and with a
# keep-alive time that suits busy ones.
as_here() {
	local command=${1//\/tmp\//$WORK/}
	command=${command//\/etc\/oneside\/oneside.conf/$SOURCE/config/oneside.conf}
	command=${command/ --idle sleep/}
	case $command in *" --check") ;; *) command=${command/ -- / -- --idle $(plane_idle) --keepalive-ms 60000 } ;; esac
	say "$command" >&2
	printf '%s' "${command#* }"
}

# plane NAME COMMAND: starts a data plane by COMMAND, and waits until it serves
plane() {
	local -a words
	[ -z "${PLANE_PID[$1]:-}" ] || stop_plane "$1"
	read -ra words <<<"$(as_here "$2")"
	: >"$(plane_log "$1")"
	"$DATAPLANE" "${words[@]}" >"$(plane_log "$1")" 2>&1 </dev/null &
	PLANE_PID[$1]=$!
	await_plane "$1"
}

# examines COMMAND: runs --check, which may report only what this machine lacks in any case
examines() {
	local -a words
	read -ra words <<<"$(as_here "$1")"
	"$DATAPLANE" "${words[@]}" >"$WORK/out" 2>"$WORK/err" </dev/null
	[ -s "$WORK/out" ] || {
		cat "$WORK/err" >&2
		fail "$1 says nothing"
	}
	grep '^missing: ' "$WORK/out" | grep -v '^missing: hugepages: \|^missing: device 0000:01:00.0: \|^missing: port p0: DPDK has only' && fail "$1"
	return 0
}

answers() { # SIZE
	ping -q -c 3 -w 20 -M 'do' -s "$1" 192.0.2.1 >"$WORK/ping" || {
		cat "$WORK/ping" >&2
		fail "192.0.2.1 does not answer pings of $1"
	}
}

# across COMMAND PLANE COMMAND PLANE: runs two applications, the first of which waits for the second
across() {
	local first=$1 first_on=$2 second=$3 second_on=$4 pid
	local -a words
	read -ra words <<<"$first"
	say "$first; $second"
	: >"$WORK/first"
	ONESIDE_SOCKET=$WORK/$first_on.sock "$BUILD/perf/${words[0]}" "${words[@]:1}" >"$WORK/first" 2>&1 &
	pid=$!
	APPLICATIONS+=("$pid")
	case $first in oneside-perf*)
		until grep -qE 'serving on|published on' "$WORK/first"; do
			kill -0 "$pid" 2>/dev/null || fail "$first: $(cat "$WORK/first")"
			sleep 0.1
		done
		;;
	esac
	read -ra words <<<"$second"
	ONESIDE_SOCKET=$WORK/$second_on.sock "$BUILD/perf/${words[0]}" "${words[@]:1}" >"$WORK/second" 2>&1 || {
		cat "$WORK/first" "$WORK/second" >&2
		fail "$second"
	}
	case $first in oneside-perf*) kill "$pid" ;; esac
	wait "$pid"
}

# verbs SERVER CLIENT: runs README.md's pair, if perftest and the libraries for verbs are present
verbs() {
	local -a first second
	[ -e "$BUILD/api/rdmacm/librdmacm.so.1" ] && command -v ib_write_bw >/dev/null || {
		leave_out "$2: libibverbs-dev, librdmacm-dev or perftest is not installed"
		return
	}
	read -ra first <<<"${1//\/tmp\//$WORK/}"
	read -ra second <<<"${2//\/tmp\//$WORK/}"
	say "$1; $2"
	# Wait until the server listens: a client that starts earlier would fail.
	"$BUILD/${first[0]#build/}" "${first[@]:1}" >"$WORK/first" 2>&1 &
	APPLICATIONS+=("$!")
	until "$BUILD/control/onesidectl" --socket "$WORK/a.sock.ctl" show listeners 2>/dev/null | grep -qw ib_write_bw; do
		kill -0 "${APPLICATIONS[-1]}" 2>/dev/null || fail "$1: $(cat "$WORK/first")"
		sleep 0.1
	done
	"$BUILD/${second[0]#build/}" "${second[@]:1}" >"$WORK/second" 2>&1 || fail "$2: $(cat "$WORK/first" "$WORK/second")"
	grep -q '^ 65536 ' "$WORK/second" || fail "$2: no figures: $(cat "$WORK/second")"
	wait "${APPLICATIONS[-1]}" || fail "$1: $(cat "$WORK/first")"
}

mapfile -t commands < <("$DATAPLANE" --help >"$WORK/help" && cd "$SOURCE" &&
	python3 tests/net/commands.py README.md doc/man/oneside-{dataplane.8,copy.1,rsmcopy.1,perf.1} "$WORK/help" |
	awk '!seen[$0]++')
[ "${#commands[@]}" -gt 15 ] || fail "only ${#commands[@]} commands are found"
declare -a pair=() verbs_pair=()
help=
for command in "${commands[@]}"; do
	case $command in
	./quickstart*) say "not run here: $command: it installs packages" ;;
	meson*setup* | ninja* | "meson test"*) say "not run here: $command: this test belongs to such a build" ;;
	hugeadm*) say "not run here: $command: it reserves a gigabyte of memory" ;;
	dpdk-devbind*) say "not run here: $command: it takes a device from the kernel" ;;
	"oneside-dataplane [EAL options] -- [options]") ;;
	*" --check") examines "$command" ;;
	*" -a 0000:01:00.0 "*)
		if [ -e /sys/bus/pci/devices/0000:01:00.0 ]; then
			leave_out "$command: there is such a device"
		else
			examines "$command --check"
		fi
		;;
	*net_af_packet0*)
		plane af_packet "$command"
		answers 56
		answers 1472
		stop_plane af_packet
		;;
	*role=server*" --node 1 "*) plane a "$command" ;;
	*role=client*) plane b "$command" ;;
	*role=server*) help=$command ;; # runs later: it uses the socket of plane a
	*oneside-run*) verbs_pair[${#verbs_pair[@]}]=$command && [ ${#verbs_pair[@]} -lt 2 ] || verbs "${verbs_pair[@]}" ;;
	oneside-copy* | oneside-rsmcopy* | oneside-perf*) pair[${#pair[@]}]=$command ;;
	*) fail "$command: this test does not know what to do with it" ;;
	esac
done

if [ -x "$BUILD/perf/oneside-copy" ]; then
	head -c 3000001 /dev/urandom >image.iso
	for ((i = 0; i < ${#pair[@]}; i += 2)); do
		first=${pair[i]/ 734003200/ 3000001} second=${pair[i + 1]}
		case $first in
		oneside-*copy*)
			rm -f copy.iso
			across "$first" b "$second" a
			cmp image.iso copy.iso || fail "$second: the copy differs"
			;;
		*)
			across "$first" a "${second/oneside-perf/oneside-perf -n 20}" b
			grep -q '^ [0-9]' "$WORK/second" || fail "$second: no figures"
			;;
		esac
	done
else
	leave_out "there is no oneside-copy (-Dperf=false): applications"
fi
stop_plane b
stop_plane a
[ -n "$help" ] || fail "--help has no example"
plane a "$help"
stop_plane a

# Check the examples of configuration files.
(umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >peer2.secret)
sed -n '/^.SH EXAMPLES/,/^.SH SEE/p' "$SOURCE/doc/man/oneside.conf.5" |
	sed "1,/^\.nf/d; /^\.fi/,\$d; s/\\\\&//; s/\\\\-/-/g; s|/etc/oneside/|$PWD/|" >oneside.conf
grep -q '^\[port p0\]' oneside.conf || fail "no example in oneside.conf(5)"
examines "oneside-dataplane -l 0,1 -- --config oneside.conf --check"
sed -n '/^.SH EXAMPLES/,/^.SH SEE/p' "$SOURCE/doc/man/dat.conf.5" |
	sed '1,/^\.nf/d; /^\.fi/,$d; s/\\&//; s/\\-/-/g' >dat.conf
if [ -x "$BUILD/perf/oneside-copy" ]; then
	DAT_OVERRIDE=$WORK/dat.conf "$BUILD/perf/oneside-copy" -d lab send image.iso 192.0.2.2 >"$WORK/out" 2>&1
	expect 'lab: no data plane serves at /run/lab.sock' "$WORK/out"
	! grep 'malformed' "$WORK/out" || fail "the example in dat.conf(5)"
fi

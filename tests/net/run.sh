#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# An ordinary user runs the distribution's programs by `oneside-run PROGRAM`, and needs nothing else: the environment is
# empty, and the network namespace has only a loopback interface.
#
#   run.sh local          both sides on one data plane
#   run.sh memif          on two data planes joined by memif
#   run.sh memif qperf    qperf alone, with its server's address on the loopback interface

if [ "$(id -u)" = 0 ]; then
	# shellcheck disable=SC2016 # the inner shell's
	exec unshare -n bash -c 'ip link set lo up; [ "${3:-}" != qperf ] || ip addr add 192.0.2.1/32 dev lo
		exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
		env -i PATH="$PATH" BUILD="$BUILD" NO_SKIP="${NO_SKIP:-}" PLANE_MOVES="${PLANE_MOVES:-}" bash "$@"' bash "$0" "$@"
fi
[ -x "${BUILD:?}/api/verbs/oneside-run" ] || {
	echo "SKIPPED: user $(id -un) cannot read the build in $BUILD"
	exit 77
}
. "$(dirname "$0")/verbs_lib.sh"
verbs_init "$1"
SERVER=${addresses[0]}

on() { # 0|1 PROGRAM ARGUMENTS...: replaces the function of verbs_lib.sh; OPTIONS: options of oneside-run
	local -a run=(timeout 6000 env -i PATH="$PATH" XDG_RUNTIME_DIR="$WORK" "$RUN" --socket "${sockets[$1]}" "${OPTIONS[@]}" "${@:2}")
	run_or_become "${run[@]}"
}

has() { # PROGRAM PACKAGE: succeeds if the program is installed, else reports that it is left out
	command -v "$1" >/dev/null || {
		leave_out "$1 is missing: apt-get install $2"
		return 1
	}
}

# listened NAME PORT SERVER... -- CLIENT...: runs both; the client connects to the server's TCP port.
listened() {
	local name=$1 port=$2 server
	local -a serve=()
	shift 2
	while [ "$1" != -- ]; do
		serve+=("$1")
		shift
	done
	on 0 "${serve[@]}" >"$WORK/$name.server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	await_listening "$port" "$server" "$name"
	on 1 "${@:2}" >"$WORK/$name.client" 2>&1 || {
		cat "$WORK/$name.server" "$WORK/$name.client" >&2
		fail "$name: the client"
	}
	wait "$server" || fail "$name: the server: $(cat "$WORK/$name.server")"
	say "$name"
}

# qperf's client uses one address for TCP and for rdma_cm.
run_qperf() { # ADDRESS
	on 0 qperf -lp 19765 >"$WORK/qperf.server" 2>&1 &
	APPLICATIONS+=("$!")
	await_listening 19765 "$!" qperf
	# The server sends its port to the client before it listens there: try again.
	until on 1 qperf -lp 19765 -cm 1 -t 1 "$1" rc_lat >"$WORK/qperf" 2>&1; do
		grep -q 'RDMA CM: Event rejected' "$WORK/qperf" || fail "qperf: $(cat "$WORK/qperf")"
	done
	expect 'latency  =' "$WORK/qperf"
	end_process "${APPLICATIONS[-1]}" 10
	say qperf
}
if [ "${2:-}" = qperf ]; then
	has qperf qperf && run_qperf "$SERVER"
	exit 0
fi

# ---- oneside-run itself ----

"$RUN" --socket "$WORK/nobody" ibv_devices >"$WORK/out" 2>&1 && fail "a program runs without a data plane"
[ $? = 1 ] || fail "its status is not 1"
expect "no data plane serves at $WORK/nobody" "$WORK/out"
[ "$(wc -l <"$WORK/out")" = 1 ] || fail "more than a sentence: $(cat "$WORK/out")"

for wrong in --only-verb --socket; do
	"$RUN" "$wrong" >"$WORK/out" 2>&1
	[ $? = 2 ] || fail "oneside-run $wrong: its status is not 2"
	expect "oneside-run: $wrong: " "$WORK/out"
	[ "$(wc -l <"$WORK/out")" = 1 ] || fail "oneside-run $wrong: more than a sentence: $(cat "$WORK/out")"
done
"$RUN" "--socket=$WORK/nobody" --show >"$WORK/out" 2>&1
expect "no data plane serves at $WORK/nobody" "$WORK/out"
"$RUN" "--socket=${sockets[0]}" --show -- >"$WORK/out" || fail "oneside-run --show: $(cat "$WORK/out")"
expect "ONESIDE_SOCKET=${sockets[0]}" "$WORK/out"

if has ibstat infiniband-diags; then
	on 0 ibstat p0 >"$WORK/ibstat" || fail "ibstat"
	expect 'State: Active' "$WORK/ibstat"
fi
# --namespace serves programs that ignore a preloaded library.
OPTIONS=(--namespace)
if on 0 true >"$WORK/out" 2>&1; then
	on 0 env -u LD_PRELOAD cat /sys/class/infiniband/p0/ports/1/state >"$WORK/state" || fail "--namespace"
	expect '4: ACTIVE' "$WORK/state"
	on 0 env -u LD_PRELOAD test -c /dev/infiniband/oneside0 || fail "--namespace: no device file"
else
	expect 'namespaces may not be made here' "$WORK/out"
	leave_out "$(cat "$WORK/out")"
fi
OPTIONS=()

# ---- verbs and rdma_cm ----

if has ibv_devinfo ibverbs-utils; then
	on 0 ibv_devices >"$WORK/devices" || fail "ibv_devices"
	expect p0 "$WORK/devices"
	on 0 ibv_devinfo -v >"$WORK/devinfo" || fail "ibv_devinfo"
	expect PORT_ACTIVE "$WORK/devinfo"
	pair ibv_rc_pingpong 18515 ibv_rc_pingpong -g 0 -c -n 100
	pair ibv_srq_pingpong 18515 ibv_srq_pingpong -g 0 -c -n 100
	pair ibv_ud_pingpong 18515 ibv_ud_pingpong -g 0 -c -n 100
	on 0 ibv_asyncwatch >"$WORK/watch" 2>&1 &
	APPLICATIONS+=("$!")
	until grep -q 'async event FD' "$WORK/watch"; do
		kill -0 "${APPLICATIONS[-1]}" 2>/dev/null || fail "ibv_asyncwatch: $(cat "$WORK/watch")"
		sleep 0.05
	done
	end_process "${APPLICATIONS[-1]}" 10
	say ibv_asyncwatch
fi
if has ib_write_bw perftest; then
	for program in ib_{write,read,send,atomic}_{bw,lat}; do
		pair "$program" 18516 "$program" -F -n 100
	done
	cm_pair ib_write_bw-R ib_write_bw -R -F -n 100 -p 18518 -- ib_write_bw -R -F -n 100 -p 18518 "$SERVER"
	pair ib_send_lat-events 18516 ib_send_lat -F -e -n 100
	# At most as many datagrams as there are receives: a datagram that finds no receive is lost.
	pair ib_send_bw-UD 18516 ib_send_bw -F -c UD -x 0 -n 100 -r 512
fi
if has rping rdmacm-utils; then
	cm_pair rping rping -s -C 5 -a "$SERVER" -- rping -c -v -V -C 5 -a "$SERVER"
	expect 'ping data: rdma-ping-4:' "$WORK/rping.client"
	cm_pair ucmatose ucmatose -b "$SERVER" -c 3 -C 3 -- ucmatose -s "$SERVER" -c 3 -C 3
	cm_pair rdma_client rdma_server -s "$SERVER" -- rdma_client -s "$SERVER"
	cm_pair rdma_xclient rdma_xserver -p 7470 -c r -- rdma_xclient -s "$SERVER" -p 7470 -c r
	cm_pair udaddy udaddy -b "$SERVER" -- udaddy -s "$SERVER"
	SERVER_STAYS=yes cm_pair cmtime cmtime -b "$SERVER" -c 20 -- cmtime -s "$SERVER" -c 20
fi
[ "$1" = memif ] || ! has qperf qperf || run_qperf 127.0.0.1
if has fio fio; then
	job=(fio --name=job --ioengine=rdma --verify_state_save=0 "--hostname=$SERVER" --port=7999 --verb=write --bs=64k --size=4m)
	cm_pair fio "${job[@]}" --rw=read --iodepth=64 -- "${job[@]}" --rw=write --iodepth=8
fi

# ---- rdma-core's own tests: some modules, which need no interface behind the device ----

TESTS=/usr/share/doc/rdma-core/tests
if /usr/bin/python3 -c 'import pyverbs.device' 2>/dev/null && [ -e "$TESTS/run_tests.py" ]; then
	cp -r "$TESTS" "$WORK/tests" && gunzip -f "$WORK"/tests/*.gz || fail "no copy of $TESTS"
	(cd "$WORK/tests" && on 0 /usr/bin/python3 run_tests.py -v --dev p0 --gid 0 tests.test_mr tests.test_pd tests.test_addr) >"$WORK/pyverbs" 2>&1 ||
		fail "rdma-core's tests: $(tail -n 40 "$WORK/pyverbs")"
	grep -q '\.\.\. ok$' "$WORK/pyverbs" || fail "rdma-core's tests: none ran: $(tail -n 5 "$WORK/pyverbs")"
	say "rdma-core's own tests: $(grep -c '\.\.\. ok$' "$WORK/pyverbs") passed"
else
	leave_out "pyverbs or its tests are missing: apt-get install python3-pyverbs"
fi

# ---- a target and an initiator of iSER ----

# tgtd keeps its control socket in /var/run, which is root's, unless TGT_IPC_SOCKET names another.
if has tgtd tgt && has iscsi-inq libiscsi-bin; then
	target=iqn.2001-04.com.example:disk initiator=iqn.2001-04.com.example:initiator
	administer() { env -i PATH="$PATH" TGT_IPC_SOCKET="$WORK/tgt" tgtadm --lld iser "$@" >"$WORK/tgtadm" 2>&1; }
	truncate -s 16M "$WORK/disk"
	on 0 env TGT_IPC_SOCKET="$WORK/tgt" tgtd -f --iscsi portal=127.0.0.1:3260 --iser port=3261 >"$WORK/tgtd" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	until administer --op new --mode target --tid 1 --targetname $target; do
		kill -0 "$server" 2>/dev/null || fail "tgtd: $(cat "$WORK/tgtd")"
		sleep 0.05
	done
	administer --op new --mode logicalunit --tid 1 --lun 1 -b "$WORK/disk" && administer --op bind --mode target --tid 1 -I ALL &&
		administer --op bind --mode target --tid 1 -Q $initiator || fail "tgtadm: $(cat "$WORK/tgtadm")"
	on 1 iscsi-inq -i $initiator "iser://$SERVER:3261/$target/1" >"$WORK/inq" 2>&1 || fail "iscsi-inq: $(cat "$WORK/inq" "$WORK/tgtd")"
	expect 'Vendor:IET' "$WORK/inq"
	on 1 iscsi-test-cu -d -t SCSI.Write16 -i $initiator "iser://$SERVER:3261/$target/1" >"$WORK/write" 2>&1 || fail "SCSI.Write16: $(cat "$WORK/write")"
	[ "$(tr -d '\0' <"$WORK/disk" | wc -c)" -gt 0 ] || fail "iSER wrote nothing"
	# tgtd ignores SIGTERM.
	end_process "$server" 0
	say 'iSER'
fi

# ---- UCX ----

if has ucx_perftest ucx-utils; then
	on 0 ucx_info -d >"$WORK/ucx_info" 2>&1 || fail "ucx_info"
	expect 'Transport: rc_verbs' "$WORK/ucx_info"
	expect 'Device: p0:1' "$WORK/ucx_info"
	pair ucx_rc 13337 ucx_perftest -x rc_verbs -d p0:1 -t am_lat -n 200
	pair ucx_ud 13337 ucx_perftest -x ud_verbs -d p0:1 -t am_bw -D bcopy -s 4000 -n 300
	pair ucx_tag 13337 ucx_perftest -t tag_bw -s 65536 -n 100
	OPTIONS=(--only-verbs)
	pair ucx_tag-verbs 13337 ucx_perftest -t tag_bw -s 65536 -n 100
	OPTIONS=()
	expect 'Final:' "$WORK/ucx_tag-verbs.client"
fi

# ---- libfabric ----

if has fi_pingpong libfabric-bin; then
	on 0 fi_info -p verbs >"$WORK/fi_info" || fail "fi_info finds no verbs"
	expect 'domain: p0' "$WORK/fi_info"
	listened fi_pingpong-msg 47592 fi_pingpong -p verbs -e msg -c -I 20 -- fi_pingpong -p verbs -e msg -c -I 20 127.0.0.1
	listened fi_pingpong-rdm 47592 fi_pingpong -p 'verbs;ofi_rxm' -e rdm -c -I 20 -- \
		fi_pingpong -p 'verbs;ofi_rxm' -e rdm -c -I 20 127.0.0.1
fi

# ---- MPI: ranks alternate between the two data planes ----

write_rank

# mpirun NAME openmpi|mpich SAYS OPTIONS... -- PROGRAM...
mpirun() {
	local name=$1 says=$3
	local -a start=("mpirun.$2")
	shift 3
	while [ "$1" != -- ]; do
		start+=("$1")
		shift
	done
	timeout -k 3 400 env -i PATH="$PATH" XDG_RUNTIME_DIR="$WORK" "${start[@]}" "$WORK/rank" "${@:2}" >"$WORK/$name.out" 2>&1 || {
		cat "$WORK/$name.out" >&2
		fail "$name"
	}
	expect "$says" "$WORK/$name.out"
	say "$name"
}

mpi() { # openmpi|mpich OPTIONS...
	"mpicc.$1" -O1 -Wall -o "$WORK/mpi-$1" "$(dirname "$0")/verbs_mpi.c" || fail "mpicc.$1"
	mpirun "$1" "$1" 'all 3 ranks agree' -n 3 "${@:2}" -- "$WORK/mpi-$1"
}
has mpicc.openmpi 'openmpi-bin libopenmpi-dev' && mpi openmpi --oversubscribe
has mpicc.mpich 'mpich libmpich-dev' && mpi mpich
has NPopenmpi netpipe-openmpi && mpirun NPopenmpi openmpi 'Integrity check passed' -n 2 --oversubscribe -- NPopenmpi -i -n 20 -u 20000 -o "$WORK/np.out"
has NPmpich2 netpipe-mpich2 && mpirun NPmpich2 mpich 'Integrity check passed' -n 2 -- NPmpich2 -i -n 20 -u 20000 -o "$WORK/np.out"

# ---- gloo, which is woken for each message ----

gloo() { # NAME END-OF-RANK-0 END-OF-RANK-1 verbs|tcp
	local first
	mkdir "$WORK/$1"
	on "$2" "$WORK/gloo" 0 2 "$WORK/$1" "$4" >"$WORK/$1.0" 2>&1 &
	first=$!
	APPLICATIONS+=("$first")
	on "$3" "$WORK/gloo" 1 2 "$WORK/$1" "$4" >"$WORK/$1.1" 2>&1 && wait "$first" || fail "$1: $(cat "$WORK/$1".[01])"
	say "$1: $(cat "$WORK/$1.0")"
}
if [ -e /usr/include/gloo/context.h ] && has g++ g++; then
	g++ -O1 -Wall -o "$WORK/gloo" "$(dirname "$0")/verbs_gloo.cc" -lgloo || fail "verbs_gloo.cc"
	gloo gloo-verbs 0 1 verbs
	gloo gloo-tcp 0 1 tcp
else
	leave_out "gloo is missing: apt-get install libgloo-dev"
fi

# ---- migration of a small machine that stands still: tests/interop/migrate.sh moves a running one ----

if has qemu-system-x86_64 qemu-system-x86; then
	machine=(qemu-system-x86_64 -nodefaults -no-user-config -display none -accel tcg -m 8 -S -monitor stdio)
	mkfifo "$WORK/source.in" "$WORK/target.in"
	[ "$1" = local ] || SERVED=b
	until_served no qemu
	on 1 "${machine[@]}" -incoming "rdma:${addresses[1]}:4444" <"$WORK/target.in" >"$WORK/qemu.server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	exec 8>"$WORK/target.in"
	until_served yes qemu
	on 0 "${machine[@]}" <"$WORK/source.in" >"$WORK/qemu.client" 2>&1 &
	APPLICATIONS+=("$!")
	exec 9>"$WORK/source.in"
	printf '%s\n' "migrate rdma:${addresses[1]}:4444" 'info migrate' quit >&9
	wait "${APPLICATIONS[-1]}" || fail "qemu: $(cat "$WORK/qemu.client" "$WORK/qemu.server")"
	expect 'Migration status: completed' "$WORK/qemu.client"
	printf '%s\n' 'info status' quit >&8
	wait "$server" || fail "qemu: $(cat "$WORK/qemu.server")"
	expect 'VM status: paused' "$WORK/qemu.server"
	exec 8>&- 9>&-
	SERVED=a
	say 'QEMU: migration'
fi

exit 0

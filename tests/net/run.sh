#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# An ordinary user runs the distribution's programs by `oneside-run PROGRAM`, and needs nothing else: the environment is
# empty, and the network namespace has only a loopback interface.
#
#   run.sh local    both sides on one data plane
#   run.sh memif    on two data planes joined by memif

if [ "$(id -u)" = 0 ]; then
	# shellcheck disable=SC2016 # the inner shell's
	exec unshare -n bash -c 'ip link set lo up; exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
		env -i PATH="$PATH" BUILD="$BUILD" NO_SKIP="${NO_SKIP:-}" bash "$@"' bash "$0" "$@"
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
	[ "$BASHPID" = $$ ] || exec "${run[@]}"
	"${run[@]}"
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
if has ibv_devinfo ibverbs-utils; then
	on 0 ibv_devinfo >"$WORK/devinfo" || fail "ibv_devinfo"
	expect PORT_ACTIVE "$WORK/devinfo"
	pair ibv_rc_pingpong 18515 ibv_rc_pingpong -g 0 -c -n 100
fi

# ---- verbs and rdma_cm ----

if has ib_write_bw perftest; then
	pair ib_write_bw 18516 ib_write_bw -F -n 500
	pair ib_send_lat 18516 ib_send_lat -F -n 100
fi
if has rping rdmacm-utils; then
	cm_pair rping rping -s -C 5 -a "$SERVER" -- rping -c -v -V -C 5 -a "$SERVER"
	expect 'ping data: rdma-ping-4:' "$WORK/rping.client"
	cm_pair udaddy udaddy -b "$SERVER" -- udaddy -s "$SERVER"
fi
if [ "$1" = local ] && has qperf qperf; then
	on 0 qperf -lp 19765 >"$WORK/qperf.server" 2>&1 &
	APPLICATIONS+=("$!")
	await_listening 19765 "$!" qperf
	on 1 qperf -lp 19765 -cm 1 -t 1 127.0.0.1 rc_lat >"$WORK/qperf" 2>&1 || fail "qperf: $(cat "$WORK/qperf")"
	expect 'latency  =' "$WORK/qperf"
	end_process "${APPLICATIONS[-1]}" 10
	say qperf
fi
if has fio fio; then
	job=(fio --name=job --ioengine=rdma --verify_state_save=0 "--hostname=$SERVER" --port=7999 --verb=write --bs=64k --size=4m)
	cm_pair fio "${job[@]}" --rw=read --iodepth=64 -- "${job[@]}" --rw=write --iodepth=8
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

exit 0

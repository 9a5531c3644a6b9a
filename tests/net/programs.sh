#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run programs that Debian lacks over oneside and over TCP in turn, and print a table. A user has built or installed them
# anywhere below the folder PROGRAMS. They run as an ordinary user, with an empty environment and a loopback interface only.
#
#   PROGRAMS=DIR programs.sh local|memif [PATTERN]   both ends on one data plane, or on two; PATTERN selects programs
#   programs.sh check                                tests this script with a folder of its own
#
# ROUNDS (3): runs over each. Medians are printed, and median and range of the rounds' ratios.
# LIMIT (120): seconds after which a run has failed; programs from elsewhere may hang. The status is 1 if a run over oneside
# fails, and 77 if no program is found.
# SPDK's RDMA transport needs hugepages: sysctl vm.nr_hugepages=450.

if [ "$(id -u)" = 0 ]; then
	# shellcheck disable=SC2016 # the inner shell's
	# UCX 1.20 reaches no loopback address by TCP without a default route.
	exec unshare -n bash -c 'ip link set lo up; ip route add default dev lo
		exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all env -i \
		PATH="$PATH" BUILD="$BUILD" PROGRAMS="${PROGRAMS:-}" ROUNDS="${ROUNDS:-3}" LIMIT="${LIMIT:-120}" \
		NO_SKIP="${NO_SKIP:-}" bash "$@"' bash "$0" "$@"
fi
[ -x "${BUILD:?}/api/verbs/oneside-run" ] || {
	echo "SKIPPED: user $(id -un) cannot read the build in $BUILD"
	exit 77
}
. "$(dirname "$0")/verbs_lib.sh"

# ---- the test of this script ----

check_itself() {
	local folder=$WORK/programs status
	mkdir -p "$folder/ucx/bin" "$folder/osu" "$folder/empty"
	PROGRAMS=$folder/empty NO_SKIP='' bash "$0" local >"$WORK/out" 2>&1
	[ $? = 77 ] || fail "an empty folder: $(cat "$WORK/out")"
	expect "no program of this script is below $folder/empty" "$WORK/out"
	command -v ucx_perftest >/dev/null || skip "ucx_perftest is missing: apt-get install ucx-utils"
	ln -s "$(command -v ucx_perftest)" "$(command -v ucx_info)" "$folder/ucx/bin"
	printf '#!/bin/sh\necho "no such test"\nexit 1\n' >"$folder/osu/osu_latency"
	chmod +x "$folder/osu/osu_latency"
	PROGRAMS=$folder ROUNDS=1 bash "$0" local >"$WORK/out" 2>&1
	status=$?
	[ $status = 1 ] || fail "a program that fails: status $status: $(cat "$WORK/out")"
	grep -qE '^ucx_perftest +1\.[0-9.]+ +tag_bw 64 KiB, MB/s +[0-9.]+ +[0-9.]+ +[0-9.]+ \([0-9.]+ to [0-9.]+\) +passed' "$WORK/out" || fail "no figures of UCX: $(cat "$WORK/out")"
	grep -qE '^osu_latency .* failed' "$WORK/out" || fail "no failure: $(cat "$WORK/out")"
	expect 'no such test' "$WORK/out"
}

if [ "${1:-}" = check ]; then
	net_init
	check_itself
	exit 0
fi

[ -d "${PROGRAMS:-}" ] || skip "PROGRAMS = ${PROGRAMS:-}: name the folder with the programs to run"
PROGRAMS=$(realpath "$PROGRAMS")
PATTERN=${2:-.}
ROUNDS=${ROUNDS:-3} LIMIT=${LIMIT:-120}

# The table: program; part of its path; work; which figure is better, or "only" for a program without TCP, which runs once; function
# below with its arguments.
TABLE='
osu_latency      | *               | latency of 8 B, us          | less | run_osu 8 -m 8:8 -x 10 -i 200
osu_bw           | *               | 1 MiB, MB/s                 | more | run_osu 1048576 -m 1048576:1048576 -x 2 -i 10
osu_allreduce    | *               | 64 KiB, us                  | less | run_osu 65536 -T mpi_int -m 65536:65536 -x 5 -i 50
fi_msg_pingpong  | *               | latency of 64 B, us         | less | run_fabtest msg 6 -S 64 -I 200
fi_msg_bw        | *               | 64 KiB, MB/s                | more | run_fabtest msg 5 -S 65536 -I 500
fi_rdm_tagged_pingpong | *         | latency of 64 B, us         | less | run_fabtest rdm 6 -S 64 -I 200
fi_rdm_tagged_bw | *               | 64 KiB, MB/s                | more | run_fabtest rdm 5 -S 65536 -I 500
fi_rma_bw        | *               | writes of 64 KiB, MB/s      | more | run_fabtest rdm 5 -e rdm -o write -S 65536 -I 500
benchmark        | *gloo*          | allreduce of 4 KiB, us      | less | run_gloo 3 --elements 1024 --iteration-count 100 allreduce_ring_chunked
benchmark        | *gloo*          | allreduce of 4 MiB, us      | less | run_gloo 3 --elements 1048576 --iteration-count 20 allreduce_ring_chunked
ucx_perftest     | *               | tag_bw 64 KiB, MB/s         | more | run_ucx 6 -t tag_bw -s 65536 -n 500
ucx_perftest     | *               | tag_lat 8 B, us             | less | run_ucx 5 -t tag_lat -s 8 -n 500
rdma-test        | *valkey*        | test of Valkey, s           | only | run_valkey
nvmf_tgt         | *               | verified 64 KiB, MB/s       | more | run_spdk 2 verify 65536
nvmf_tgt         | *               | reads of 64 KiB, MB/s       | more | run_spdk 2 randread 65536
nvmf_tgt         | *               | writes of 4 KiB, IO/s       | more | run_spdk 1 randwrite 4096
ucp_client_server | *              | messages by a listener      | only | run_listener
gtest            | *               | tests of UCX, passed        | only | run_gtest
'

# Prints the programs NAME below the folder; libtool's uninstalled ones are wrappers beside .libs.
find_programs() { # NAME PATH-PATTERN
	find -L "$PROGRAMS" -type f -executable -name "$1" -path "$2" -not -path '*/.libs/*' 2>/dev/null | sort
}

# Calls a function with each program found and its fields of the table.
each_program() { # FUNCTION
	local name path work better run program
	while IFS='|' read -r -u 3 name path work better run; do
		read -r name <<<"$name"
		read -r path <<<"$path"
		[ -z "$name" ] || for program in $(find_programs "$name" "$path"); do
			# shellcheck disable=SC2086 # words are wanted
			"$1" "$program" "$(sed 's/^ *//; s/ *$//' <<<"$work")" $better $run
		done
	done 3<<<"$TABLE"
}
[ -n "$(each_program echo)" ] || skip "no program of this script is below $PROGRAMS"
verbs_init "$1"
write_rank
SERVER=${addresses[0]}

# ---- one run over one transport ----

TRANSPORT=oneside
on() { # 0|1 PROGRAM ARGUMENTS...: replaces the function of verbs_lib.sh
	local -a run=(timeout -k 3 "$LIMIT" env -i PATH="$PATH" XDG_RUNTIME_DIR="$WORK")
	[ "$TRANSPORT" = tcp ] || run+=("$RUN" --only-verbs --socket "${sockets[$1]}")
	run+=("${@:2}")
	run_or_become "${run[@]}"
}

# Waits until the command succeeds; fails if the server has ended.
await_server() { # COMMAND...
	until "$@"; do
		kill -0 "$server" 2>/dev/null || return 1
		sleep 0.05
	done
}

# ends READY SERVER... -- CLIENT...: runs both ends; READY: succeeds when the client may start. Their output: $WORK/server and
# $WORK/client.
ends() {
	local ready=$1 server status
	local -a serve=()
	shift
	while [ "$1" != -- ]; do
		serve+=("$1")
		shift
	done
	shift
	on 0 "${serve[@]}" >"$WORK/server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	# shellcheck disable=SC2086 # words are wanted
	await_server $ready || return 1
	on 1 "$@" >"$WORK/client" 2>&1
	status=$?
	[ $status = 0 ] || end_process "$server" 10
	wait "$server" || status=1
	return $status
}

ready_cm() { # PORT: a listener of rdma_cm, or of TCP
	if [ "$TRANSPORT" = tcp ]; then listening "$1"; else served yes; fi
}

# ---- programs: each function runs PROGRAM once over $TRANSPORT, and prints its figure ----

run_osu() { # PROGRAM SIZE ARGUMENTS...; -c: OSU's programs verify the data
	local mpi=openmpi
	local -a start=(env -i PATH="$PATH" XDG_RUNTIME_DIR="$WORK")
	ldd "$1" 2>/dev/null | grep -q libmpich && mpi=mpich
	case $TRANSPORT-$mpi in
	oneside-openmpi) start+=(mpirun.openmpi -n 2 --oversubscribe "$WORK/rank") ;;
	oneside-mpich) start+=(mpirun.mpich -n 2 "$WORK/rank") ;;
	tcp-openmpi) start+=(mpirun.openmpi -n 2 --oversubscribe --mca pml ob1 --mca btl 'tcp,self' --mca btl_tcp_if_include lo) ;;
	tcp-mpich) start+=(MPIR_CVAR_NOLOCAL=1 'UCX_TLS=tcp,self' mpirun.mpich -n 2) ;;
	esac
	timeout -k 3 "$LIMIT" "${start[@]}" "$1" -c "${@:3}" >"$WORK/client" 2>&1 && ! grep -q Fail "$WORK/client" || return 1
	awk -v size="$2" '$1 == size {print $2}' "$WORK/client"
}

run_fabtest() { # PROGRAM msg|rdm COLUMN ARGUMENTS...; -v: the data are verified
	local provider=verbs address=$SERVER own=${addresses[1]}
	[ "$TRANSPORT" = oneside ] || provider=tcp address=127.0.0.1 own=127.0.0.1
	[ "$2" = msg ] || provider+=';ofi_rxm'
	ends 'ready_cm 9228' "$1" -v -p "$provider" -s "$address" "${@:4}" -- "$1" -v -p "$provider" -s "$own" "${@:4}" "$address" || return 1
	awk -v column="$3" '/^[0-9]/ {figure = $column} END {print figure}' "$WORK/client"
}

run_gloo() { # PROGRAM COLUMN ARGUMENTS...; the first round's results are verified
	local transport='-t ibverbs --ib-device p0'
	[ "$TRANSPORT" = oneside ] || transport='-t tcp --tcp-device lo'
	rm -rf "$WORK/meet"
	mkdir "$WORK/meet"
	# shellcheck disable=SC2086
	ends true "$1" -s 2 -r 1 --shared-path "$WORK/meet" $transport "${@:3}" -- \
		"$1" -s 2 -r 0 --shared-path "$WORK/meet" $transport "${@:3}" || return 1
	awk -v column="$2" '/^ *[0-9]+ +[0-9]/ {print $column}' "$WORK/client"
}

run_ucx() { # PROGRAM COLUMN ARGUMENTS...
	local -a tcp=()
	[ "$TRANSPORT" = oneside ] || tcp=(env 'UCX_TLS=tcp,self')
	ends 'listening 13337' "${tcp[@]}" "$1" "${@:3}" -- "${tcp[@]}" "$1" "${@:3}" 127.0.0.1 || return 1
	awk -v column="$2" '/^Final:/ {print $column}' "$WORK/client"
}

# UCX listens at the port's address by rdma_cm.  By default UCX would listen there by TCP, too, and give up.
run_listener() { # PROGRAM
	local server status
	on 0 env UCX_SOCKADDR_TLS_PRIORITY=rdmacm "$1" -l "$SERVER" -p 13347 -c tag >"$WORK/server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	await_server served yes && on 1 "$1" -a "$SERVER" -p 13347 -c tag -i 100 >"$WORK/client" 2>&1
	status=$?
	end_process "$server" 10
	[ $status = 0 ] && sed -n 's/^Client: iteration #//p' "$WORK/client" | tail -n 1
}

# The tests that UCX has for its transports over verbs run for ten minutes. Left out are those of other adapters (flush_remote,
# ib_sl), of a second GID, of a shorter ack_timeout than the port's (keepalive), and of more devices than a user may open
# (peer_failure_multiple). UCX must check parameters (configure --enable-params-check), or get_size_limit ends all tests.
run_gtest() { # PROGRAM
	LIMIT=$((LIMIT * 30)) on 0 env GTEST_COLOR=no "$1" \
		--gtest_filter='*rc_verbs*:*ud_verbs*:-*size_no_flush_remote*:*test_uct_ib_sl*:*non_default_gid_idx*:*test_rc_keepalive*:*peer_failure_multiple*' >"$WORK/client" 2>&1 || return 1
	awk '/ PASSED / {print $4}' "$WORK/client"
}

# The server is Valkey's, beside the test, with the module for RDMA.
run_valkey() { # PROGRAM
	local folder=${1%/tests/rdma/*}/src start=$SECONDS status
	local -a options=(--rdma-bind "$SERVER" --rdma-port 6379)
	grep -q rdma-bind "$folder/valkey-server" || options=("bind=$SERVER" port=6379) # until October 2024
	on 0 "$folder/valkey-server" --save '' --port 0 --loadmodule "$folder/valkey-rdma.so" "${options[@]}" >"$WORK/server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	await_server served yes && on 1 "$1" -h "$SERVER" -p 6379 --thread 2 --minkeys 128 --maxkeys 256 >"$WORK/client" 2>&1
	grep -q 'GET .* KVs \[OK\]' "$WORK/client"
	status=$?
	end_process "$server" 10
	[ $status = 0 ] && echo $((SECONDS - start))
}

write_spdk() { # ADDRESS: the configurations of target and initiator
	local nqn=nqn.2016-06.io.spdk:disk type=RDMA
	[ "$TRANSPORT" = oneside ] || type=TCP
	cat >"$WORK/target.json" <<-END
		{"subsystems": [
		{"subsystem": "bdev", "config": [{"method": "bdev_malloc_create", "params": {"name": "disk", "num_blocks": 32768, "block_size": 512}}]},
		{"subsystem": "nvmf", "config": [
		{"method": "nvmf_create_transport", "params": {"trtype": "$type"}},
		{"method": "nvmf_create_subsystem", "params": {"nqn": "$nqn", "allow_any_host": true, "serial_number": "1"}},
		{"method": "nvmf_subsystem_add_ns", "params": {"nqn": "$nqn", "namespace": {"bdev_name": "disk"}}},
		{"method": "nvmf_subsystem_add_listener", "params": {"nqn": "$nqn", "listen_address":
			{"trtype": "$type", "adrfam": "IPv4", "traddr": "$1", "trsvcid": "4420"}}}]}]}
	END
	cat >"$WORK/initiator.json" <<-END
		{"subsystems": [{"subsystem": "bdev", "config": [{"method": "bdev_nvme_attach_controller", "params":
			{"name": "far", "trtype": "$type", "adrfam": "IPv4", "traddr": "$1", "trsvcid": "4420", "subnqn": "$nqn"}}]}]}
	END
}

# The initiator is SPDK's bdevperf. Without hugepages SPDK registers no memory, since it is not aligned to 2 MiB.
run_spdk() { # PROGRAM COLUMN WORKLOAD SIZE
	local initiator=${1%/bin/nvmf_tgt}/examples/bdevperf address=$SERVER server status
	local -a cpus memory=(--iova-mode va --no-pci --env-context=--in-memory -s 64 --disable-cpumask-locks)
	[ "$(awk '/HugePages_Free/ {print $2}' /proc/meminfo)" -ge 450 ] || {
		echo 'fewer than 450 hugepages of 2 MiB are free' >"$WORK/client"
		return 77
	}
	mapfile -t cpus < <(allowed_cpus)
	[ "$TRANSPORT" = oneside ] || address=127.0.0.1
	write_spdk "$address"
	on 0 "$1" -m "[${cpus[0]}]" -r "$WORK/target.rpc" -c "$WORK/target.json" "${memory[@]}" >"$WORK/server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	await_server ready_cm 4420 && on 1 "$initiator" -m "[${cpus[-1]}]" -r "$WORK/initiator.rpc" -c "$WORK/initiator.json" \
		"${memory[@]}" -q 32 -o "$4" -w "$3" -t 2 >"$WORK/client" 2>&1
	status=$?
	end_process "$server" 10
	[ $status = 0 ] && awk -v column="$2" '/ Total *:/ {sub(/.*:/, ""); print $column}' "$WORK/client"
}

# ---- the table ----

FAILED=''
print_row() { printf '%-20s %-8s %-28s %10s %10s %20s  %s\n' "$@"; }
# ratios less|more: how much better oneside's figures are than those of TCP in the same round, least first.
ratios() {
	paste "$WORK/oneside" "$WORK/tcp" | awk -v better="$1" '$1 > 0 && $2 > 0 {printf "%.2f\n", better == "less" ? $2 / $1 : $1 / $2}' | sort -g
}
median() { sort -g | awk '{all[NR] = $1} END {if (NR) print all[int((NR + 1) / 2)]}'; }
median_and_range() { awk '{all[NR] = $1} END {if (NR) printf "%s (%s to %s)", all[int((NR + 1) / 2)], all[1], all[NR]; else print "-"}'; }

version_of() { # PROGRAM
	case ${1##*/} in
	osu_*) "$1" --version ;;
	fi_*) fi_info --version ;;
	ucx_*) "${1%/*}/ucx_info" -v ;;
	nvmf_tgt) "$1" --version ;;
	esac 2>/dev/null | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1
}

# Runs both transports in turn, and prints the row.
measure() { # PROGRAM WORK less|more FUNCTION ARGUMENTS...
	local name=${1##*/} round status verdict=passed version oneside tcp rounds=$ROUNDS
	local -a transports=(oneside tcp)
	grep -qE -- "$PATTERN" <<<"$1" || return 0
	: >"$WORK/oneside"
	: >"$WORK/tcp"
	[ "$3" != only ] || rounds=1 transports=(oneside)
	for ((round = 0; round < rounds; round++)); do
		for TRANSPORT in "${transports[@]}"; do
			: >"$WORK/server"
			: >"$WORK/client"
			"$4" "$1" "${@:5}" >"$WORK/figure"
			status=$?
			[ $status = 0 ] && grep -q '[0-9]' "$WORK/figure" && cat "$WORK/figure" >>"$WORK/$TRANSPORT" && continue
			case $status-$TRANSPORT in
			77-*) verdict='left out' ;;
			*-oneside) verdict=failed FAILED=yes ;;
			*) verdict='fails over TCP' ;;
			esac
			sed "s,^,$name by $TRANSPORT: ," "$WORK/server" "$WORK/client" | tail -n 20 >&2
			break 2
		done
	done
	version=$(version_of "$1")
	oneside=$(median <"$WORK/oneside") tcp=$(median <"$WORK/tcp")
	print_row "$name" "${version:--}" "$2" "${oneside:--}" "${tcp:--}" "$(ratios "$3" | median_and_range)" "$verdict"
}

print_row program version work oneside TCP ratio result
each_program measure
[ -z "$FAILED" ]

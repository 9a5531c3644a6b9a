#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run Debian's unmodified libfabric verbs provider, and Open MPI and MPICH on it and on UCX, on oneside's libibverbs and
# librdmacm:
#
#   verbs_mpi.sh local|memif

. "$(dirname "$0")/verbs_lib.sh"
for program in fi_info fi_pingpong mpicc.openmpi mpirun.openmpi mpicc.mpich mpirun.mpich; do
	command -v "$program" >/dev/null ||
		skip "$program is missing: apt-get install libfabric-bin openmpi-bin libopenmpi-dev mpich libmpich-dev"
done
verbs_init "$1"
on 0 fi_info -p verbs >"$WORK/fi_info" || fail "fi_info finds no verbs"
expect 'domain: p0' "$WORK/fi_info"
expect 'type: FI_EP_MSG' "$WORK/fi_info"

# pingpong NAME PROVIDER ENDPOINT: runs fi_pingpong; -c checks the contents.
pingpong() {
	local name=$1 server port=47592
	on 0 fi_pingpong -p "$2" -e "$3" -c -I 20 >"$WORK/$name.server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	await_listening $port "$server" "$name"
	on 1 fi_pingpong -p "$2" -e "$3" -c -I 20 127.0.0.1 >"$WORK/$name.client" 2>&1 || {
		cat "$WORK/$name.server" "$WORK/$name.client" >&2
		fail "$name: the client"
	}
	wait "$server" || {
		cat "$WORK/$name.server" >&2
		fail "$name: the server"
	}
	say "$name"
}
pingpong fi_pingpong-msg verbs msg
pingpong fi_pingpong-rdm 'verbs;ofi_rxm' rdm

# ---- MPI: ranks alternate between the two sides, and use only verbs, neither TCP nor shared memory ----

write_rank

mpi() { # NAME openmpi|mpich MPIRUN...: all ranks must agree on the received data
	local name=$1 program=$WORK/$2
	[ -e "$program" ] || "mpicc.$2" -O1 -Wall -o "$program" "$(dirname "$0")/verbs_mpi.c" || fail "mpicc.$2"
	shift 2
	"${INSIDE[@]}" timeout -k 3 400 "$@" "$WORK/rank" "$program" >"$WORK/$name.out" 2>&1 || {
		cat "$WORK/$name.out" >&2
		fail "$name"
	}
	expect 'all 3 ranks agree' "$WORK/$name.out"
	say "$name"
}

open_mpi=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi -n 3 --oversubscribe
	--mca mpi_yield_when_idle 1)
mpi openmpi-ucx openmpi "${open_mpi[@]}"
# --mca osc pt2pt avoids a fault of Open MPI: without it, Open MPI warns that it finds no BTL for one-sided operations, and
# mpirun, which forwards warnings, reads uninitialized memory and may crash (with tcp;ofi_rxm as with verbs).
mpi openmpi-libfabric openmpi "${open_mpi[@]}" --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm' \
	--mca osc pt2pt
mpi mpich-ucx mpich mpirun.mpich -n 3

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# libfabric's verbs provider, and Open MPI on it, as Debian has them, on oneside's libibverbs and librdmacm:
#
#   verbs_mpi.sh local|memif
#
# libfabric looks for devices by the addresses of the kernel's interfaces: one beside the programs has the ports'.

. "$(dirname "$0")/verbs_lib.sh"
for program in fi_info fi_pingpong mpicc.openmpi mpirun.openmpi; do
	command -v "$program" >/dev/null || skip "$program is missing: apt-get install libfabric-bin openmpi-bin libopenmpi-dev"
done
need_root
verbs_init "$1"
MEET=${INSIDE[3]}
ip -n "$MEET" link add oneside0 type dummy 2>/dev/null || {
	ip -n "$MEET" link add oneside0 type veth peer name oneside1 && ip -n "$MEET" link set oneside1 up
} || fail "no interface beside the programs"
for address in 192.0.2.1 192.0.2.2; do
	ip -n "$MEET" addr add "$address/32" dev oneside0 || fail "no address beside the programs"
done
ip -n "$MEET" link set oneside0 up
# The provider takes completion queues for so many peers.
export FI_UNIVERSE_SIZE=4

on 0 fi_info -p verbs >"$WORK/fi_info" || fail "fi_info finds no verbs"
expect 'domain: p0' "$WORK/fi_info"
expect 'type: FI_EP_MSG' "$WORK/fi_info"

# pingpong NAME PROVIDER ENDPOINT: -c looks at the contents.
pingpong() {
	local name=$1 server port=47592
	on 0 fi_pingpong -p "$2" -e "$3" -c -I 20 >"$WORK/$name.server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	await_listening $port "$server" "$name"
	on 1 fi_pingpong -p "$2" -e "$3" -c -I 20 "${addresses[0]}" >"$WORK/$name.client" 2>&1 || {
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

# ---- Open MPI: ranks in turn on the two ends ----

mpicc.openmpi -O1 -Wall -o "$WORK/mpi" "$(dirname "$0")/verbs_mpi.c" || fail "mpicc"
cat >"$WORK/rank" <<END
#!/bin/sh
[ \$((OMPI_COMM_WORLD_RANK % 2)) = 0 ] && socket=${sockets[0]} || socket=${sockets[1]}
exec "$RUN" --socket "\$socket" "$WORK/mpi"
END
chmod +x "$WORK/rank"
# Nothing but libfabric: neither TCP nor shared memory.
"${INSIDE[@]}" env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 3 120 mpirun.openmpi -n 3 --oversubscribe \
	--mca mpi_yield_when_idle 1 --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm' \
	--mca btl self "$WORK/rank" >"$WORK/mpi.out" 2>&1 || {
	cat "$WORK/mpi.out" >&2
	fail "Open MPI"
}
expect 'all 3 ranks agree' "$WORK/mpi.out"
say "Open MPI over libfabric"

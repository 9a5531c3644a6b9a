#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# libfabric's verbs provider, and Open MPI and MPICH on it and on UCX, as Debian has them, on oneside's libibverbs and
# librdmacm:
#
#   verbs_mpi.sh local|memif
#
# libfabric looks for devices by the addresses of the kernel's interfaces: one beside the programs has the ports'.

. "$(dirname "$0")/verbs_lib.sh"
for program in fi_info fi_pingpong mpicc.openmpi mpirun.openmpi mpicc.mpich mpirun.mpich; do
	command -v "$program" >/dev/null ||
		skip "$program is missing: apt-get install libfabric-bin openmpi-bin libopenmpi-dev mpich libmpich-dev"
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

# ---- MPI: ranks in turn on the two ends, and nothing but verbs: neither TCP nor shared memory ----

cat >"$WORK/rank" <<END
#!/bin/sh
rank=\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}
[ \$((rank % 2)) = 0 ] && socket=${sockets[0]} || socket=${sockets[1]}
exec "$RUN" --socket "\$socket" "\$@"
END
chmod +x "$WORK/rank"

mpi() { # NAME openmpi|mpich MPIRUN...: its ranks agree on all that has come
	local name=$1 program=$WORK/$2
	[ -e "$program" ] || "mpicc.$2" -O1 -Wall -o "$program" "$(dirname "$0")/verbs_mpi.c" || fail "mpicc.$2"
	shift 2
	"${INSIDE[@]}" timeout -k 3 120 "$@" "$WORK/rank" "$program" >"$WORK/$name.out" 2>&1 || {
		cat "$WORK/$name.out" >&2
		fail "$name"
	}
	expect 'all 3 ranks agree' "$WORK/$name.out"
	say "$name"
}

# One-sided operations are to take the way of all others (osc pt2pt): else Open MPI looks for a BTL for them, warns that
# there is none, and mpirun, which passes warnings on, reads what it has not set (with tcp;ofi_rxm as with verbs), and
# may crash.
open_mpi=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi -n 3 --oversubscribe
	--mca mpi_yield_when_idle 1 --mca btl self)
mpi openmpi-libfabric openmpi "${open_mpi[@]}" --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm' \
	--mca osc pt2pt

export UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=p0:1 UCX_UD_VERBS_ETH_DGID_CHECK=n UCX_WARN_UNUSED_ENV_VARS=n
in_dev
"${IN_DEV[@]}" true || skip "no mount namespace with a /dev of its own"
mpi openmpi-ucx openmpi "${IN_DEV[@]}" "${open_mpi[@]}" --mca pml ucx --mca osc ucx
# MPICH takes shared memory for ranks of one host by itself.
MPIR_CVAR_NOLOCAL=1 mpi mpich-ucx mpich "${IN_DEV[@]}" mpirun.mpich -n 3

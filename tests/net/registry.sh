#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The provider library of uDAPL 1.2 in the hands of registries that load it:
#
#   registry.sh other    another libdat.so.1, in place of the one that programs were linked with
#   registry.sh own      ours, by an entry of dat.conf
#
# Programs that know nothing of it exchange data over one data plane and over two.

. "$(dirname "$0")/lib.sh"
net_init
kind=$1
PROVIDER=$BUILD/api/dat/libdaplone.so.1
OTHER=$BUILD/tests/net/registry/libdat.so.1

case $kind in
other)
	settings=(LD_PRELOAD="$OTHER" REGISTRY_LIBRARY="$PROVIDER")
	;;
own)
	cat >"$WORK/dat.conf" <<-CONF
		oneside u1.2 nonthreadsafe default $PROVIDER oneside.1.0 "" ""
	CONF
	settings=(DAT_OVERRIDE="$WORK/dat.conf" DAT_DBG_TYPE=1)
	;;
*)
	fail "registry.sh: \"$kind\" is not a kind of run"
	;;
esac

run() { # SOCKET SOCKET
	local program
	for program in net-dat-transfer net-dat-protection net-dat-connection; do
		say "== $program"
		env "${settings[@]}" "$BUILD/tests/net/$program" "$@" || fail "$program with $kind registry"
	done
}

start_memif_pair
run "$(plane_socket a)" "$(plane_socket a)"
run "$(plane_socket a)" "$(plane_socket b)"
stop_plane a
stop_plane b

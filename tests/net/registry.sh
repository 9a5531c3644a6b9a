#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Test the provider library of uDAPL 1.2 with the registries that load it:
#
#   registry.sh other    a foreign libdat.so.1, in place of the one that programs were linked with
#   registry.sh own      oneside's libdat, by an entry of dat.conf
#   registry.sh paths    oneside's libdat with its built-in provider, and dat.conf in each place where it is searched
#
# Unchanged programs exchange data over one data plane and over two.

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
paths)
	# Programs must take the socket from dat.conf: the sockets on their command lines do not exist.
	need_root
	start_memif_plane a
	for path in dat.conf dat/dat.conf; do
		rm -rf "${WORK:?}/etc"
		cp -a /etc "$WORK/etc"
		rm -rf "${WORK:?}/etc/dat.conf" "${WORK:?}/etc/dat"
		mkdir -p "$WORK/etc/dat"
		echo "oneside u1.2 nonthreadsafe default libdat.so.1 oneside.1.0 \"socket=$(plane_socket a)\" \"\"" >"$WORK/etc/$path"
		say "== /etc/$path"
		# shellcheck disable=SC2016 # the inner shell expands it
		env -u DAT_OVERRIDE unshare --mount sh -c 'mount --bind "$1/etc" /etc && exec "$2" /nowhere /nowhere send' \
			sh "$WORK" "$BUILD/tests/net/net-dat-transfer" || fail "/etc/$path is not read"
	done
	say "== DAT_OVERRIDE"
	env DAT_OVERRIDE="$WORK/etc/dat/dat.conf" "$BUILD/tests/net/net-dat-transfer" /nowhere /nowhere send ||
		fail "DAT_OVERRIDE is not read"
	stop_plane a
	exit 0
	;;
*)
	fail "registry.sh: \"$kind\" is not a kind of run"
	;;
esac

run() { # PEER
	local program
	for program in net-dat-transfer net-dat-protection net-dat-connection; do
		say "== $program from a to $1"
		env "${settings[@]}" "$BUILD/tests/net/$program" "$(plane_socket a)" "$(plane_socket "$1")" || {
			say "FAILED: $program with $kind registry"
			return 1
		}
	done
}

start_memif_pair
run a >"$WORK/within" 2>&1 &
within=$!
APPLICATIONS+=("$within")
run b || fail "over two data planes"
wait "$within" || fail "over one data plane: $(cat "$WORK/within")"
cat "$WORK/within"
stop_plane a
stop_plane b

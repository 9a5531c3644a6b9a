#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# ucx_perftest of Debian's ucx-utils, as it is, over rc_verbs on oneside's libibverbs:
#
#   ucx.sh local    both ends on one data plane
#   ucx.sh memif    on two, joined by memif
#
# UCX takes no device that has no character device of its name in /dev/infiniband, which it does not open.  The
# programs run in a mount namespace with a /dev of their own that has one.

. "$(dirname "$0")/lib.sh"
command -v ucx_perftest >/dev/null || skip "ucx_perftest is missing: apt-get install ucx-utils"
[ "$(id -u)" = 0 ] || skip "a /dev with /dev/infiniband needs root"
RUN=$BUILD/api/verbs/oneside-run
[ -e "$BUILD/api/verbs/libibverbs.so.1" ] || fail "libibverbs is not built: apt-get install libibverbs-dev"
net_init
case $1 in
local) planes=(a a) ;;
memif) planes=(a b) ;;
*) fail "ucx.sh local|memif" ;;
esac
[ "$(allowed_cpus | wc -l)" -ge 4 ] || PLANE_IDLE=${PLANE_IDLE:-sleep}
start_memif_pair

mkdir "$WORK/dev"
cat >"$WORK/with_dev" <<END
#!/bin/bash
mount -t tmpfs dev "$WORK/dev" && cd "$WORK/dev" || exit 77
mkdir shm infiniband
for node in null zero full random urandom; do
	touch \$node && mount --bind /dev/\$node \$node || exit 77
done
ln -s ../null infiniband/oneside0
cd / && mount --rbind "$WORK/dev" /dev && exec "\$@"
END
chmod +x "$WORK/with_dev"

on() { # 0|1 PROGRAM ARGUMENTS...
	local plane=${planes[$1]}
	shift
	UCX_NET_DEVICES=p0:1 UCX_WARN_UNUSED_ENV_VARS=n timeout -k 5 60 unshare -m --propagation private "$WORK/with_dev" \
		"$RUN" --socket "$(plane_socket "$plane")" "$@"
}

on 0 ucx_info -d >"$WORK/info" 2>&1
case $? in
0) ;;
77) skip "no mount namespace with a /dev of its own" ;;
*) fail "ucx_info" ;;
esac
expect 'Transport: rc_verbs' "$WORK/info"
expect 'Device: p0:1' "$WORK/info"

port=13400
# run NAME OPTIONS...: both ends succeed, and the client tells the result.
run() {
	local name=$1 server tenths=100
	shift
	port=$((port + 1))
	on 0 ucx_perftest -p "$port" -x rc_verbs -d p0:1 -w 10 "$@" >"$WORK/$name.server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	until ss -Htln "sport = :$port" | grep -q . || [ "$tenths" = 0 ]; do
		sleep 0.1
		tenths=$((tenths - 1))
	done
	on 1 ucx_perftest -p "$port" -x rc_verbs -d p0:1 -w 10 "$@" 127.0.0.1 >"$WORK/$name.client" 2>&1 || {
		cat "$WORK/$name.server" "$WORK/$name.client" >&2
		fail "$name: ucx_perftest $* fails at the client"
	}
	wait "$server" || {
		cat "$WORK/$name.server" >&2
		fail "$name: ucx_perftest $* fails at the server"
	}
	expect 'Final:' "$WORK/$name.client"
	say "$name"
}

run am_lat -t am_lat -n 300
run am_bw -t am_bw -D bcopy -s 4000 -n 500
run am_zcopy -t am_bw -D zcopy -s 8000 -n 300
run put_lat -t put_lat -n 300
run put_bw -t put_bw -D zcopy -s 65536 -n 300
run get -t get -D bcopy -s 8000 -n 300
run get_zcopy -t get -D zcopy -s 100000 -n 300
run fadd -t fadd -s 8 -n 300
run cswap -t cswap -s 8 -n 300

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# In two podman containers, without capabilities, network or a writable /sys, and under podman's default seccomp profile,
# programs of rdma_cm connect by the data plane that a CDI description names. Then the CI job of doc/containers.md runs.
#
# The containers have this machine's files, and the socket's folder only by the CDI description.

if [ "${1:-}" != inside ]; then
	[ "$(id -u)" = 0 ] || {
		echo "SKIPPED: /etc/cdi and containers of this machine's files need root"
		exit 77
	}
	exec unshare -m --propagation private bash "$0" inside
fi
. "$(dirname "$0")/verbs_lib.sh"
for program in podman crun rping ib_write_bw; do
	command -v $program >/dev/null || skip "$program is missing: apt-get install podman crun rdmacm-utils perftest"
done
verbs_init local
SERVER=${addresses[0]}
mkdir -p "$WORK/sockets" "$WORK/cdi" /etc/cdi
ln "$(plane_socket a)" "$WORK/sockets/oneside.sock"
chmod 666 "$WORK/sockets/oneside.sock"
sed -e "s,\"@SOCKETS@\",\"/run/oneside-test\",; s,\"hostPath\": \"/run/oneside-test\",\"hostPath\": \"$WORK/sockets\"," \
	-e "s,@SOCKETS@,/run/oneside-test,; s,@BINDIR@/oneside-run,$BUILD/api/run/oneside-run,g; s,@LIBRARIES@,$BUILD/api/verbs,g" \
	-e "s,@DATADIR@,$BUILD/api/rdmacm,g" "$(dirname "$0")/../../config/container/oneside.json.in" >"$WORK/cdi/oneside.json"
mount --bind "$WORK/cdi" /etc/cdi || skip "nothing can be mounted here"
# crun does not support machines with both versions of cgroups.
grep cgroup2 /proc/mounts | cut -d' ' -f2 | xargs -r umount

container() { # NAME PROGRAM...: runs the program in a container as an ordinary user
	podman --root "$WORK/store" --runroot "$WORK/run" --storage-driver vfs --cgroup-manager=cgroupfs run --rm --name "oneside-$$-$1" \
		--network none --cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --user 65534:65534 --cap-drop all \
		--security-opt no-new-privileges --device oneside.dev/rdma=default --rootfs /:O "${@:2}"
}

container probe true >"$WORK/probe" 2>&1 || skip "podman starts no container here: $(tail -n 1 "$WORK/probe")"
container probe sh -c 'echo "$ONESIDE_SOCKET"; touch /sys/class/x; sed -n s/^Seccomp:.//p /proc/self/status' >"$WORK/probe" 2>&1
expect /run/oneside-test/oneside.sock "$WORK/probe"
expect 'Read-only file system' "$WORK/probe"
expect 2 "$WORK/probe"
container info "$RUN" ibv_devinfo >"$WORK/info" 2>&1 || fail "ibv_devinfo: $(cat "$WORK/info")"
expect PORT_ACTIVE "$WORK/info"

on() { # 0|1 PROGRAM ARGUMENTS...: replaces the function of verbs_lib.sh
	local name=server
	[ "$1" = 0 ] || name=client
	container $name "$RUN" "${@:2}"
}
cm_pair rping rping -s -C 5 -a "$SERVER" -- rping -c -v -V -C 5 -a "$SERVER"
expect 'ping data: rdma-ping-4:' "$WORK/rping.client"
cm_pair ib_write_bw ib_write_bw -R -F -n 200 -- ib_write_bw -R -F -n 200 "$SERVER"

# Run the CI job of the document, except for its packages and the folder of the socket.
mkdir "$WORK/job"
chown 65534:65534 "$WORK/job"
sed -n '/^## A CI job/,/^## A container/p' "$(dirname "$0")/../../doc/containers.md" | sed -n '/^```/,/^```/p' |
	grep -v '^```\|apt-get' | sed 's,/tmp/oneside.sock,$PWD/oneside.sock,g' >"$WORK/job.sh"
grep -q ib_write_bw "$WORK/job.sh" || fail "doc/containers.md has no CI job"
echo 'kill %1; wait' >>"$WORK/job.sh"
cd "$WORK/job" || exit 1
"${INSIDE[@]}" setpriv --reuid 65534 --regid 65534 --clear-groups env -i XDG_RUNTIME_DIR="$WORK/job" \
	PATH="$(dirname "$DATAPLANE"):$BUILD/api/verbs:$PATH" bash -e "$WORK/job.sh" >"$WORK/job.out" 2>&1 ||
	fail "the CI job: $(cat "$WORK/job.out")"
expect 'MsgRate' "$WORK/job.out"
say "the CI job of doc/containers.md runs"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# In two podman containers, without capabilities, network or a writable /sys, and under podman's default seccomp profile,
# programs of rdma_cm connect by the data plane that a CDI description names. Then the CI job of doc/containers.md runs.
#
# The containers have this machine's files, and the socket's folder only by the CDI description. Two rootless containers
# of an ordinary user follow, then two nodes with the data planes of daemonset.yaml.
#
# PROGRAMS: a folder with Valkey's sources, built with its module for RDMA and its test; without it Valkey is left out.

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

# A container's first process has no default action for signals, so that podman could not end a server whose client failed.
FIRST=(sh -c 'trap "kill \$!" TERM; "$@" & wait $!' sh)

container() { # NAME PROGRAM...: runs the program in a container as an ordinary user
	run_or_become podman --root "$WORK/store" --runroot "$WORK/run" --storage-driver vfs --cgroup-manager=cgroupfs run --rm \
		--name "oneside-$$-$1" --network none --cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --user 65534:65534 --cap-drop all \
		--security-opt no-new-privileges --device oneside.dev/rdma=default --rootfs /:O "${FIRST[@]}" "${@:2}"
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

# ---- without root ----

ORDINARY=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)
make_folders() {
	mkdir -p "$WORK"/rootless/{store,run,root/{usr,etc,run,proc,sys,dev,tmp}}
	for name in bin sbin lib lib64; do
		ln -s usr/$name "$WORK/rootless/root/$name"
	done
	chown -R 65534:65534 "$WORK/rootless"
}

rootless() { # NAME PROGRAM...
	run_or_become "${ORDINARY[@]}" env -i HOME="$WORK/rootless" XDG_RUNTIME_DIR="$WORK/rootless/run" PATH="$PATH" podman \
		--root "$WORK/rootless/store" --runroot "$WORK/rootless/run" --storage-driver vfs --cgroup-manager=cgroupfs run --rm --name "oneside-$$-$1" --network none \
		--cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --cap-drop all --security-opt no-new-privileges \
		"${VOLUMES[@]}" -v /usr:/usr:ro -v "$BUILD:$BUILD:ro" -v "$SOURCE/api/run:$SOURCE/api/run:ro" -v "$WORK/sockets:/run/oneside:ro" \
		--rootfs "$WORK/rootless/root" "${FIRST[@]}" "${@:2}"
}
SOURCE=$(realpath "$(dirname "$0")/../..")
VOLUMES=()
make_folders
net_at_exit() { # podman leaves a process that keeps its user namespace
	xargs -r kill <"$WORK/rootless/run/libpod/tmp/pause.pid"
}
if rootless probe sh -c 'id -u; grep CapBnd /proc/self/status; cat /proc/self/uid_map' >"$WORK/probe" 2>&1; then
	expect '0000000000000000' "$WORK/probe"
	grep -qE '^ +0 +65534 +1$' "$WORK/probe" || fail "the container is not the ordinary user's: $(cat "$WORK/probe")"
	on() {
		local name=server
		[ "$1" = 0 ] || name=client
		rootless $name "$RUN" "${@:2}"
	}
	cm_pair rootless-rping rping -s -C 5 -a "$SERVER" -- rping -c -v -V -C 5 -a "$SERVER"
	cm_pair rootless-ib_write_bw ib_write_bw -R -F -n 200 -- ib_write_bw -R -F -n 200 "$SERVER"
	valkey=$(find -L "${PROGRAMS:-/dev/null}" -path '*valkey*/tests/rdma/rdma-test' -print -quit)
	if [ -n "$valkey" ]; then
		folder=$(realpath "${valkey%/tests/rdma/rdma-test}")
		VOLUMES=(-v "$folder:$folder:ro")
		SERVER_STAYS=yes cm_pair rootless-valkey "$folder/src/valkey-server" --save '' --port 0 --loadmodule "$folder/src/valkey-rdma.so" \
			--rdma-bind "$SERVER" --rdma-port 6379 -- "$folder/tests/rdma/rdma-test" -h "$SERVER" -p 6379 --thread 2 --minkeys 128 --maxkeys 256
		grep -q 'GET .* KVs \[OK\]' "$WORK/rootless-valkey.client" || fail "rdma-test: $(cat "$WORK/rootless-valkey.client")"
	else
		say "left out: PROGRAMS names no folder with Valkey's rdma-test"
	fi
else
	leave_out "podman starts no container without root: $(tail -n 1 "$WORK/probe")"
fi

# ---- a DaemonSet's data planes ----

MANIFEST=$SOURCE/config/container/daemonset.yaml
start_node() { # NAME ADDRESS-OF-THE-NODE: as the container of the manifest, with its two capabilities
	local command
	grep -q 'drop: \[ALL\]' "$MANIFEST" && grep -q 'add: \[NET_ADMIN, NET_RAW\]' "$MANIFEST" || fail "$MANIFEST: other capabilities"
	command=$(sed -n '/^ *- |$/,/^ *env:$/p' "$MANIFEST" | sed '1d;$d')
	command=${command//\/run\/oneside\/oneside.sock/$WORK/$1.sock}
	: >"$(plane_log "$1")"
	NODE=$2 ip netns exec "oneside-$$-$1" setpriv --inh-caps=-all,+net_admin,+net_raw --bounding-set=-all,+net_admin,+net_raw env \
		PATH="$(dirname "$DATAPLANE"):$PATH" sh -c "${command/ -- / --file-prefix=$(basename "$WORK")-$1 -- }" >"$(plane_log "$1")" 2>&1 &
	PLANE_PID[$1]=$!
	await_plane "$1"
	# The kernel can tell up to a second late that the carrier is there.
	until grep -q 'event=link port=p0 .*is up' "$(plane_log "$1")"; do sleep 0.05; done
}
make_namespace n1
make_namespace n2
ip link add eth0 netns "oneside-$$-n1" type veth peer name eth0 netns "oneside-$$-n2" || fail "no veth pair"
ip -n "oneside-$$-n1" link set eth0 up && ip -n "oneside-$$-n2" link set eth0 up || fail "no eth0"
start_node n1 172.18.0.2
start_node n2 172.18.0.3
on() {
	local -a run=("${INSIDE[@]}" "$RUN" --socket "$(plane_socket "n$(($1 + 1))")" "${@:2}")
	run_or_become "${run[@]}"
}
on 1 ibv_devinfo -v >"$WORK/info" || fail "ibv_devinfo of a node"
expect '::ffff:198.18.0.3' "$WORK/info"
pair nodes-ib_write_bw 18516 ib_write_bw -F -n 200
stop_plane n1
stop_plane n2

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

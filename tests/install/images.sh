#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build the images of config/container/Containerfile from oneside's packages, on a base made by mmdebstrap, without a registry.
# Then a data plane and a pair of ib_write_bw run in containers of these images, whose programs are the images' own.
. "$(dirname "$0")/../net/lib.sh"
. "$(dirname "$0")/packages_lib.sh"
for program in podman crun mmdebstrap; do
	command -v $program >/dev/null || skip "$program is missing: apt-get install podman crun mmdebstrap"
done
packages_init "$@"
# crun does not support machines with both versions of cgroups.
grep cgroup2 /proc/mounts | cut -d' ' -f2 | xargs -r umount
make_packages quick

PODMAN=(podman --root "$WORK/store" --runroot "$WORK/run" --storage-driver vfs --cgroup-manager=cgroupfs --log-level=error)
net_at_exit() {
	"${PODMAN[@]}" rm --force --all --time 5 >/dev/null 2>&1
	umount -R -l "$WORK/root" "$WORK/layer" 2>/dev/null
}
run "mmdebstrap" mmdebstrap --variant=minbase --dpkgopt=force-unsafe-io bookworm "$WORK/base.tar"
run "podman import" "${PODMAN[@]}" import "$WORK/base.tar" localhost/debian
for target in dataplane verbs; do
	run "podman build" "${PODMAN[@]}" build --isolation chroot --network host --build-arg BASE=localhost/debian \
		--file "$SOURCE/config/container/Containerfile" --target $target --tag "localhost/oneside-$target" "$WORK/debs"
	say "localhost/oneside-$target"
done

mkdir "$WORK/sockets"
chmod 777 "$WORK/sockets"
container() { # NAME IMAGE ARGUMENTS...: without capabilities and network
	"${PODMAN[@]}" run --rm --name "oneside-$$-$1" --network none --cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --cap-drop all \
		--security-opt no-new-privileges --user 65534:65534 -v "$WORK/sockets:/run/oneside" "${@:2}"
}
container plane --entrypoint oneside-dataplane -e XDG_RUNTIME_DIR=/tmp localhost/oneside-dataplane -l 0,1 --no-huge -m 512 --no-pci --iova-mode=va --no-telemetry --vdev=net_null0,no-rx=1 -- \
	--socket /run/oneside/oneside.sock --idle sleep --port name=p0,device=net_null0,address=192.0.2.1/24 >"$WORK/plane.log" 2>&1 &
plane=$!
APPLICATIONS+=("$plane")
until grep -q 'serving on' "$WORK/plane.log"; do
	kill -0 "$plane" 2>/dev/null || fail "the data plane's container: $(cat "$WORK/plane.log")"
	sleep 0.1
done
container info localhost/oneside-verbs >"$WORK/info" 2>&1 || fail "ibv_devinfo: $(cat "$WORK/info")"
expect PORT_ACTIVE "$WORK/info"
container server localhost/oneside-verbs ib_write_bw -R -F -n 200 >"$WORK/server" 2>&1 &
APPLICATIONS+=("$!")
# The client fails until the server listens.
until container client localhost/oneside-verbs ib_write_bw -R -F -n 200 192.0.2.1 >"$WORK/client" 2>&1; do
	kill -0 "${APPLICATIONS[-1]}" 2>/dev/null || fail "ib_write_bw: $(cat "$WORK/server" "$WORK/client")"
	sleep 0.1
done
expect 65536 "$WORK/client"
"${PODMAN[@]}" stop --time 20 "oneside-$$-plane" >"$WORK/out" 2>&1 || fail "podman stop: $(cat "$WORK/out")"
wait "$plane"
say "ib_write_bw between two containers"

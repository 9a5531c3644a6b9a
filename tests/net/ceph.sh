#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Debian's Ceph by its messenger over RDMA, then over TCP: a monitor, an OSD that stores in memory, and a client, run by an
# ordinary user in a network namespace with only a loopback interface. Objects must come back whole. Prints the rates.
#
#   ceph.sh local|memif    the client is on the daemons' data plane, or on another one
#
# SECONDS_EACH (2): duration of each measurement.

if [ "$(id -u)" = 0 ]; then
	# shellcheck disable=SC2016 # the inner shell's
	exec unshare -n bash -c 'ip link set lo up; exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
		env -i PATH="$PATH" BUILD="$BUILD" NO_SKIP="${NO_SKIP:-}" SECONDS_EACH="${SECONDS_EACH:-2}" bash "$@"' bash "$0" "$@"
fi
[ -x "${BUILD:?}/api/verbs/oneside-run" ] || {
	echo "SKIPPED: user $(id -un) cannot read the build in $BUILD"
	exit 77
}
. "$(dirname "$0")/verbs_lib.sh"
for program in ceph-mon ceph-osd rados; do
	command -v $program >/dev/null || skip "$program is missing: apt-get install ceph-mon ceph-osd ceph-common"
done
verbs_init "$1"

on() { # 0|1 PROGRAM ARGUMENTS...: replaces the function of verbs_lib.sh
	local -a run=(env -i PATH="$PATH" XDG_RUNTIME_DIR="$WORK")
	[ "$MESSENGER" = async+posix ] || run+=("$RUN" --socket "${sockets[$1]}")
	run+=("${@:2}")
	run_or_become "${run[@]}"
}

# configure END: prints the options of Ceph's programs on side 0 or 1.  Without rdma_cm the messenger finds its address by GID.
configure() {
	local gid
	gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' ${addresses[$1]//./ })
	cat <<END
[global]
fsid = 5a5f2a84-3f1a-4d1e-9d5a-0c3b5b8f1a2e
mon_host = [v2:127.0.0.1:3300,v1:127.0.0.1:6789]
ms_type = $MESSENGER
ms_async_rdma_device_name = p0
ms_async_rdma_local_gid = $gid
ms_async_rdma_receive_queue_len = 256
ms_async_rdma_send_buffers = 256
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $DIRECTORY
admin_socket = $DIRECTORY/\$name.\$pid.asok
log_file = $DIRECTORY/\$name.log
mon_data = $DIRECTORY/mon
osd_data = $DIRECTORY/osd
osd_objectstore = memstore
memstore_device_bytes = 2147483648
osd_pool_default_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
END
}

client() { # PROGRAM ARGUMENTS...
	on 1 "$1" -c "$DIRECTORY/1.conf" "${@:2}" >"$DIRECTORY/out" 2>&1 || fail "$*: $(tail -n 20 "$DIRECTORY/out" "$DIRECTORY"/*.log)"
}

start_daemon() { # NAME PROGRAM...
	on 0 "${@:2}" -f -c "$DIRECTORY/0.conf" >"$DIRECTORY/$1.out" 2>&1 &
	APPLICATIONS+=("$!")
}

start_cluster() {
	mkdir -p "$DIRECTORY/mon" "$DIRECTORY/osd"
	configure 0 >"$DIRECTORY/0.conf"
	configure 1 >"$DIRECTORY/1.conf"
	on 0 monmaptool --create --fsid 5a5f2a84-3f1a-4d1e-9d5a-0c3b5b8f1a2e --addv a '[v2:127.0.0.1:3300,v1:127.0.0.1:6789]' "$DIRECTORY/monmap" \
		>"$DIRECTORY/out" 2>&1 || fail "monmaptool: $(cat "$DIRECTORY/out")"
	on 0 ceph-authtool --create-keyring "$DIRECTORY/keyring" --gen-key -n mon. --cap mon 'allow *' >"$DIRECTORY/out" 2>&1
	on 0 ceph-mon -i a --mkfs --monmap "$DIRECTORY/monmap" --keyring "$DIRECTORY/keyring" -c "$DIRECTORY/0.conf" >"$DIRECTORY/out" 2>&1 ||
		fail "ceph-mon --mkfs: $(cat "$DIRECTORY/out")"
	start_daemon mon ceph-mon -i a
	client ceph osd new 8f0a5c5c-6f4e-4e0a-9a57-3a0a3f7d1c11
	on 0 ceph-osd -i 0 --mkfs --osd-uuid 8f0a5c5c-6f4e-4e0a-9a57-3a0a3f7d1c11 -c "$DIRECTORY/0.conf" >"$DIRECTORY/out" 2>&1 ||
		fail "ceph-osd --mkfs: $(cat "$DIRECTORY/out")"
	start_daemon osd ceph-osd -i 0
	client ceph osd pool create bench 8 8
}

measure() { # async+rdma|async+posix: prints the rates
	MESSENGER=$1
	DIRECTORY=$WORK/$1
	mkdir "$DIRECTORY"
	start_cluster
	head -c 9000001 /dev/urandom >"$DIRECTORY/object"
	client rados -p bench put object "$DIRECTORY/object"
	client rados -p bench get object "$DIRECTORY/copy"
	[ "$1" = async+posix ] || "$BUILD/control/onesidectl" --socket "$(plane_socket a).ctl" show connections | grep -q ceph-osd ||
		fail "the OSD has no connection by RDMA"
	cmp "$DIRECTORY/object" "$DIRECTORY/copy" || fail "$1: the object differs"
	client rados -p bench bench "$SECONDS_EACH" write -t 8 --no-cleanup
	say "$1: 4 MiB objects written: $(awk '/^Bandwidth/ {print $3}' "$DIRECTORY/out") MB/s"
	client rados -p bench bench "$SECONDS_EACH" seq -t 8
	say "$1: read: $(awk '/^Bandwidth/ {print $3}' "$DIRECTORY/out") MB/s"
	client rados -p bench bench "$SECONDS_EACH" write -t 1 -b 4096
	say "$1: 4 KiB objects written one at a time: $(awk '/^Average Lat/ {print $3}' "$DIRECTORY/out") s"
	end_process "${APPLICATIONS[-1]}" 10
	end_process "${APPLICATIONS[-2]}" 10
}
measure async+rdma
measure async+posix
exit 0

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test the packaged service in a guest, under a real systemd: debian/tests/service, then an upgrade of a running service
# beneath rping and dapltest, and its removal.
#
# The guest's root is a folder in which the packages are installed.
. "$(dirname "$0")/../interop/guest.sh"
. "$(dirname "$0")/packages_lib.sh"
packages_init "$@"
[ "$(uname -m)" = x86_64 ] || skip "the guest is an x86-64 one"
need_root
[ -x /lib/systemd/systemd ] || skip "there is no systemd"
for program in "$PROGRAMS/verbs-operations"; do
	[ -x "$program" ] || skip "there is no $program; install libibverbs-dev and librdmacm-dev, and build again"
done
command -v dapltest >/dev/null || skip "there is no dapltest; install dapl2-utils"
build_guest
make_packages quick
make_root quick
install_packages
mkdir "$WORK/root/packages"
cp -r "$WORK/root/tmp"/{source,*.deb} "$WORK/root/packages"
close_root
make_namespace switch
SWITCH=$NETNS
LIMIT=1500 GUEST_LIFE=3000 GUEST_BOOT=900
start_systemd_guest "$WORK/root"
guest env WATCHDOG=60 bash /packages/source/debian/tests/service || fail "the service"

# An upgrade takes over from a running service and its instances; a removal ends them.
of() { guest systemctl show --value -p "$1" oneside@b; }
pings() { grep -c 'ping data' "$GUEST_RUN/jobs/client.out"; }
# await_pings N: waits for N more pings.
await_pings() {
	local before looks=$((LIMIT * 10))
	before=$(pings)
	until [ "$(pings)" -ge $((before + $1)) ]; do
		[ "$looks" -gt 0 ] && [ ! -e "$GUEST_RUN/jobs/client.rc" ] || fail "rping does not go on: $(tail -n 3 "$GUEST_RUN/jobs/client.out")"
		sleep 0.1
		looks=$((looks - 1))
	done
}
# work: requests that the data plane has taken from dapltest, whose client prints nothing before its end.
work() {
	guest onesidectl --json --socket /run/oneside/b/ctl show clients | /usr/bin/python3 -c 'import json, sys
print(sum(client["work"] for client in json.load(sys.stdin)["clients"] if client["program"] == "dapltest"))'
}
# await_work N: waits for N more requests of dapltest, which compares the data of all.
await_work() {
	local before job looks=$LIMIT
	before=$(work) || fail "onesidectl show clients"
	until [ "$(work)" -ge $((before + $1)) ]; do
		for job in transfers target; do
			[ "$looks" -gt 0 ] && [ ! -e "$GUEST_RUN/jobs/$job.rc" ] || fail "dapltest does not go on: $(guest_output transfers) $(guest_output target)"
		done
		looks=$((looks - 1))
	done
}
# upgraded BEFORE: another process than BEFORE serves, without a restart.
upgraded() {
	local after
	after=$(of MainPID)
	[ "$after" != "$1" ] && [ "$after" != 0 ] || fail "after an upgrade process $after of before $1 runs: $(guest journalctl --no-pager -n 30 -u oneside@b)"
	[ "$(of ActiveState),$(of NRestarts)" = active,0 ] || fail "after an upgrade: $(of ActiveState), $(of NRestarts) restarts"
	await_pings 3
	await_work 30
}
guest install -D -m 644 /usr/share/doc/oneside/examples/take-over.conf -t /etc/systemd/system/oneside@b.service.d
guest systemctl daemon-reload
guest systemctl start oneside@b || fail "the instance"
programs="env ONESIDE_SOCKET=/run/oneside/b/oneside.sock oneside-run rping -a 192.0.2.2"
guest_begin server "$programs -s -P"
until guest "$programs -c -C 1" >"$WORK/out"; do
	[ ! -e "$GUEST_RUN/jobs/server.rc" ] || fail "rping: $(guest_output server)"
done
guest_begin client "$programs -c -v -V"
until [ -s "$GUEST_RUN/jobs/client.out" ]; do sleep 0.1; done
printf 'oneside u2.0 nonthreadsafe default libdaplone.so.2 oneside.2.0 "socket=/run/oneside/b/oneside.sock" ""\n' >"$GUEST_RUN/dat.conf"
dapltest="env DAT_OVERRIDE=/host/dat.conf stdbuf -oL dapltest"
operations="-V client RW 4096 1 server RR 4096 1 client SR 256 1 server SR 256 1"
guest_begin target "$dapltest -T S -D oneside"
until guest_output target | grep -q 'Service Point Ready'; do
	[ ! -e "$GUEST_RUN/jobs/target.rc" ] || fail "dapltest: $(guest_output target)"
	sleep 0.1
done
guest_begin transfers "$dapltest -T T -D oneside -s 192.0.2.2 -i 100000000 $operations"
await_work 30
before=$(of MainPID)
guest dpkg --install /packages/oneside_*.deb >"$WORK/out" || fail "dpkg --install: $(cat "$WORK/out")"
upgraded "$before"
say "an upgrade takes over from what runs"
before=$(of MainPID)
guest systemctl reload oneside@b || fail "it does not reload"
[ "$(of MainPID)" = "$before" ] || fail "a reload without a change ends process $before"
guest sh -c "'cp /usr/bin/oneside-dataplane /usr/bin/new && mv /usr/bin/new /usr/bin/oneside-dataplane'" || fail "no copy"
guest systemctl reload oneside@b || fail "it does not reload"
upgraded "$before"
say "systemctl reload takes over if the file has changed"
guest "$dapltest -T T -D oneside -s 192.0.2.2 -i 20 $operations" >"$WORK/out" || fail "dapltest: $(cat "$WORK/out")"
expect 'End of Work -- Client Exiting' "$WORK/out"
! { cat "$WORK/out"; guest_output transfers; guest_output target; } | grep -Ei 'fail|error|mismatch|unexpected' || fail "dapltest"
say "dapltest's server takes new connections"
# The process that took over is the service's.
before=$(of MainPID)
guest kill -9 "$before"
until [ "$(of MainPID)" != "$before" ] && [ "$(of ActiveState)" = active ]; do sleep 1; done
[ "$(of NRestarts)" = 1 ] || fail "$(of NRestarts) restarts instead of 1"
say "the process that took over restarts when it is killed"
guest dpkg --remove oneside >"$WORK/out" || fail "dpkg --remove: $(cat "$WORK/out")"
[ -z "$(guest pgrep oneside-datapla)" ] || fail "a data plane outlives its package"
say "a removal ends what runs"
stop_guest

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test the packaged service in a guest, under a real systemd: debian/tests/service, then an upgrade and a removal of a
# running service.
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

# An upgrade restarts a running service and its instances; a removal ends them.
guest systemctl start oneside@b || fail "the instance"
before=$(guest systemctl show --value -p MainPID oneside@b)
guest dpkg --install /packages/oneside_*.deb >"$WORK/out" || fail "dpkg --install: $(cat "$WORK/out")"
after=$(guest systemctl show --value -p MainPID oneside@b)
[ "$after" != "$before" ] && [ "$after" != 0 ] || fail "after an upgrade process $after of before $before runs"
say "an upgrade restarts what runs"
guest dpkg --remove oneside >"$WORK/out" || fail "dpkg --remove: $(cat "$WORK/out")"
[ -z "$(guest pgrep oneside-datapla)" ] || fail "a data plane outlives its package"
say "a removal ends what runs"
stop_guest

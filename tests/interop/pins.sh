#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Register memory that the kernel or a device uses, on the guest's kernel, which is older than UFFDIO_MOVE: the unit test,
# then the verbs program with a data plane in the guest.
#
#   pins.sh ROUNDS

. "$(dirname "$0")/guest.sh"
net_init
[ "$(uname -m)" = x86_64 ] || skip "the guest is an x86-64 one"
need_root
[ -x "$BUILD/tests/net/net-verbs-pins" ] || skip "there is no net-verbs-pins; install libibverbs-dev"
case $BUILD in
/tmp/* | /var/tmp/* | /run/*) skip "the guest has a /tmp, /var/tmp and /run of its own, and does not see $BUILD" ;;
esac
build_guest
make_namespace switch
SWITCH=$NETNS
LIMIT=6000 GUEST_LIFE=6900
start_disk_guest 2 1536

# inside NAME=VALUE... PROGRAM ARGUMENTS...: runs a program of the host's files in the guest
inside() { guest chroot /hostroot /usr/bin/env PATH=/usr/sbin:/usr/bin BUILD="$BUILD" "$@"; }
memory=$(realpath "$(dirname "$0")/../net/memory.sh")

for how in --kept --nobody; do
	inside PIN_ROUNDS="$1" "$BUILD/tests/unit/adopt/test_pins" $how || fail "memory that is pinned, $how"
	say "$how: $SECONDS seconds since the start"
done
inside PLANE_MEMORY="'--no-huge -m 128'" bash "$memory" local pins "$1" || fail "memory that is pinned, with a data plane"
say "with a data plane: $SECONDS seconds since the start"
stop_guest

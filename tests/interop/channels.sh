#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run tests/net/channels.sh in a guest, whose root may raise the limit of descriptors. On this machine the hard limit may
# leave a data plane too few for COUNT channels of one user.
#
#   channels.sh COUNT
. "$(dirname "$0")/guest.sh"
net_init
interop_init
[ -e "$BUILD/tests/net/net-verbs-channels" ] || skip "libibverbs-dev is missing"
make_namespace switch
SWITCH=$NETNS
LIMIT=1200 GUEST_LIFE=1500
start_rdma_guest 2 1280
guest mount -t tmpfs tmp /hostroot/tmp || fail "the guest has no /tmp"
guest ln -s /proc/self/fd /dev/fd || fail "the guest has no /dev/fd, which bash needs"
guest chroot /hostroot /usr/bin/env "BUILD=$BUILD" "DATAPLANE=$DATAPLANE" "PLANE_MEMORY=--no-huge\\ -m\\ 256" NO_SKIP=1 \
	/bin/bash "$(realpath "$(dirname "$0")/../net/channels.sh")" "$1" || fail "channels in the guest"
stop_guest

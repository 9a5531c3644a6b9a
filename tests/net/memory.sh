#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Test each kind of memory that programs register, and memory that a device or the kernel uses:
#
#   memory.sh local kinds    uDAPL and verbs on one data plane; with hugepages and a hugetlbfs if they are available
#   memory.sh memif kinds    on two data planes joined by memif
#   memory.sh local pins N   N rounds in which memory is pinned while it is registered and deregistered

. "$(dirname "$0")/verbs_lib.sh"
PROGRAMS=$BUILD/tests/net
NEEDED=64 # hugepages for files, private and System V memory, and for the copies of each

# The test mounts its own hugetlbfs, in a mount namespace.
if [ "$2" = kinds ] && [ -z "${HUGE_DIR:-}" ]; then
	if [ "$(id -u)" = 0 ] && grep -q hugetlbfs /proc/filesystems; then
		exec unshare -m --propagation private env HUGE_DIR=/mnt bash "$0" "$@"
	fi
	say "left out: files of a hugetlbfs, which needs root"
	HUGE_DIR=
fi
verbs_init "$1"
if [ -n "${HUGE_DIR:-}" ]; then
	export HUGE_DIR
	mount -t hugetlbfs -o pagesize=2M none "$HUGE_DIR" || leave_out "a hugetlbfs cannot be mounted"
	reserve_hugepages "$NEEDED" || leave_out "no $NEEDED hugepages of 2 MiB can be reserved"
fi

case $2 in
kinds)
	export ONESIDE_DEBUG=1
	"$PROGRAMS/net-dat-memory" "${sockets[@]}" || fail "kinds of memory by uDAPL"
	export SHOW_MEMORY="$BUILD/control/onesidectl --socket ${sockets[0]}.ctl show memory --json"
	[ ! -e "$PROGRAMS/net-verbs-memory" ] ||
		"$RUN" --socket "${sockets[0]}" "$PROGRAMS/net-verbs-memory" "${sockets[@]}" kinds seccomp shown ||
		fail "kinds of memory by verbs"
	;;
pins)
	[ -e "$PROGRAMS/net-verbs-pins" ] || skip "libibverbs-dev is missing"
	PIN_ROUNDS=$3 PIN_FILE=/var/tmp/${WORK##*/} "$RUN" --socket "${sockets[0]}" "$PROGRAMS/net-verbs-pins" \
		"${sockets[@]}" ||
		fail "memory that is pinned"
	;;
esac
stop_plane a
[ "$1" = local ] || stop_plane b

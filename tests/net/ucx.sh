#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run the unmodified ucx_perftest of Debian's ucx-utils over rc_verbs and ud_verbs on oneside's libibverbs:
#
#   ucx.sh local    both sides on one data plane
#   ucx.sh memif    on two data planes joined by memif
#   ucx.sh local|memif ud    only over ud_verbs
#
# oneside-run makes UCX allocate buffers that a data plane can map. One conversation of `ud` uses UCX's default instead:
# System V shared memory, with hugepages if there are some. Then each access is bounced, and a burst of datagrams has more
# bounced accesses than are in progress at once.

. "$(dirname "$0")/verbs_lib.sh"
command -v ucx_perftest >/dev/null || skip "ucx_perftest is missing: apt-get install ucx-utils"
verbs_init "$1"
on 0 ucx_info -d >"$WORK/info" 2>&1 || fail "ucx_info"
expect 'Transport: rc_verbs' "$WORK/info"
expect 'Device: p0:1' "$WORK/info"

# perftest NAME OPTIONS...: both sides must succeed, and the client must print the result.
perftest() {
	pair "$1" 13337 ucx_perftest -w 10 "${@:2}"
	expect 'Final:' "$WORK/$1.client"
}

huge_pages() { # succeeds if hugepages are free, or may be allocated on demand
	awk '/^HugePages_Free/ {free = $2} END {exit free == 0}' /proc/meminfo ||
		[ "$(cat /proc/sys/vm/nr_overcommit_hugepages)" != 0 ]
}

if [ "${2:-}" = ud ]; then
	export UCX_TLS=ud_verbs,self UCX_NET_DEVICES=p0:1
	for test in 'am_lat -n 200' 'am_bw -D bcopy -s 4000 -n 500' 'am_bw -D zcopy -s 4000 -n 300'; do
		read -ra options <<<"$test"
		perftest "ud-${options[0]}-${options[2]}" -x ud_verbs -d p0:1 -t "${options[@]}"
	done
	perftest ud_tag_bw -t tag_bw -s 65536 -n 300
	perftest ud_ucp_am -t ucp_am_lat -n 100
	perftest ud_ucp_put -t ucp_put_lat -n 100
	perftest ud_ucp_get -t ucp_get -n 100
	huge_pages || {
		say "no hugepages: nothing is copied"
		exit
	}
	export UCX_UD_VERBS_ALLOC=huge,thp,md,mmap,heap UCX_ALLOC_PRIO=md:sysv,md:posix,huge,thp,md:*,mmap,heap # UCX's defaults
	perftest ud_tag_bw_copied -t tag_bw -s 65536 -n 300
	exit
fi

# UCT uses one transport.
for test in 'am_lat -n 200' 'am_bw -D bcopy -s 4000 -n 500' 'am_bw -D zcopy -s 8000 -n 300' 'put_lat -n 200' \
	'put_bw -D zcopy -s 65536 -n 300' 'get -D bcopy -s 8000 -n 300' 'get -D zcopy -s 100000 -n 300' \
	'fadd -s 8 -n 200' 'cswap -s 8 -n 200'; do
	read -ra options <<<"$test"
	perftest "rc-${options[0]}-${options[2]}" -x rc_verbs -d p0:1 -t "${options[@]}"
done

# UCP connects rc_verbs by ud_verbs.
OPTIONS=(--only-verbs)
perftest tag_lat -t tag_lat -n 100
perftest tag_bw -t tag_bw -s 65536 -n 300
perftest tag_long -t tag_bw -s 1000000 -n 50
perftest ucp_am -t ucp_am_lat -n 100
perftest ucp_put -t ucp_put_lat -n 100
perftest ucp_get -t ucp_get -n 100
UCX_TLS=ud_verbs,self perftest ud_tag_lat -t tag_lat -n 100

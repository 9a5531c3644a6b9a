#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# ucx_perftest of Debian's ucx-utils, as it is, over rc_verbs and ud_verbs on oneside's libibverbs:
#
#   ucx.sh local    both ends on one data plane
#   ucx.sh memif    on two, joined by memif
#   ucx.sh local|memif ud    over ud_verbs alone
#
# oneside-run has it take buffers that a data plane maps; but one conversation of `ud` has those that UCX takes by itself, System V
# shared memory of hugepages where there are some: each message is copied then, and a burst of datagrams is more than is copied at
# once.

. "$(dirname "$0")/verbs_lib.sh"
command -v ucx_perftest >/dev/null || skip "ucx_perftest is missing: apt-get install ucx-utils"
verbs_init "$1"
on 0 ucx_info -d >"$WORK/info" 2>&1 || fail "ucx_info"
expect 'Transport: rc_verbs' "$WORK/info"
expect 'Device: p0:1' "$WORK/info"

# perftest NAME OPTIONS...: both ends succeed, and the client tells the result.
perftest() {
	pair "$1" 13337 ucx_perftest -w 10 "${@:2}"
	expect 'Final:' "$WORK/$1.client"
}

huge_pages() { # those that are free, or that may be had
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
	export UCX_UD_VERBS_ALLOC=huge,thp,md,mmap,heap UCX_ALLOC_PRIO=md:sysv,md:posix,huge,thp,md:*,mmap,heap # its own
	perftest ud_tag_bw_copied -t tag_bw -s 65536 -n 300
	exit
fi

# By UCT, over one transport.
for test in 'am_lat -n 200' 'am_bw -D bcopy -s 4000 -n 500' 'am_bw -D zcopy -s 8000 -n 300' 'put_lat -n 200' \
	'put_bw -D zcopy -s 65536 -n 300' 'get -D bcopy -s 8000 -n 300' 'get -D zcopy -s 100000 -n 300' \
	'fadd -s 8 -n 200' 'cswap -s 8 -n 200'; do
	read -ra options <<<"$test"
	perftest "rc-${options[0]}-${options[2]}" -x rc_verbs -d p0:1 -t "${options[@]}"
done

# By UCP, which connects rc_verbs by ud_verbs.
OPTIONS=(--only-verbs)
perftest tag_lat -t tag_lat -n 100
perftest tag_bw -t tag_bw -s 65536 -n 300
perftest tag_long -t tag_bw -s 1000000 -n 50
perftest ucp_am -t ucp_am_lat -n 100
perftest ucp_put -t ucp_put_lat -n 100
perftest ucp_get -t ucp_get -n 100
UCX_TLS=ud_verbs,self perftest ud_tag_lat -t tag_lat -n 100

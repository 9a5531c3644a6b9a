#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run all of rdma-core's own tests, unmodified from Debian (python3-pyverbs), on oneside's libibverbs and librdmacm. No
# test may fail, or be skipped for a reason not listed below, and at least MUST_PASS tests must pass.

. "$(dirname "$0")/lib.sh"
TESTS=/usr/share/doc/rdma-core/tests
PYTHON=/usr/bin/python3 # Debian's, which has the modules
MUST_PASS=90            # some tests request random features, and are skipped if these are missing
"$PYTHON" -c 'import pyverbs.device' 2>/dev/null || skip "pyverbs is missing: apt-get install python3-pyverbs"
[ -e "$TESTS/run_tests.py" ] || skip "$TESTS is missing: its package was installed without documentation"
RUN=$BUILD/api/verbs/oneside-run
[ -e "$BUILD/api/verbs/libibverbs.so.1" ] || fail "libibverbs is not built: apt-get install libibverbs-dev"
net_init

# Permitted reasons to skip a test, as regular expressions; doc/verbs.md has the numbers.
cat >"$WORK/reasons" <<'END'
There are no huge pages of size
Can not run the test over non (MLX5|EFA) device
Could not open mlx5 context \(This is not an MLX5 device\)
PCI device must be passed by the user
cuda-python .* must be installed to run CUDA tests
Allocating dmabuf is not supported by
ODP is not supported - No ODP caps
Device memory is not supported
Multicast is not supported on this device
Create XRCD is not supported
Create (UC|Raw Packet) QP with(out)? (extended )?attrs is not supported
Create QP type 8 is not supported
Extended QP is not supported on this device
Create Extended CQ is not supported
Extended CQ is not supported
Converting timestamp to nanoseconds is not supported
Importing a device is not supported
All gid indices populated, cannot check bad flow
END

cp -r "$TESTS" "$WORK/tests" && gunzip -f "$WORK"/tests/*.gz || fail "no copy of $TESTS"
[ "$(allowed_cpus | wc -l)" -ge 4 ] || PLANE_IDLE=${PLANE_IDLE:-sleep}
start_memif_pair # with a peer, so that the port's link is up
# Tests of rdma_cm need a kernel interface behind the device, and its address.
cat >"$WORK/inside" <<'END'
mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/p0/device/net/oneside-p0 &&
	ip link add oneside-p0 type veth && ip addr add 192.0.2.1/24 dev oneside-p0 && exec "$@"
END
run_tests() { # TEST...
	(cd "$WORK/tests" && unshare --mount --net sh "$WORK/inside" "$RUN" --socket "$(plane_socket a)" "$PYTHON" run_tests.py -v --dev p0 --gid 0 "$@")
}

if ! run_tests >"$WORK/out" 2>&1; then
	# test_resize_cq posts requests, and expects their completions before it resizes, which fails at times if processors
	# are shared: repeat it.
	late=tests.test_cq.CQTest.test_resize_cq tries=20
	[ "$(grep -cE '^(ERROR|FAIL): ' "$WORK/out")" = 1 ] && grep -qF "FAIL: test_resize_cq ($late)" "$WORK/out" || tries=0
	until [ "$tries" -gt 0 ] && run_tests "$late" >"$WORK/late" 2>&1; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || {
			tail -n 60 "$WORK/out" >&2
			fail "rdma-core's tests"
		}
	done
fi
passed=$(grep -c '\.\.\. ok$' "$WORK/out")
[ "$passed" -ge "$MUST_PASS" ] || {
	grep "skipped '" "$WORK/out" >&2
	fail "$passed of rdma-core's tests ran, and $MUST_PASS should"
}
if sed -n "s/.*\.\.\. skipped ['\"]\(.*\)['\"]\$/\1/p" "$WORK/out" | grep -Ev -f "$WORK/reasons" >"$WORK/other"; then
	sort "$WORK/other" | uniq -c >&2
	fail "left out for other reasons"
fi
say "$passed of rdma-core's tests ran, $(grep -c '\.\.\. skipped' "$WORK/out") were left out"

# Test SQD and changed access flags, which rdma-core's tests lack.
"$RUN" --socket "$(plane_socket a)" "$PYTHON" "$(dirname "$0")/sqd.py" || fail "sqd.py"
say "SQD, and changed access flags"

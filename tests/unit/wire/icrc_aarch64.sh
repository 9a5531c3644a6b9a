#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test the ICRC's implementations for aarch64 under an emulator: icrc_aarch64.sh SOURCE_ROOT TEST.c SOURCE...
set -eu
cc=aarch64-linux-gnu-gcc
for tool in $cc qemu-aarch64; do
	if ! command -v $tool >/dev/null; then
		echo "SKIPPED: there is no $tool; install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
		exit 77
	fi
done
root=$1
shift
program=$(mktemp)
trap 'rm -f "$program"' EXIT
$cc -std=gnu11 -O2 -Wall -Wextra -Werror -static -I"$root" "$@" -o "$program"
printed=$(qemu-aarch64 "$program")
echo "$printed"
grep -q '^clmul: tested$' <<<"$printed"

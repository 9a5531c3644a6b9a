#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Follow the tutorials to the letter on an installed tree: each piece of code and each command that they show. The test
# compares stdout and stderr of each command with the tutorial.

. "$(dirname "$0")/../net/lib.sh"
. "$(dirname "$0")/tree.sh"
HERE=$(realpath "$(dirname "$0")")
net_init
installed_tree
export PATH=$TREE/sbin:$TREE/bin:$PATH
unset ONESIDE_SOCKET

for document in "$HERE"/../../doc/tutorial-*.md; do
	case $document in
	*/tutorial-verbs.md)
		command -v oneside-run >/dev/null || {
			leave_out "there is no oneside-run (libibverbs-dev, librdmacm-dev): $(basename "$document")"
			continue
		}
		;;
	esac
	mkdir "$WORK/$(basename "$document" .md)" && cd "$WORK/$(basename "$document" .md)" || fail "no directory"
	python3 "$HERE/tutorial.py" "$document" || fail "$(basename "$document")"
done

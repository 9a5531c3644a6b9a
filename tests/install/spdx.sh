#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Check that each source file names the project's licence, and no other.
cd "$(dirname "$0")/../.." || exit 1
mapfile -d '' -t files < <(find . -path './build*' -prune -o -path ./.git -prune -o -path ./tests/data -prune -o -type f \
	\( -name '*.[ch]' -o -name '*.cc' -o -name '*.py' -o -name '*.sh' -o -name '*.map' -o -name meson.build \
	-o -name meson_options.txt -o -name '*.[1-8]' -o -name '*.3dat' -o -name '*.3rsm' -o -perm -u=x \) -print0)
echo "${#files[@]} files"
[ "${#files[@]}" -gt 500 ] || {
	echo "too few: where are they?" >&2
	exit 1
}
without=$(grep -L 'SPDX-License-Identifier: BSD-3-Clause$\|SPDX-License-Identifier: BSD-3-Clause \*/$' "${files[@]}")
[ -z "$without" ] || {
	printf 'without SPDX-License-Identifier: BSD-3-Clause:\n%s\n' "$without" >&2
	exit 1
}

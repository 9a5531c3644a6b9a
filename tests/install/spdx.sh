#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each source file says its licence within the first lines; other licences than the project's there are none.
cd "$(dirname "$0")/../.." || exit 1
status=0 files=0
while IFS= read -r -d '' file; do
	files=$((files + 1))
	if ! head -n 3 "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause'; then
		echo "$file: no SPDX-License-Identifier: BSD-3-Clause in its first three lines" >&2
		status=1
	fi
done < <(find . -path './build*' -prune -o -path ./.git -prune -o -path ./tests/data -prune -o -type f \
	\( -name '*.[ch]' -o -name '*.cc' -o -name '*.py' -o -name '*.sh' -o -name '*.map' -o -name 'meson*.build' \
	-o -name meson_options.txt -o -name '*.[1-8]' -o -name '*.3dat' -o -name '*.3rsm' -o -perm -u=x \) -print0)
echo "$files files"
[ "$files" -gt 500 ] || {
	echo "too few: where are they?" >&2
	status=1
}
exit $status

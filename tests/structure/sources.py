#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the layout of the code and that comments name files that exist, and advises on long files and on long
headers that many sources include.

    sources.py            checks the product and its tests; exit 1 if the layout is wrong
"""

import collections
import os
import re
import shutil
import subprocess
import sys

FILE_LINES = 800
HUB_LINES = 150   # at most, for a header that
HUB_USERS = 12    # more sources than this include
PRODUCT = ("dataplane/", "control/", "api/", "config/")
# Exempt: ABI and specifications, which are one header each by nature.
HUBS = ("api/abi/", "api/dat/include/", "api/rsm/include/")
INCLUDE = '#include "'
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
NAMED = re.compile(r"(?<![<\w/.-])((?:[\w-]+/)*[a-z][\w-]*\.(?:c|h|md))\b")  # not <linux/fs.h>


def tracked(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "*.c", "*.h"], capture_output=True, text=True)
    return [f for f in listed.stdout.split() if os.path.exists(os.path.join(root, f))]


def included(path, name, files):
    """Returns the header that `path` includes as "name": relative to its folder, the root or api/."""
    near = (os.path.normpath(os.path.join(base, name)) for base in (os.path.dirname(path), "", "api"))
    return next((header for header in near if header in files), name)


def missing(path, text, ends):
    """Yields the files that comments name and that do not exist."""
    for comment in COMMENT.finditer(text):
        for name in NAMED.findall(comment.group()):
            if name not in ends:
                yield f"{path}:{text.count(chr(10), 0, comment.start()) + 1}: names {name}, which does not exist"


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    files, bad, advice = tracked(root), [], []
    if not files:
        print("SKIPPED: not a git checkout")
        return 77
    lines, users, known = {}, collections.Counter(), set(files)
    documents = ("doc/" + name for name in os.listdir(os.path.join(root, "doc")))
    ends = {"/".join(parts[i:]) for parts in (f.split("/") for f in (*files, *documents)) for i in range(len(parts))}
    for path in files:
        with open(os.path.join(root, path), encoding="utf-8") as source:
            whole = source.read()
        if path.startswith(PRODUCT):
            bad += missing(path, whole, ends)
        text = whole.splitlines()
        lines[path] = len(text)
        for line in text:
            if path.startswith(PRODUCT) and line.startswith(INCLUDE):
                users[included(path, line.split('"')[1], known)] += 1
        if len(text) > FILE_LINES:
            advice.append(f"{path}: {len(text)} lines; more than {FILE_LINES} are often two mechanisms")
    for path, count in lines.items():
        hub = path.endswith(".h") and path.startswith(PRODUCT) and not path.startswith(HUBS)
        if hub and count > HUB_LINES and users[path] > HUB_USERS:
            advice.append(f"{path}: {count} lines, included by {users[path]} sources")
    formatter = shutil.which("clang-format-14") or shutil.which("clang-format")
    if formatter is None:
        print("left out: clang-format is not installed")
    else:
        wrong = subprocess.run([formatter, "--dry-run", "-Werror", *files], cwd=root, capture_output=True, text=True)
        named = sorted({line.split(":")[0] for line in wrong.stderr.splitlines() if "clang-format-violations" in line})
        bad += [f"{name}: not as .clang-format has it; clang-format -i {name}" for name in named]
    print("\n".join(f"advice: {text}" for text in advice))
    print("\n".join(bad) or f"{len(files)} files, nothing to mend")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

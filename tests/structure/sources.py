#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Habits that a machine can look after: the length of files, headers that everybody includes, layout of the code.

    sources.py            checks the product and its tests; exit 1 when something is not so
"""

import collections
import os
import shutil
import subprocess
import sys

FILE_LINES = 800
HUB_LINES = 150   # of a header that
HUB_USERS = 12    # more sources than this include
PRODUCT = ("dataplane/", "control/", "api/", "config/")
# ABI and specifications: one page each by nature.
HUBS = ("api/abi/", "api/dat/include/", "api/rsm/include/", "api/client/client.h", "api/rsm/rsm.h")


def tracked(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "*.c", "*.h"], capture_output=True, text=True)
    return [f for f in listed.stdout.split() if os.path.exists(os.path.join(root, f))]


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    files, bad = tracked(root), []
    if not files:
        print("SKIPPED: not a git checkout")
        return 77
    lines, users = {}, collections.Counter()
    for path in files:
        with open(os.path.join(root, path), encoding="utf-8") as source:
            text = source.read().splitlines()
        lines[path] = len(text)
        for line in text:
            if path.startswith(PRODUCT) and line.startswith('#include "'):
                users[os.path.basename(line.split('"')[1])] += 1
        if len(text) > FILE_LINES:
            bad.append(f"{path}: {len(text)} lines; more than {FILE_LINES} are two mechanisms: split it")
    for path, count in lines.items():
        hub = path.endswith(".h") and path.startswith(PRODUCT) and not path.startswith(HUBS)
        if hub and count > HUB_LINES and users[os.path.basename(path)] > HUB_USERS:
            bad.append(f"{path}: {count} lines, included by {users[os.path.basename(path)]}: split it")
    formatter = shutil.which("clang-format-14") or shutil.which("clang-format")
    if formatter is None:
        print("left out: clang-format is not installed")
    else:
        wrong = subprocess.run([formatter, "--dry-run", "-Werror", *files], cwd=root, capture_output=True, text=True)
        named = sorted({line.split(":")[0] for line in wrong.stderr.splitlines() if "clang-format-violations" in line})
        bad += [f"{name}: not as .clang-format has it; clang-format -i {name}" for name in named]
    print("\n".join(bad) or f"{len(files)} files, nothing to say")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

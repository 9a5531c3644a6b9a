#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the files, folders, functions, constants and headings that documents name exist, and the documents that
manual pages name.

    docs.py               checks; prints what is missing; exit 1
"""

import os
import re
import subprocess
import sys

TOPS = ("api/", "config/", "control/", "dataplane/", "doc/", "perf/", "tests/")
QUOTED = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]*)\)")
OURS = re.compile(r"(?:one|engine|rc|wire|mem|cq|qp|loop|client|conn|cm|ranges|cr)_[a-z][a-z0-9_]*(?:\(\))?"
                  r"|(?:ONE|RC|ENGINE|CLIENT|CONN|CM|CORE|KEEP)_[A-Z0-9_]+")
PAGE = re.compile(r"\\fI([\w\\-]+\.md)\\fR")
CODE = re.compile(r"^```c (\S+)\n(.*)$", re.M)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def anchors(text):
    """Yields the anchors of a document's headings, as forges generate them."""
    for heading in re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.M):
        plain = re.sub(r"\]\([^)]*\)", "", heading).lower()
        yield re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    files = [f for f in listed.stdout.split() if os.path.exists(os.path.join(root, f))]
    if not files:
        print("SKIPPED: not a git checkout")
        return 77
    folders = {f[:i + 1] for f in files for i, c in enumerate(f) if c == "/"}
    text, words, missing = {}, set(), []
    for path in files:
        if path.endswith(".md"):
            with open(os.path.join(root, path), encoding="utf-8") as document:
                text[path] = document.read()
            continue
        if path.startswith("doc/man/"):
            with open(os.path.join(root, path), encoding="utf-8") as page:
                named = {name.replace("\\-", "-") for name in PAGE.findall(page.read())}
            missing += [f"{path}: {name}: not in doc/, which is installed" for name in sorted(named) if f"doc/{name}" not in files]
        if path.endswith((".c", ".h", ".py", ".sh", ".build", ".conf", ".3", ".1", ".5", ".8")):
            with open(os.path.join(root, path), encoding="utf-8") as source:
                words.update(re.findall(r"\w+", source.read()))
    bad = missing
    for path, document in text.items():
        bad += [f"{path}: a block of {name} begins with: {line}; begin it with /* {name}" for name, line in CODE.findall(document)
                if not line.startswith(f"/* {name}")]
        for name in QUOTED.findall(document):
            file = name.split()[0].rstrip(".,")
            if file.startswith(TOPS) and "*" not in file and file not in files and file.rstrip("/") + "/" not in folders:
                bad.append(f"{path}: `{name}`: no such file")
            if OURS.fullmatch(name) and name.removesuffix("()") not in words:
                bad.append(f"{path}: `{name}`: no source has this name")
        for link in LINK.findall(document):
            target, _, anchor = link.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if "://" in link:
                continue
            if file not in files and file + "/" not in folders:
                bad.append(f"{path}: ({link}): no such file")
            elif anchor and file in text and anchor not in anchors(text[file]):
                bad.append(f"{path}: ({link}): no such heading")
    print("\n".join(bad) or f"{len(text)} documents, nothing to say")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the rules of doc/style.md that a machine can: openings of comments, words and length of documents, subjects of commits.

Prints each place with the rule that it breaks; exit 1.
"""

import ast
import os
import re
import subprocess
import sys

COMMENT = re.compile(r"/\*(?!\*?/)(.*?)\*/", re.S)
SCRIPT = re.compile(r"\.(?:sh|bash|py|conf|yml|in|rules|supp)$|(?:^|/)meson(?:\.build|_options\.txt)$")
HASH = re.compile(r"(|.*?\s)#(?:\s+(.*))?$")  # code and comment of a line; neither a shebang nor a disabled key
DIRECTIVE = re.compile(r"SPDX-|shellcheck |noqa")
FRAGMENT = re.compile(r"(?:Of|What|Who|Whose|How|As|Another|One|That|Those|The same)\b")
PRONOUN = re.compile(r"(?:It|Its|They|Their|Them|This|These|He|His)\b")

DOCUMENT_WORDS = 2500
ALL_WORDS = 30000
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
CODE = re.compile(r"`[^`\n]+`|\]\([^)]*\)")
PRIVATE = {  # expression: the word of the field
    r"far end|other end of a connection": "peer",
    r"(?:is|are|was|were|be) told": "is notified, is reported",
    r"tells?": "reports, notifies, prints",
    r"by (?:exchanged )?numbers": "out of band",
    r"examiners?": "checker",
    r"parked": "cached",
    r"faces? of": "API, provider",
    r"edges? of (?:a |the )?(?:state|table)": "transition",
    r"so many (?:of|to|that)": "N",
    r"no more than are": "at most N",
    r"believes?d? that|lies about": "processes and cores do not believe or lie",
}
DEFINES_THEM = ("doc/style.md", "doc/glossary.md")

# Commits after this one have subjects by doc/style.md.
SINCE = "6724350f4026"
SUBJECT = re.compile(r"[a-z][\w /,.*-]*: [A-Z]\w*\b")
NOT_IMPERATIVE = re.compile(r": \w+(?:[^s]s|ed|ing)\b")
IMPERATIVE = re.compile(r": (?:Bring|Embed|Exceed|Feed|Focus|Need|Bias|Proceed|Seed|Shed|Speed|Succeed|String|Alias|Canvas)\b")


def git(root, *arguments):
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def c_comments(text):
    for match in COMMENT.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, re.sub(r"^[\s*]+", "", match[1])


def script_comments(text):
    """Yields the first line of each block of lines with "#", and each comment after code."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        match = HASH.match(line)
        comment = match[2] or "" if match else ""
        whole, directive = bool(match) and not match[1].strip(), DIRECTIVE.match(comment)
        if comment and not directive and not (inside and whole):
            yield number, comment
        inside = whole and not directive and (inside or bool(comment))


def docstrings(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node)


def is_script(root, path):
    """Whether the file has comments with "#", by its name or its shebang."""
    if SCRIPT.search(path) or path.startswith("tests/data/"):
        return not path.startswith("tests/data/")
    with open(os.path.join(root, path), "rb") as file:
        return file.read(2) == b"#!"


def comments(root, files):
    for path in files:
        found = []
        if path.endswith((".c", ".h")):
            found = [*c_comments(read(root, path))]
        elif is_script(root, path):
            text = read(root, path)
            python = path.endswith(".py") or "python" in text.split("\n", 1)[0]
            found = [*script_comments(text), *(docstrings(text) if python else ())]
        for line, comment in found:
            rule = "a fragment" if FRAGMENT.match(comment) else "a pronoun" if PRONOUN.match(comment) else None
            if rule:
                yield f"{path}:{line}: a comment opens with {rule}"


def documents(root, files):
    """Yields documents that break a limit; words are counted as by `wc -w`, code and tables included."""
    paths = [p for p in files if p.endswith(".md") and not p.startswith("tests/data/")]
    count = {path: len(read(root, path).split()) for path in paths}
    yield from (f"{path}: {n} words; a document has at most {DOCUMENT_WORDS}" for path, n in count.items() if n > DOCUMENT_WORDS)
    if sum(count.values()) > ALL_WORDS:
        yield f"all documents have {sum(count.values())} words, at most {ALL_WORDS}; the longest: " + \
            ", ".join(f"{p} {n}" for p, n in sorted(count.items(), key=lambda x: -x[1])[:5])
    for path in paths:
        prose = CODE.sub("", FENCE.sub(lambda block: "\n" * block[0].count("\n"), read(root, path)))
        for private, proper in PRIVATE.items() if path not in DEFINES_THEM else ():
            yield from (f"{path}:{prose.count(chr(10), 0, m.start()) + 1}: \"{m[0]}\": {proper}"
                        for m in re.finditer(rf"\b(?:{private})\b", prose))


def subjects(root):
    log = git(root, "log", "--no-merges", "--format=%h%x00%s%x00%b%x01", f"{SINCE}..HEAD")
    for entry in (log or "").split("\x01"):
        if not entry.strip():
            continue
        commit, subject, body = entry.strip().split("\0")
        if len(subject) > 60 or not SUBJECT.match(subject):
            yield f"commit {commit}: \"{subject}\": not \"area: Verb object\" of at most 60 characters"
        elif NOT_IMPERATIVE.search(subject) and not IMPERATIVE.search(subject):
            yield f"commit {commit}: \"{subject}\": the verb is not an imperative"
        if not body.strip():
            yield f"commit {commit}: \"{subject}\": no body says why"


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    listed = git(root, "ls-files", "-co", "--exclude-standard")
    files = [f for f in (listed or "").split() if os.path.exists(os.path.join(root, f))]
    if not files:
        print("SKIPPED: not a git checkout")
        return 77
    bad = [*comments(root, files), *documents(root, files), *subjects(root)]
    print("\n".join(bad) or "nothing to say")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a machine can check of doc/style.md: openings of comments, words and length of documents, subjects of commits.

Prints each place with the rule that it breaks; exit 1.
"""

import os
import re
import subprocess
import sys

COMMENT = re.compile(r"/\*(?!\*?/)(.*?)\*/", re.S)
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


def openings(text):
    """(line, rule) of each comment that opens as none should."""
    for match in COMMENT.finditer(text):
        comment = re.sub(r"^[\s*]+", "", match[1])
        rule = "a fragment" if FRAGMENT.match(comment) else "a pronoun" if PRONOUN.match(comment) else None
        if rule:
            yield text.count("\n", 0, match.start()) + 1, rule


def comments(root, files):
    for path in files:
        if path.endswith((".c", ".h")):
            yield from (f"{path}:{line}: a comment opens with {rule}" for line, rule in openings(read(root, path)))


def documents(root, files):
    """What breaks a rule for documents; words are those of `wc -w`, in code and tables, too."""
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

# SPDX-License-Identifier: Apache-2.0
"""Which sentences can a verdict print, and which tests provoke them?

Sentences are the format strings that src/compare hands to findings, notes and reasons, those of the
verdict's report, and those with which the commands that give verdicts (check, diff, zoom, isolate,
significant) put theirs together. A test provokes one when what it expects holds the sentence: the
parts between its conversions stand, in order, in one line of an expectation; or the longest of them
does, or six of ten of its words in a row.

    python tests/truth/sentences.py        # table: sentence, place, test
"""

import math
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRINTS = ("tw_buf_printf", "tw_buf_puts")
# files of the verdict's words, and the calls whose strings are printed; EVERY: each string is, but
# for those handed to a call of NOT_A_VERDICT
EVERY = ("",)
SOURCES = {
    "src/compare/*.c": (
        "tw_cmp_unseen",
        "tw_cmp_note",
        "tw_cmp_text",
        "tw_cmp_copy",
        "tw_texts_add",
        *PRINTS,
    ),
    "src/report/verdict/text.c": PRINTS,
    "src/report/verdict/range.c": PRINTS,
    "src/report/verdict/wording.c": PRINTS,
    "src/report/verdict/next.c": EVERY,
    "src/report/isolation/isolate_words.c": EVERY,
    "src/isolate/search_*.c": EVERY,
    "src/isolate/confirm.c": EVERY,
    "src/isolate/effects.c": EVERY,
    "cmd/check.c": EVERY,
    "cmd/check_*.c": EVERY,
    "src/trial/check_*.c": EVERY,
    "src/trial/remote_said.c": EVERY,
    "src/provenance/parity*.c": PRINTS,
    "src/isolate/check_clock.c": EVERY,
    "cmd/diff.c": EVERY,
    "cmd/zoom*.c": EVERY,
    "src/trial/zoom_runs.c": EVERY,
    "src/trial/series.c": EVERY,
    "src/sign/bytes.c": EVERY,
    "cmd/isolate*.c": EVERY,
    "src/report/isolation/isolate_r*.c": EVERY,
    "src/report/isolation/isolate_claims.c": EVERY,
    "cmd/significant.c": EVERY,
    "src/study/significant_*.c": EVERY,
    "src/report/study/significant_*.c": EVERY,
}
# Complaints, progress, names of fields: they stand beside a verdict, not in it.
NOT_A_VERDICT = (
    "twin_error_set",
    "tw_bad_use",
    "tw_trouble",
    "tw_say",
    "tw_front_say",
    "tw_front_trouble",
    "no_memory",
    "tw_no_memory",
    "json_pack",
    "json_object_set_new",
    "sscanf",
    "strncmp",
    "memmem",
    "tw_starts",
)
TITLES = re.compile(r"\.(?:title|message) = ")
# C that holds no words of a verdict: comments, tables of options, and a quote as a character
BLANKS = re.compile(
    r"/\*.*?\*/|^#[^\n]*|^(?:static )?const struct tw_(?:option|pair|command)\b.*?^};"
    r"|^static const char \*const synopsis.*?;$|'(?:\\.|\")'",
    re.M | re.S,
)
NO_WORDS = ("baseline_write.c",)  # writes a file for programs
TESTS = ("tests/cli/cases/**/*", "tests/unit/*.c", "tests/agents/*.py", "tests/truth/*.py")
LITERAL = r'"(?:[^"\\]|\\.)*"'
CONVERSION = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:ll|l|z|h)?[a-zA-Z%]")
# What no recording that we could make leads to: it is said all the same, should one come.
GUARDS = (
    # no library of MPI was seen to deliver other bytes than were sent
    "what %.60s was sent from",
    # equal hashes count alike
    "%s: %llu records in %s and %llu in %s, and no difference was found between them",
    # the hashes in the heads of blocks lead to the step itself
    "the value hashes of rank %d diverge in steps before step %u that lie in damaged bytes",
)
LEAST = 12  # letters that a sentence has; less is a unit, a mark or a name


def blank(text, start, end):
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def end_of_call(text, at):
    """Behind the bracket that closes the one before `at`."""
    depth = 1
    while depth and at < len(text):
        literal = re.match(LITERAL, text[at:])
        if not literal:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += literal.end() if literal else 1
    return at


def every_string(text):
    """(position, string) of all literals but those that a verdict does not print."""
    text = BLANKS.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    for call in NOT_A_VERDICT:
        for m in re.finditer(r"\b%s\(" % call, text):
            text = blank(text, m.start(), end_of_call(text, m.end()))
    for m in re.finditer(r"(?:%s\s*)+" % LITERAL, text):
        if not TITLES.search(text[max(m.start() - 12, 0) : m.start()]):
            yield m.start(), "".join(p[1:-1] for p in re.findall(LITERAL, m.group()))


def strings(text, call):
    """(position, string) of the literals in each call of a function, joined as C joins them."""
    if not call:
        yield from every_string(text)
        return
    for m in re.finditer(re.escape(call) + r"\(", text):
        depth, at = 1, m.end()
        while depth and at < len(text):
            literal = re.match(r"(?:%s\s*)+" % LITERAL, text[at:])
            if literal:
                parts = re.findall(LITERAL, literal.group())
                yield at, "".join(p[1:-1] for p in parts)
                at += literal.end()
                continue
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1


def sentences():
    """{sentence: "file:line"} of all that a verdict can say."""
    out = {}
    for pattern, calls in SOURCES.items():
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text() if path.name not in NO_WORDS else ""
            for call in calls:
                for at, s in strings(text, call):
                    words = [w for w in pieces(s) if re.search("[a-z]{2}", w)]
                    if (
                        sum(len(re.findall("[A-Za-z]", w)) for w in words) >= LEAST
                        and " " in s.strip()
                    ):
                        line = text.count("\n", 0, at) + 1
                        out.setdefault(s, "%s:%d" % (path.relative_to(ROOT), line))
    return out


def pieces(sentence):
    """What stands between the conversions of a sentence, as it is printed."""
    plain = sentence.replace('\\"', '"').replace("\\n", " ").replace("%%", "%")
    return [p for p in CONVERSION.split(plain) if p.strip()]


class Expectations:
    """The texts of all tests, by file, with line breaks of wrapped output taken out."""

    def __init__(self):
        self.text = {}
        for pattern in TESTS:
            for path in sorted(ROOT.glob(pattern)):
                if path.is_file() and path.name not in ("sentences.py",):
                    raw = path.read_text(errors="replace")
                    raw = re.sub(r'"\s*\n\s*"', "", raw).replace('\\"', '"').replace("\\n", " ")
                    self.text[path.relative_to(ROOT).as_posix()] = re.sub(r"\s+", " ", raw)

    def provoke(self, sentence):
        """The first test whose expectations hold the sentence, or None."""
        parts = [re.escape(re.sub(r"\s+", " ", p).strip(" ")) for p in pieces(sentence)]
        parts = [p for p in parts if len(p) > 2]
        pattern = re.compile(".{0,300}?".join(parts))
        for name, text in self.text.items():
            if pattern.search(text):
                return name
        return self.by_part(sentence)

    def by_part(self, sentence):
        """Tests quote parts of sentences: the longest piece as a whole, or six of ten words in a
        row.
        """
        every = [re.sub(r"\s+", " ", p).strip() for p in pieces(sentence)]
        words = [p.split(" ") for p in every]
        least = math.ceil(0.6 * sum(map(len, words)))
        parts = {max(every, key=len)}
        for w in words:
            parts |= {" ".join(w[k : k + least]) for k in range(len(w) - least + 1)}
        for part in (p for p in parts if len(p) >= LEAST):
            for name, text in self.text.items():
                if part in text:
                    return name
        return None


def table():
    """[(sentence, place, test or None)]"""
    tests = Expectations()
    return [(s, place, tests.provoke(s)) for s, place in sentences().items() if s not in GUARDS]


def main():
    rows = table()
    for s, place, test in sorted(rows, key=lambda r: (r[2] is not None, r[1])):
        print("%-34s %-50s %s" % (place, test or "-", s[:140]))
    missing = [s for s, _, test in rows if test is None]
    print("%d sentences, %d without a test" % (len(rows), len(missing)))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

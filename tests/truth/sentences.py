# SPDX-License-Identifier: Apache-2.0
"""Which sentences can a verdict print, and which tests provoke them?

Sentences are the format strings that src/compare hands to findings, notes and reasons, and those of
the verdict's report. A test provokes one when what it expects holds the sentence's words: the parts
between its conversions stand, in order, in one line of an expectation.

    python tests/truth/sentences.py        # table: sentence, place, test
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# files of the verdict's words, and the calls whose strings are printed
SOURCES = {
    "src/compare/*.c": (
        "tw_cmp_unseen",
        "tw_cmp_note",
        "tw_cmp_text",
        "tw_cmp_copy",
        "tw_texts_add",
        "tw_buf_printf",
        "tw_buf_puts",
    ),
    "src/report/text.c": ("tw_buf_printf", "tw_buf_puts"),
    "src/report/range.c": ("tw_buf_printf", "tw_buf_puts"),
    "src/report/wording.c": ("tw_buf_printf", "tw_buf_puts"),
}
NO_WORDS = ("baseline_write.c",)  # writes a file for programs
TESTS = ("tests/cli/cases/**/*", "tests/unit/*.c", "tests/agents/*.py", "tests/truth/*.py")
LITERAL = r'"(?:[^"\\]|\\.)*"'
CONVERSION = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:ll|l|z|h)?[a-zA-Z%]")
LEAST = 12  # letters that a sentence has; less is a unit, a mark or a name


def strings(text, call):
    """(position, string) of the literals in each call of a function, joined as C joins them."""
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
                    raw = re.sub(r'"\s*\n\s*"', "", raw).replace('\\"', '"')
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
        """Tests quote parts of sentences: four words in a row are enough."""
        for piece in pieces(sentence):
            words = re.sub(r"\s+", " ", piece).strip().split(" ")
            least = min(4, len(words))
            for k in range(len(words) - least + 1):
                part = " ".join(words[k : k + least])
                if len(part) < LEAST:
                    continue
                for name, text in self.text.items():
                    if part in text:
                        return name
        return None


def table():
    """[(sentence, place, test or None)]"""
    tests = Expectations()
    return [(s, place, tests.provoke(s)) for s, place in sentences().items()]


def main():
    rows = table()
    for s, place, test in sorted(rows, key=lambda r: (r[2] is not None, r[1])):
        print("%-34s %-50s %s" % (place, test or "-", s[:140]))
    missing = [s for s, _, test in rows if test is None]
    print("%d sentences, %d without a test" % (len(rows), len(missing)))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

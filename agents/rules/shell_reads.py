"""What known file commands only read: the words that name files. Pure.

The table knows which options take a value, so that a number or a separator is not taken for a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agents.rules.shell_options import after, take_apart
from agents.rules.shell_syntax import SimpleCommand
from agents.rules.shell_words import Word, made_of

Places = Iterator[tuple[Word, bool]]
"""Words that name places, and whether they are written."""
Reader = Callable[[SimpleCommand], Places]


def _files(valued: str = "", long_valued: tuple[str, ...] = (), most: int | None = None) -> Reader:
    """All operands are files, or the first `most`."""

    def places(command: SimpleCommand) -> Places:
        for word in take_apart(command.words, valued, long_valued).operands[:most]:
            if word.text != "-":
                yield word, False

    return places


def _after_expression(
    valued: str,
    given_by: tuple[str, ...],
    from_file: tuple[str, ...],
    long_valued: tuple[str, ...] = (),
    needless: str = "",
) -> Reader:
    """The first operand is a pattern or a program, unless an option gives it (or makes it `needless`); the
    others are files."""

    def places(command: SimpleCommand) -> Places:
        options = take_apart(command.words, valued, (*given_by, *from_file, *long_valued))
        for word in options.all(*from_file):
            yield word, False
        for word in options.operands[0 if options.has(*given_by, *from_file, needless) else 1 :]:
            if word.text != "-":
                yield word, False

    return places


def _options(valued: str, *names: str) -> Reader:
    """Only the values of the options `names` are files."""

    def places(command: SimpleCommand) -> Places:
        options = take_apart(command.words, valued, tuple(name for name in names if name.startswith("--")))
        for word in options.all(*names):
            yield word, False

    return places


_CURL_BODIES = ("-d", "--data", "--data-binary", "--data-ascii", "--data-urlencode", "--json", "-F", "--form")
_CURL_FILES = ("-T", "--upload-file", "-K", "--config", "-E", "--cert", "--key", "-b", "--cookie")


def _curl(command: SimpleCommand) -> Places:
    """Uploaded files, and `@file` (or `name=@file`) in what is sent."""
    options = take_apart(command.words, "oHXdFuAbcDemrTxYyzKE", (*_CURL_BODIES, *_CURL_FILES))
    for word in options.all(*_CURL_FILES):
        yield word, False
    for word in options.all(*_CURL_BODIES):
        for text in (word.spelt, word.spelt.partition("=")[2]):
            if text.startswith(("@", "<")):
                spelt = text[1:].partition(";")[0]
                yield made_of(spelt, spelt), False


def _xargs(command: SimpleCommand) -> Places:
    """`-a FILE`, in front of the command that is run."""
    words = command.words
    for index, word in enumerate(words[1:], start=1):
        if word.spelt.startswith("--arg-file="):
            yield after(word, len("--arg-file=")), False
        elif word.text in ("-a", "--arg-file") and index + 1 < len(words):
            yield words[index + 1], False
        elif not word.spelt.startswith("-"):
            return


_GREP = _after_expression(
    "efmABCdD",
    ("-e", "--regexp"),
    ("-f", "--file"),
    ("--max-count", "--after-context", "--before-context", "--context", "--include", "--exclude"),
)
_RIPGREP = _after_expression(
    "efmABCgtTMEjr",
    ("-e", "--regexp"),
    ("-f", "--file"),
    ("--glob", "--type", "--max-count", "--context", "--sort", "--replace", "--max-depth"),
    needless="--files",
)
_AWK = _after_expression("fFvE", (), ("-f", "--file", "-E"), ("--assign", "--field-separator"))
_CHECKSUM = _files()
_PAGER = _files("bhjkopPtTxyzDn", ("--lines",))

READERS: dict[str, Reader] = {
    "cat": _files(),
    "tac": _files("s", ("--separator",)),
    "rev": _files(),
    "head": _files("nc", ("--lines", "--bytes")),
    "tail": _files("ncs", ("--lines", "--bytes", "--pid", "--sleep-interval")),
    **dict.fromkeys(("less", "more", "most"), _PAGER),
    **dict.fromkeys(("bat", "batcat"), _files("lHrm", ("--language", "--line-range", "--style", "--theme"))),
    "nl": _files("bdfhilnsvw"),
    "od": _files("AjNtwS", ("--format", "--address-radix", "--skip-bytes", "--read-bytes")),
    "xxd": _files("closg", most=1),
    **dict.fromkeys(("hexdump", "hd"), _files("efns")),
    "strings": _files("neT", ("--bytes",)),
    **dict.fromkeys(("base64", "base32"), _files("w", ("--wrap",))),
    **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"), _CHECKSUM),
    **dict.fromkeys(("b2sum", "cksum", "sum"), _CHECKSUM),
    "wc": _files(),
    "sort": _files("oktST", ("--output", "--key", "--field-separator", "--buffer-size")),
    "uniq": _files("fsw", most=1),
    "cut": _files("dfbc", ("--delimiter", "--fields", "--bytes", "--characters", "--output-delimiter")),
    "paste": _files("d", ("--delimiters",)),
    "join": _files("t12ejoav"),
    "column": _files("scotNOTRWHEdln"),
    **dict.fromkeys(("fold", "fmt"), _files("w", ("--width",))),
    **dict.fromkeys(("expand", "unexpand"), _files("t", ("--tabs",))),
    "shuf": _files("nio", ("--head-count", "--input-range", "--output")),
    "split": _files("abClnt", most=1),
    "iconv": _files("fto", ("--from-code", "--to-code", "--output")),
    **dict.fromkeys(
        ("diff", "sdiff", "colordiff"), _files("UCIxXSFWD", ("--unified", "--context", "--exclude"))
    ),
    "cmp": _files("ins"),
    "comm": _files(),
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep"), _GREP),
    "rg": _RIPGREP,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    "jq": _after_expression("fL", (), ("-f", "--from-file")),
    **dict.fromkeys(("zcat", "bzcat", "xzcat", "zstdcat", "zless"), _files()),
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "xz", "zstd"), _files("S")),
    "zip": lambda command: iter(list(_files()(command))[1:]),
    "source": _files(most=1),
    ".": _files(most=1),
    "curl": _curl,
    "wget": _options("OPoeiUTt", "--post-file", "--body-file", "-i", "--input-file"),
    "xargs": _xargs,
}
"""By the command's base name."""

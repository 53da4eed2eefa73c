"""Single-line mutations of C++ text, as `mutations(path, text)` finds them.

The text is not parsed. Comments and the contents of literals are blanked first, so that no
operator matches there. Some mutations still do not compile; the caller must handle them.
"""

import dataclasses
import hashlib
import pathlib
import re


@dataclasses.dataclass(frozen=True)
class Mutation:
    path: str
    line: int  # from 0
    operator: str
    before: str
    after: str
    id: str

    def apply(self, text):
        lines = text.split("\n")
        assert lines[self.line] == self.before, f"{self.id} is of another version of {self.path}"
        lines[self.line] = self.after
        return "\n".join(lines)

    def diff(self):
        return f"{self.path}:{self.line + 1}\n-{self.before}\n+{self.after}"


_LITERAL_OR_COMMENT = re.compile(r'R"\((?:.|\n)*?\)"|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'')
# A digit separator does not begin a character literal.
_SEPARATOR = re.compile(r"(?<=\d)'(?=\d)")


def masked(text):
    """The text with comments and the contents of literals blanked; every column keeps its place."""
    def blank(match):
        found = match.group(0)
        inside = re.sub(r"[^\n]", " ", found)
        return f"{found[0]}{inside[1:-1]}{found[-1]}" if found[0] in "\"'" else inside
    return _LITERAL_OR_COMMENT.sub(blank, _SEPARATOR.sub("_", text))


# Lines that decide nothing: invariant checks that no test can break, logs, thread names, reserved
# memory, and whatever the compiler computes.
_NO_DECISION = re.compile(r"^\s*(#|using |template|static_assert|DP_CHECK|Log\(|LogRank\(|namespace|friend |pthread_setname_np)"
                          r"|\boperator\b|(\.|->)reserve\(")
_STATEMENT = r"^(?P<indent>\s*)(?P<body>{})(?P<end>;\s*)$"
_OBJECT = r"(?:\(void\))?\*?[A-Za-z_][\w:]*(?:\(\))?(?:(?:\.|->)\w+(?:\(\))?|\[[^\]]*\])*"
_CALL = re.compile(_STATEMENT.format(_OBJECT + r"\(.*\)"))
_UPDATE = re.compile(_STATEMENT.format(r"(?:\+\+|--)" + _OBJECT + "|" + _OBJECT + r"(?:\+\+|--| (?:[-+|&*]|)= .*)"))
_GUARD = re.compile(r"^(?P<indent>\s*)if \(.*\) (?:return\b.*|continue|break);\s*$")
_JUMP = re.compile(r"^(?P<indent>\s*)(?:return|continue|break);\s*$")
_RETURN_IF_ERROR = re.compile(r"^(?P<indent>\s*)DP_RETURN_IF_ERROR\((?P<inside>.*)\);\s*$")
_CONDITION = re.compile(r"\b(?:if|while) \(")
# Replacements within a line, by operator: the old text and the new text.
_EXCHANGES = {
    "compare": {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == "},
    "logic": {" && ": " || ", " || ": " && "},
    "off-by-one": {" + 1": " + 0", " - 1": " - 0"},
    "arithmetic": {" + ": " - ", " - ": " + ", "std::min(": "std::max(", "std::max(": "std::min("},
    "boolean": {"true": "false", "false": "true"},
}


def _closing(text, start):
    """The index of the parenthesis that closes the one before `start`; -1 if it is on another
    line."""
    depth = 1
    for index in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return -1


def _balanced(text):
    return text.count("(") == text.count(")") and text.count("{") == text.count("}")


def _drops(raw, code):
    """Yields mutations that drop a statement."""
    for operator, pattern in (("drop-call", _CALL), ("drop-update", _UPDATE)):
        match = pattern.match(code)
        if match and _balanced(code) and not match["body"].startswith(("return", "co_", "DP_", "throw")):
            yield operator, f"{match['indent']};"
    for operator, pattern in (("drop-guard", _GUARD), ("drop-jump", _JUMP)):
        match = pattern.match(code)
        if match and _balanced(code):
            yield operator, f"{match['indent']};"
    match = _RETURN_IF_ERROR.match(code)
    if match:
        yield "ignore-error", f"{match['indent']}(void)({raw[match.start('inside'):match.end('inside')]});"


def _negations(raw, code):
    for match in _CONDITION.finditer(code):
        end = _closing(code, match.end())
        if end == -1:
            continue
        start = code.rfind(";", match.end(), end) + 1 or match.end()  # after `if (init; `
        yield "negate", f"{raw[:start]}!({raw[start:end].strip()}){raw[end:]}"


def _exchanges(raw, code):
    for operator, pairs in _EXCHANGES.items():
        for old, new in pairs.items():
            for match in re.finditer(re.escape(old), code):
                if _takes_part(operator, old, code, match):
                    yield operator, f"{raw[:match.start()]}{new}{raw[match.end():]}"
    for match in re.finditer(r"std::exchange\(", code):
        end = _closing(code, match.end())
        comma = code.rfind(",", match.end(), end)
        if end != -1 and comma != -1:
            yield "drop-reset", f"{raw[:match.start()]}({raw[match.end():comma]}){raw[end + 1:]}"


def _takes_part(operator, old, code, match):
    around = code[max(0, match.start() - 1):match.end() + 1]
    if operator == "boolean":
        return re.fullmatch(rf"\W?{old}\W?", around) is not None
    if operator == "off-by-one":
        return not code[match.end():match.end() + 1].isalnum()
    if old in (" + ", " - "):
        return not re.match(r"1\b", code[match.end():]) and '"' not in code  # + also joins text
    return True


def _identity(path, operator, context, before, after):
    """The identity does not change when other lines of the file change, or when the file moves."""
    digest = hashlib.sha256("\n".join([context, before.strip(), after.strip()]).encode()).hexdigest()[:8]
    return f"{pathlib.PurePath(path).name}:{operator}:{digest}"


def mutations(path, text):
    """All mutations, in order. An identity consists of the file's name, the operator and a hash. The
    hash covers the line, its replacement, and the head of the enclosing function."""
    lines, codes = text.split("\n"), masked(text).split("\n")
    context, seen, found = "", {}, []
    for number, (raw, code) in enumerate(zip(lines, codes)):
        if re.match(r"[A-Za-z].*[({]$|[A-Za-z].*\) (?:const )?\{", code):
            context = raw.strip()
        if _NO_DECISION.search(code) or not code.strip():
            continue
        for operator, after in (*_drops(raw, code), *_negations(raw, code), *_exchanges(raw, code)):
            name = _identity(path, operator, context, raw, after)
            seen[name] = seen.get(name, 0) + 1
            suffix = f".{seen[name]}" if seen[name] > 1 else ""
            found.append(Mutation(path, number, operator, raw, after, name + suffix))
    return found

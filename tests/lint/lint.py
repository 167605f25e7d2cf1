#!/usr/bin/env python3
"""Checks the rules of CONTRIBUTING.md that a machine can check; prints FILE:LINE: [rule] what.

Usage: lint.py [--root FOLDER] [--objects BUILD_FOLDER] [--no-format]
Exit codes: 0 clean, 1 findings, 2 wrong usage.
"""

import argparse
import dataclasses
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cpp_text  # noqa: E402

MAX_LINES = 500
MAX_COLUMNS = 100
MAX_FUNCTION = 69
CPP = (".cpp", ".hpp", ".h", ".c", ".S")
WEB = (".html", ".css", ".js")
CODE = CPP + WEB + (".py", ".sh", ".cmake")
TEXT = CODE + (".md", ".txt", ".json", ".yml")
EXCEPTIONS = "tests/lint/exceptions.txt"

# Libraries report errors as values: they neither print nor end the process.
MAY_PRINT = ("src/cli/", "src/base/check.")
BANNED = (
    (r"\b(?:printf|fprintf|vprintf|vfprintf|puts|putchar|fputs|fputc|perror)\s*\(", "prints"),
    (r"\bstd::(?:cout|cerr|clog)\b", "prints"),
    (r"\bfmt::print\b", "prints"),
    (r"\b(?:exit|_exit|quick_exit|abort|terminate)\s*\(", "ends the process"),
    (r"\bstd::sto(?:i|l|ll|ul|ull|f|d|ld)\s*\(", "throws on bad input: use std::from_chars"),
)
BANNED_ANYWHERE = (
    (r"\b(?:gets|strcpy|strcat|sprintf|vsprintf|strtok|alloca|atoi|atol|atof)\s*\(", "is unsafe"),
)


@dataclasses.dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


class Tree:
    """The files of a checkout: those of git, without what it ignores; else all of the folder."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if listed.returncode == 0 and (self.root / ".git").exists():
            paths = [path for path in listed.stdout.decode().split("\0") if path]
        else:
            paths = [str(path.relative_to(root)) for path in self.root.rglob("*")]
        self.paths = sorted({path for path in paths if (self.root / path).is_file()})
        self._texts = {}

    def text(self, path):
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_bytes().decode("utf-8", "replace")
        return self._texts[path]

    def ending(self, suffixes, under=""):
        return [path for path in self.paths if path.startswith(under)
                and (path.endswith(suffixes) or pathlib.Path(path).name == "CMakeLists.txt"
                     and ".cmake" in suffixes)]


def matches(pattern, text):
    """(line, match) of each match."""
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start()) + 1, match


def read_include_table(tree):
    """{module: patterns} of src/include_table.txt."""
    table = {}
    for line in tree.text("src/include_table.txt").splitlines():
        line = line.split("#")[0].strip()
        if line:
            module, allowed = line.split(":")
            table[module.strip()] = allowed.split()
    return table


def may_include(table, module, target):
    folder = target.split("/")[0]
    if folder == module:
        return True
    for allowed in table[module]:
        if "/" not in allowed and allowed == folder:
            return True
        if "/" in allowed and fnmatch.fnmatch(target, allowed) \
                and target.count("/") == allowed.count("/"):
            return True
    return False


def check_includes(tree):
    table = read_include_table(tree)
    known = set(tree.paths)
    for path in tree.ending(CPP, "src/"):
        parts = path.split("/")
        if len(parts) < 3 or parts[1] not in table:
            yield Finding(path, 1, "include", "lies in no module of src/include_table.txt")
            continue
        code = cpp_text.without_comments(tree.text(path), keep_strings=True)
        for line, match in matches(r'(?m)^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', code):
            target = match.group(1)
            if f"src/{target}" not in known and f"include/{target}" not in known:
                yield Finding(path, line, "include", f"{target} is no path relative to src/")
            elif not may_include(table, parts[1], target):
                yield Finding(path, line, "include", f"{parts[1]} may not include {target}")
    yield from check_module_dependencies(tree, table)


def check_module_dependencies(tree, table):
    path = "src/CMakeLists.txt"
    if path not in tree.paths:
        return
    for line, match in matches(r"orrery_module\((\w+)([^)]*)\)", tree.text(path)):
        module = match.group(1)
        words = re.sub(r"\b(?:LIBS|NO_EXCEPTIONS)\b.*", "", match.group(2).partition("DEPS")[2])
        allowed = {entry.split("/")[0] for entry in table.get(module, [])}
        for dependency in words.split():
            if dependency not in allowed:
                yield Finding(path, line, "include", f"{module} may not depend on {dependency}")


def check_text(tree):
    for path in tree.ending(TEXT):
        if path.startswith(("tests/golden/", "fuzz/seeds/")) or "/data/" in path:
            continue
        text = tree.text(path)
        lines = text.split("\n")
        if text and not text.endswith("\n"):
            yield Finding(path, len(lines), "text", "does not end with a line end")
        is_code = path in tree.ending(CODE)
        if is_code and len(lines) - 1 > MAX_LINES:
            yield Finding(path, MAX_LINES, "file-length", f"{len(lines) - 1} lines")
        for number, line in enumerate(lines, 1):
            if is_code and len(line) > MAX_COLUMNS:
                yield Finding(path, number, "columns", f"{len(line)} columns")
            if not line.isascii():
                yield Finding(path, number, "ascii", "a character outside ASCII")
            if "\t" in line or "\r" in line:
                yield Finding(path, number, "text", "a tab or carriage return")
            if line != line.rstrip():
                yield Finding(path, number, "text", "blanks at the end of the line")


def check_words(tree):
    for path in tree.ending(TEXT):
        if path.startswith("tests/lint/"):
            continue
        text = tree.text(path)
        for line, match in matches(r"\b(?:TODO|FIXME|XXX|HACK)\b", text):
            yield Finding(path, line, "unfinished", match.group())
        machine = r"(?<![\w.~}$])/(?:work|root|home(?!/u(?:ser)?\b))/\w[\w/.-]*"
        for line, match in matches(machine, text):
            yield Finding(path, line, "machine-path", match.group())


def check_functions(tree):
    for path in tree.ending(CPP):
        for function in cpp_text.functions(tree.text(path)):
            if function.length > MAX_FUNCTION:
                yield Finding(path, function.line, "function-length",
                              f"{function.name} has {function.length} lines")


def check_calls(tree):
    for path in tree.ending(CPP, "src/"):
        code = cpp_text.without_comments(tree.text(path))
        banned = BANNED_ANYWHERE + (() if path.startswith(MAY_PRINT) else BANNED)
        for pattern, why in banned:
            for line, match in matches(pattern, code):
                yield Finding(path, line, "call", f"{match.group().strip(' (')} {why}")


def check_web(tree):
    """The chat page shows what models write: no way may lead from a text to markup or code."""
    for path in tree.ending(WEB, "web/"):
        pattern = r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|srcdoc|DOMParser|eval|Function)\b" \
            r"|\bdocument\.write|\.setHTML|createContextualFragment|\b(?:src|href)=\"(?:\w+:|//)"
        for line, match in matches(pattern, tree.text(path)):
            yield Finding(path, line, "web", f"{match.group()} has no place in the chat page")


def check_headers(tree):
    for path in tree.ending((".hpp", ".h")):
        text = tree.text(path)
        if "#pragma once" not in text and not re.search(r"#ifndef \w+\n#define \w+", text):
            yield Finding(path, 1, "header", "has no #pragma once")


def check_tests(tree):
    tests = tree.ending(("_test.cpp",), "tests/")
    tested = {path.split("/")[1] for path in tests}
    with_code = {path.split("/")[1] for path in tree.ending((".cpp",), "src/")}
    for module in sorted(with_code - tested):
        yield Finding(f"src/{module}", 1, "mirror", f"no tests/{module}/*_test.cpp")
    for path in tree.ending(CPP, "tests/"):
        code = cpp_text.without_comments(tree.text(path))
        if re.search(r"(?m)^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(", code) and path not in tests:
            yield Finding(path, 1, "mirror", "holds tests but is not named *_test.cpp")
        for line, _ in matches(r"GTEST_SKIP\(\)\s*;", code):
            yield Finding(path, line, "skip", "skips without saying why")
        for line, match in matches(r"\bDISABLED_\w*", code):
            yield Finding(path, line, "skip", f"{match.group()} never runs")


def check_links(tree):
    for path in tree.ending((".md",)):
        for line, match in matches(r"\]\(([^)#\s]+)[^)]*\)", tree.text(path)):
            target = match.group(1)
            if not re.match(r"\w+:", target) \
                    and not (tree.root / path).parent.joinpath(target).exists():
                yield Finding(path, line, "link", f"{target} does not exist")


def check_objects(build):
    """Weak symbols in a kernel object could carry its instruction set into the baseline's code."""
    objects = [path for path in pathlib.Path(build).rglob("*.o")
               if "unit" in path.name and "orrery_kernels" in str(path)]
    for path in sorted(objects):
        listing = subprocess.run(["nm", "--defined-only", str(path)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, check=False)
        if listing.returncode != 0:
            yield Finding(path.name, 1, "weak-symbol", f"nm: {listing.stderr.strip()}")
        for _, match in matches(r"(?m)^\S+ ([WVu]) (\S+)$", listing.stdout):
            yield Finding(path.name, 1, "weak-symbol", f"{match.group(2)} ({match.group(1)})")


def check_format(tree):
    tool = shutil.which("clang-format-19")
    files = [path for path in tree.ending(CPP) if not path.endswith(".S")]
    if tool is None:
        print("lint: clang-format-19 is not installed, the format is not checked", file=sys.stderr)
        return
    for start in range(0, len(files), 40):
        result = subprocess.run([tool, "--dry-run", *files[start:start + 40]], cwd=tree.root,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                check=False)
        seen = set()
        for _, match in matches(r"(?m)^(\S+?):(\d+):\d+: (?:warning|error): (.*)$", result.stdout):
            if match.group(1) not in seen:
                seen.add(match.group(1))
                yield Finding(match.group(1), int(match.group(2)), "format", "run make format")


def read_exceptions(tree):
    """{(rule, path)} of the exceptions file: "RULE PATH REASON" a line."""
    if EXCEPTIONS not in tree.paths:
        return {}
    exceptions = {}
    for number, line in enumerate(tree.text(EXCEPTIONS).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        rule, path, reason = (line.split(None, 2) + ["", ""])[:3]
        exceptions[rule, path] = (number, reason)
    return exceptions


CHECKS = (check_includes, check_text, check_words, check_functions, check_calls, check_web,
          check_headers, check_tests, check_links)


def lint(root, objects=None, with_format=True):
    tree = Tree(root)
    found = [finding for check in CHECKS for finding in check(tree)]
    if objects:
        found += check_objects(objects)
    if with_format:
        found += check_format(tree)
    exceptions = read_exceptions(tree)
    used = {(finding.rule, finding.path) for finding in found}
    kept = [finding for finding in found if (finding.rule, finding.path) not in exceptions]
    for key, (number, reason) in exceptions.items():
        if not reason:
            kept.append(Finding(EXCEPTIONS, number, "exception", "gives no reason"))
        elif key not in used:
            kept.append(Finding(EXCEPTIONS, number, "exception", "is needed no more"))
    return sorted(kept, key=str)


def main(arguments):
    parser = argparse.ArgumentParser(description="check the style rules of the tree")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--objects", help="build folder whose kernel objects are checked with nm")
    parser.add_argument("--no-format", action="store_true", help="do not run clang-format")
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.root):
        parser.error(f"{options.root} is no folder")
    found = lint(options.root, options.objects, not options.no_format)
    for finding in found:
        print(finding)
    print(f"lint: {len(found)} findings", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

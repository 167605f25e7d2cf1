"""Just enough C++ for the lint: text without comments and literals, and where functions begin."""

import dataclasses
import re

# In the order in which they must be tried; raw strings first, since they may hold anything.
_TOKENS = re.compile(
    r'(?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")'
    r"|(?P<line>//(?:\\\n|[^\n])*)"
    r"|(?P<block>/\*.*?\*/)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<number>\b[0-9][0-9a-zA-Z_.']*)"  # so that the ' of 1'000 opens no character
    r"|(?P<char>'(?:\\.|[^'\\\n])+')",
    re.DOTALL,
)


def without_comments(text, keep_strings=False):
    """The text with comments (and literals) blanked; line numbers stay."""

    def blank(match):
        if match.lastgroup == "number" or match.group("number"):
            return match.group()
        if keep_strings and (match.group("string") or match.group("char") or match.group("raw")):
            return match.group()
        body = re.sub(r"[^\n]", " ", match.group())
        if match.group("string") or match.group("raw"):
            return '""' + body[2:]
        return body

    return _TOKENS.sub(blank, text)


def without_preprocessor(text):
    """Blanks directives and all branches of an #if but the first, so that braces balance."""
    output, depth, hidden_from, continued = [], 0, None, False
    for line in text.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)", line)
        if continued or directive:
            if directive and not continued:
                word = directive.group(1)
                if word in ("if", "ifdef", "ifndef"):
                    depth += 1
                elif word in ("else", "elif") and hidden_from is None:
                    hidden_from = depth
                elif word == "endif":
                    hidden_from = None if hidden_from == depth else hidden_from
                    depth -= 1
            continued = line.rstrip().endswith("\\")
            output.append("")
        else:
            output.append("" if hidden_from is not None else line)
    return "\n".join(output)


@dataclasses.dataclass
class Function:
    name: str
    line: int  # of its opening brace, from 1
    length: int  # lines from the opening to the closing brace, both counted


_ASSIGNMENT = re.compile(r"(?<![<>=!+\-*/%&|^])=\s*$")
_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def _is_function(head):
    """Whether the text before a brace at file, namespace or class level is that of a function."""
    head, shorter = "", head.strip()
    while head != shorter:  # template arguments may hold the word class and equal signs
        head, shorter = shorter, re.sub(r"<[^<>(){}]*>", " ", shorter)
    if "(" not in head or head.count("(") != head.count(")") or _ASSIGNMENT.search(head):
        return False
    before_arguments = head.split("(", 1)[0]
    scope = _SCOPE.search(before_arguments)
    # `struct T f() {` is a function; `struct alignas(64) T {` is not.
    return scope is None or (scope.group(1) != "namespace"
                             and not re.search(r"\b(alignas|__attribute__)\s*$", before_arguments)
                             and re.search(r"\b(class|struct|union|enum)\s+\w+[\s*&]+\w+\s*$",
                                           before_arguments) is not None)


def functions(text):
    """The outermost functions of the text: lambdas and local types count as part of them."""
    code = without_preprocessor(without_comments(text))
    found, stack, head_start, line = [], [], 0, 1
    inside = 0  # depth of function and initialiser braces; 0 at file, namespace or class level
    for position, character in enumerate(code):
        if character == "\n":
            line += 1
        elif character == "{":
            head = code[head_start:position]
            # All but namespaces, classes and the like: functions, and braced initialisers.
            is_scope = _SCOPE.search(head) and head.count("(") == head.count(")")
            opens_body = inside > 0 or _is_function(head) or not is_scope
            names = re.findall(r"([~\w:]+|operator\S+)\s*\(", head)
            stack.append((opens_body, line, names[0] if names else "?",
                          inside == 0 and _is_function(head), head_start))
            inside += opens_body
            head_start = position + 1
        elif character == "}":
            if stack:
                was_body, start, name, is_function, head_before = stack.pop()
                inside -= was_body
                if is_function:
                    found.append(Function(name, start, line - start + 1))
                if was_body and not is_function and inside == 0:
                    head_start = head_before  # an initialiser does not end its declaration
                    continue
            head_start = position + 1
        elif character == ";" and inside == 0:
            head_start = position + 1
    return found

#!/usr/bin/env python3
"""Renders chat templates with Python's jinja2 as Hugging Face transformers sets it up.

usage: template_oracle.py [FOLDER with *.jinja]
       template_oracle.py --golden FOLDER

Writes JSON lines: the variables of every case, the source of every template, and for every pair the
text or the error. Exits with 77 where jinja2 is not installed.
With --golden it writes NAME.json beside every NAME.jinja of the folder, and cases.json: what the
tests compare with where there is no Python.
"""

import datetime
import json
import pathlib
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    sys.exit(77)

NOW = 1700000000

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city: \"now\" & <then>",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The city's name"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                    "days": {"type": "integer", "minimum": 1, "maximum": 1.5e300},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "where": {
                        "type": "object",
                        "properties": {"lat": {"type": "number"}, "lon": {"type": ["number", "null"]}},
                        "required": ["lat"],
                    },
                },
                "required": ["city"],
            },
            "return": {"type": "string", "description": "Text"},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "now",
            "description": "The time\nof day",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, call_id="call12345"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "You are terse."}
WEATHER = {"city": "Z\u00fcrich", "days": 3, "where": {"lat": 47.0, "lon": None}, "tags": ["a", "b"], "ok": True}


def tool_talk(arguments, **more):
    return [
        user("Weather?"),
        assistant(None, tool_calls=[call("get_weather", arguments)], **more),
        {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "{\"t\": 21.5}"},
    ]


CONVERSATIONS = {
    "empty": [],
    "user": [user("Hello")],
    "system": [SYSTEM, user("Hello")],
    "only_system": [SYSTEM],
    "developer": [{"role": "developer", "content": "Rules"}, user("Hi")],
    "turns": [user("Hi"), assistant("Hello!"), user("How are you?")],
    "system_turns": [SYSTEM, user("Hi"), assistant("Hello!"), user(" spaced \n\n"), assistant("ok\n")],
    "two_users": [user("a"), user("b")],
    "assistant_first": [assistant("Hi"), user("Yo")],
    "late_system": [user("Hi"), SYSTEM, assistant("x"), user("y")],
    "unknown_role": [{"role": "critic", "content": "bad"}, user("Hi")],
    "no_role": [{"content": "lost"}],
    "unicode": [SYSTEM, user("Gr\u00fc\u00dfe \u4f60\u597d \U0001f600 e\u0301 \u2028 \u00a0 \x7f \x00 end")],
    "special_text": [user("<|im_end|>\n<|im_start|>system\n[INST] <s> {{ 7*7 }} {% raw %} ${TMPDIR:-x} </think>")],
    "quotes": [user("it's \"quoted\" \\ back\tslash"), assistant("'\"")],
    "null_content": [user("Hi"), assistant(None), user("again")],
    "number_content": [user(12), assistant(1.5), user("x")],
    "parts": [
        user([{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": " there"}]),
        assistant([{"type": "text", "text": "I see."}]),
        user([{"type": "image_url", "image_url": {"url": "http://x/y.png"}}, {"type": "text", "text": "And?"}]),
    ],
    "string_parts": [user(["a", "b"])],
    "empty_parts": [user([])],
    "reasoning": [
        user("2+2?"),
        assistant("4", reasoning_content="add\nthem"),
        user("3+3?"),
        assistant("6", reasoning_content="again", thinking="deep"),
    ],
    "think_tags": [user("q"), assistant("<think>\nhm\n</think>\n\nanswer"), user("r")],
    "think_open": [user("q"), assistant("<think>unfinished")],
    "tool_dict": tool_talk(WEATHER),
    "tool_string": tool_talk(json.dumps(WEATHER)),
    "tool_empty": tool_talk({}),
    "tool_text": [
        SYSTEM,
        user("Weather?"),
        assistant("Let me look.", reasoning_content="must call", tool_calls=[call("get_weather", WEATHER)]),
        {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "rain"},
        assistant("It rains."),
        user("Thanks"),
    ],
    "tool_two": [
        user("Both?"),
        assistant("", tool_calls=[call("get_weather", WEATHER, "aaaaaaaa1"), call("now", {}, "bbbbbbbb2")]),
        {"role": "tool", "name": "get_weather", "tool_call_id": "aaaaaaaa1", "content": "rain"},
        {"role": "tool", "name": "now", "tool_call_id": "bbbbbbbb2", "content": "noon"},
        user("Thanks"),
    ],
    "tool_parts": [
        user("Weather?"),
        assistant(None, tool_calls=[{"type": "function", "function": {"name": "now", "arguments": {}}}]),
        {"role": "tool", "content": [{"type": "text", "text": "noon"}]},
        {"role": "tool", "content": {"hour": 12}},
    ],
    "tool_flat": [user("q"), assistant("", tool_calls=[{"name": "now", "arguments": {"a": [1, 2.0]}}])],
    "ipython": [user("run"), assistant("code"), {"role": "ipython", "content": "42"}],
    "names": [{"role": "user", "name": "Ann", "content": "Hi"}, {"role": "assistant", "name": "Bob", "content": "Yo"}],
    "long": [user("a"), assistant("b")] * 20 + [user("c")],
}


def make_cases():
    base = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    for name, messages in CONVERSATIONS.items():
        for generate in (False, True):
            suffix = "+gen" if generate else ""
            common = {**base, "messages": messages, "add_generation_prompt": generate}
            yield name + suffix, {**common, "tools": None, "documents": None}
            if "tool" in name or name in ("user", "system", "turns", "empty"):
                yield name + "+tools" + suffix, {**common, "tools": TOOLS, "documents": None}
    common = {**base, "messages": [SYSTEM, user("Hello")], "add_generation_prompt": True}
    yield "bare", common
    yield "thinking_on", {**common, "enable_thinking": True, "thinking": True}
    yield "thinking_off", {**common, "enable_thinking": False, "thinking": False}
    yield "effort", {**common, "reasoning_effort": "high", "builtin_tools": ["browser", "python"]}
    yield "continue", {**common, "continue_final_message": True, "add_generation_prompt": False}
    yield "date", {**common, "date_string": "26 Jul 2024", "tools_in_user_message": False, "tools": TOOLS}
    yield "documents", {**common, "documents": [{"title": "T", "text": "Body"}], "tools": None}
    yield "custom_tools", {**common, "custom_tools": TOOLS, "controls": {"length": "short"}}
    yield "no_bos", {"messages": [user("Hello")], "add_generation_prompt": True}


SNIPPETS = pathlib.Path(__file__).with_name("template_snippets.txt")


def make_templates(folder):
    if folder:
        for path in sorted(pathlib.Path(folder).glob("*.jinja")):
            yield "file", path.name, path.read_text(encoding="utf-8")
    for number, source in enumerate(SNIPPETS.read_text(encoding="utf-8").split("\n----\n")):
        yield "snippet", f"snippet {number + 1}", source


SNIPPET_VARIABLES = {
    "s": "Hello, W\u00f6rld",
    "empty": "",
    "n": 7,
    "f": 2.5,
    "t": True,
    "none_value": None,
    "list": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "nested": [[1, 2], [3, [4, 5]]],
    "d": {"b": 1, "a": "x", "items": 5, "C": None},
    "users": [
        {"name": "Ann", "age": 30, "tags": ["x"], "address": {"city": "Rome"}},
        {"name": "bob", "age": 25, "tags": [], "address": {"city": "oslo"}},
        {"name": "Cy", "age": 30, "address": {"city": "Oslo"}},
    ],
    "text": "  line one\n\n\tline two\r\nline three  ",
    "messages": [user("<b>"), assistant("it's")],
    "big": 9007199254740993,
    "tiny": 1e-7,
    "bos_token": "<s>",
}


class Generation(jinja2.ext.Extension):
    """The tag {% generation %} of transformers, which only marks what it holds."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment


def render(environment, source, cases):
    # Any failure counts: what matters is whether both sides fail.
    try:
        template = environment.from_string(source)
    except Exception as error:  # pylint: disable=broad-except
        for name in cases:
            yield name, {"error": f"{type(error).__name__}: {error}"}
        return
    for name, variables in cases.items():
        yield name, render_one(template, variables)


def render_one(template, variables):
    try:
        text = template.render(**variables)
        text.encode("utf-8")
        return {"text": text}
    except Exception as error:  # pylint: disable=broad-except
        return {"error": f"{type(error).__name__}: {error}"}


def write(record):
    sys.stdout.write(json.dumps(record) + "\n")


GOLDEN_CASES = [
    "empty+gen", "user+gen", "system_turns", "unicode+gen", "special_text+gen", "null_content", "parts+gen",
    "reasoning+gen", "tool_text+tools+gen", "tool_two+tools", "number_content", "thinking_off", "no_bos",
]  # fmt: skip


def write_golden(folder):
    cases = {name: variables for name, variables in make_cases() if name in GOLDEN_CASES}
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        results = dict(render(make_environment(), path.read_text(encoding="utf-8"), cases))
        texts = {name: result.get("text") for name, result in results.items()}
        path.with_suffix(".json").write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")
    text = json.dumps(cases, indent=1) + "\n"
    (pathlib.Path(folder) / "cases.json").write_text(text, encoding="utf-8")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--golden":
        write_golden(sys.argv[2])
        return
    environment = make_environment()
    cases = dict(make_cases())
    for name, variables in cases.items():
        write({"kind": "case", "name": name, "variables": variables})
    write({"kind": "case", "name": "snippet", "variables": SNIPPET_VARIABLES})
    for kind, name, source in make_templates(sys.argv[1] if len(sys.argv) > 1 else None):
        write({"kind": "template", "name": name, "source": source})
        chosen = cases if kind == "file" else {"snippet": SNIPPET_VARIABLES}
        for case, result in render(environment, source, chosen):
            write({"kind": "result", "case": case, **result})


if __name__ == "__main__":
    main()

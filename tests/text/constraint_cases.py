#!/usr/bin/env python3
"""Random schemas with instances, or random patterns with texts, and what Python says of them.

Usage: constraint_cases.py schemas|patterns SEED COUNT. A line is
{"schema": ..., "good": [TEXT...], "bad": [TEXT...]}: good ones are written as a model would
(properties in their order, no others), bad ones do not fit by jsonschema; or
{"pattern": ..., "good": ..., "bad": ...} by re.fullmatch. Exit code 77 without jsonschema.
"""

import json
import random
import re
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)

PATTERNS = ["^[a-c]{1,3}$", "^x", "b$", "^(ab|c)+$", "^[^a]*$", "^a?b?c?$", "\\d", "^\\w+-\\d{2}$"]
SAMPLES = ["a", "abc", "x1", "ab", "cc", "bbb", "", "c-12", "xyz b", "a1", "\u00e9t\u00e9",
           "\"q\"\n", "ababc", "\U0001f600"]


class Schemas:
    def __init__(self, rng):
        self.rng = rng
        self.defs = {}

    def pick(self, *options):
        return self.rng.choice(options)

    def string(self):
        kind = self.rng.randrange(5)
        if kind == 0:
            return {"type": "string"}
        if kind == 1:
            low = self.rng.randrange(4)
            return {"type": "string", "minLength": low, "maxLength": low + self.rng.randrange(4)}
        if kind == 2:
            return {"type": "string", "pattern": self.pick(*PATTERNS)}
        if kind == 3:
            return {"enum": self.rng.sample(SAMPLES, 3)}
        return {"type": "string", "pattern": "^[a-c\u00e9]*$", "maxLength": self.rng.randrange(4)}

    def number(self):
        is_int = self.rng.random() < 0.5
        schema = {"type": "integer" if is_int else "number"}

        def bound():
            value = self.rng.choice([0, 1, 9, 10, 99, 100, 120, 1000, self.rng.randrange(2000)])
            value *= self.rng.choice([1, 1, -1])
            is_whole = is_int or self.rng.random() < 0.4
            return value if is_whole else value / self.rng.choice([8, 10, 4])
        if self.rng.random() < 0.6:
            schema[self.pick("minimum", "exclusiveMinimum")] = bound()
        if self.rng.random() < 0.6:
            schema[self.pick("maximum", "exclusiveMaximum")] = bound()
        if not is_int and self.rng.random() < 0.2:
            schema["multipleOf"] = 1
        return schema

    def array(self, depth):
        schema = {"type": "array"}
        if self.rng.random() < 0.4:
            schema["prefixItems"] = [self.any(depth - 1) for _ in range(self.rng.randrange(1, 4))]
            schema["items"] = self.pick(False, self.any(depth - 1))
        elif self.rng.random() < 0.9:
            schema["items"] = self.any(depth - 1)
        if self.rng.random() < 0.5:
            schema["minItems"] = self.rng.randrange(3)
        if self.rng.random() < 0.5:
            schema["maxItems"] = schema.get("minItems", 0) + self.rng.randrange(3)
        return schema

    def object(self, depth, closed=True):
        names = self.rng.sample(["a", "ab", "b", "name", "x y", "\u00e9", "q\"q", ""],
                                self.rng.randrange(4))
        schema = {"type": "object", "properties": {n: self.any(depth - 1) for n in names}}
        schema["required"] = [n for n in names if self.rng.random() < 0.5]
        if closed:
            schema["additionalProperties"] = self.pick(False, False, self.any(depth - 1))
        if not names and closed and self.rng.random() < 0.5:
            schema.update({"additionalProperties": self.any(depth - 1),
                           "maxProperties": self.rng.randrange(3)})
        return schema

    def any(self, depth):
        kind = self.rng.randrange(12 if depth > 0 else 5)
        if kind < 2:
            return self.string()
        if kind < 4:
            return self.number()
        if kind == 4:
            return self.pick({"type": "boolean"}, {"type": "null"}, {"const": {"k": [1, "x"]}},
                             {"type": ["integer", "null"]}, {"enum": [1, "1", None, [2], {"z": 0}]})
        if kind < 7:
            return self.array(depth)
        if kind < 9:
            return self.object(depth)
        if kind == 9:
            return {"anyOf": [self.any(depth - 1) for _ in range(2)]}
        if kind == 10:
            return {"allOf": [self.object(depth - 1, False), self.object(depth - 1, False)],
                    "unevaluatedProperties": False}
        name = "d" + str(len(self.defs))
        self.defs[name] = True
        self.defs[name] = self.any(depth - 1)
        return {"$ref": "#/$defs/" + name}

    def make(self):
        self.defs = {}
        schema = self.any(3)
        if self.defs:
            schema = {**schema, "$defs": self.defs}
        return schema


class Instances:
    """Values of a schema, mostly; jsonschema judges."""

    def __init__(self, rng, root):
        self.rng = rng
        self.defs = root.get("$defs", {})

    def string(self, schema):
        if "maxLength" in schema and "pattern" not in schema:
            n = self.rng.randint(schema.get("minLength", 0), schema["maxLength"])
            return "".join(self.rng.choice("ab\u00e9\"\\\U0001f600 ") for _ in range(n))
        return self.rng.choice(SAMPLES)

    def number(self, schema):
        bounds = [schema[k] for k in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
                  if k in schema]
        near = self.rng.choice(bounds or [0]) + self.rng.choice([0, 1, -1, 5, -5, 90, -90])
        if schema["type"] == "integer" or schema.get("multipleOf") == 1:
            return int(near)
        return round(near + self.rng.choice([0, 0.5, 0.125, -0.25]), 4)

    def any(self, schema):
        if schema is True:
            return self.rng.choice([1, "x", None])
        if schema is False:
            return None
        if "$ref" in schema:
            return self.any(self.defs[schema["$ref"].split("/")[-1]])
        if "anyOf" in schema:
            return self.any(self.rng.choice(schema["anyOf"]))
        if "allOf" in schema:
            out = {}
            for part in schema["allOf"]:
                for key, value in self.any(part).items():
                    out.setdefault(key, value)
            return out
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        kind = schema["type"]
        if isinstance(kind, list):
            kind = self.rng.choice(kind)
        if kind == "string":
            return self.string(schema)
        if kind in ("integer", "number"):
            return self.number({**schema, "type": kind})
        if kind == "boolean":
            return self.rng.random() < 0.5
        if kind == "null":
            return None
        if kind == "array":
            return self.array(schema)
        return self.object(schema)

    def array(self, schema):
        first = schema.get("prefixItems", [])
        low = schema.get("minItems", 0)
        n = self.rng.randint(low, schema.get("maxItems", low + 3))
        rest = schema.get("items", not first)
        if rest is False:
            n = min(n, len(first))
        return [self.any(first[i] if i < len(first) else rest) for i in range(n)]

    def object(self, schema):
        out = {}
        for key, value in schema["properties"].items():
            if key in schema["required"] or self.rng.random() < 0.5:
                out[key] = self.any(value)
        others = schema.get("additionalProperties", False)
        if others is not False and self.rng.random() < 0.5 and schema.get("maxProperties", 1) > 0:
            out["other"] = self.any(others)
        return out

    def broken(self, value):
        """Something else in one place."""
        kind = self.rng.randrange(3)
        if isinstance(value, dict) and value and kind > 0:
            key = self.rng.choice(list(value))
            if kind == 1:
                return {k: v for k, v in value.items() if k != key}
            return {**value, key: self.broken(value[key])}
        if isinstance(value, list) and value and kind > 0:
            i = self.rng.randrange(len(value))
            return value[:i] + ([] if kind == 1 else [self.broken(value[i])]) + value[i + 1:]
        return self.rng.choice([None, True, 0, -1, 10000, 1.5, "", "abcd", [], [1], {}, {"q": 1}])


def schemas(rng, count):
    for _ in range(count):
        schema = Schemas(rng).make()
        validator = jsonschema.Draft202012Validator(schema)
        instances = Instances(rng, schema)
        good, bad = [], []
        for _ in range(12):
            value = instances.any(schema)
            text = json.dumps(value, ensure_ascii=False,
                              separators=rng.choice([(",", ":"), (", ", ": ")]))
            (good if validator.is_valid(value) else bad).append(text)
            value = instances.broken(value)
            if not validator.is_valid(value):
                bad.append(json.dumps(value))
        yield {"schema": schema, "good": good, "bad": bad}


def pattern(rng, depth):
    kind = rng.randrange(9 if depth > 0 else 5)
    if kind < 2:
        return rng.choice("abc1 _")
    if kind == 2:
        return rng.choice(["[ab]", "[^a]", "[a-c1]", ".", "[\\w-]", "[^\\d]", "[b\\-1]"])
    if kind == 3:
        return rng.choice(["\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "\\.", "\\x61", "\\u0062"])
    if kind == 4:
        return ""
    if kind == 5:
        return "".join(pattern(rng, depth - 1) for _ in range(rng.randrange(4)))
    if kind == 6:
        parts = "|".join(pattern(rng, depth - 1) for _ in range(rng.randrange(1, 4)))
        return rng.choice(["(", "(?:"]) + parts + ")"
    inner = pattern(rng, depth - 1)
    times = rng.choice(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?"])
    return "(?:" + inner + ")" + times


def patterns(rng, count):
    for _ in range(count):
        source = pattern(rng, 4)
        compiled = re.compile(source, re.ASCII)
        good, bad = [], []
        for _ in range(20):
            text = "".join(rng.choice("aabc1 _.-\u00e9\n") for _ in range(rng.randrange(7)))
            (good if compiled.fullmatch(text) else bad).append(text)
        yield {"pattern": source, "good": good, "bad": bad}


def main():
    kind, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    make = {"schemas": schemas, "patterns": patterns}[kind]
    for case in make(random.Random(seed), count):
        print(json.dumps(case))


main()

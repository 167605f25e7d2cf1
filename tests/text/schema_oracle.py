#!/usr/bin/env python3
"""Says which texts do not fit their schemas, by Python's jsonschema.

Usage: schema_oracle.py FILE, a line of which is {"schema": ..., "text": "..."}.
Prints a line for each text that does not fit; exit code 77 without jsonschema.
"""

import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = [json.loads(line) for line in file]
    for case in cases:
        validator = jsonschema.Draft202012Validator(
            case["schema"], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        try:
            error = next(validator.iter_errors(json.loads(case["text"])), None)
        except ValueError as wrong:
            error = wrong
        if error is not None:
            print(json.dumps([case, str(error).splitlines()[0]]))


main()

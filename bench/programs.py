"""Running a program that measures and reading what it prints."""

import json
import os
import subprocess


class BenchError(Exception):
    """One sentence for the user."""


def output_of(command, **environment):
    """Its stdout."""
    try:
        result = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                check=False, env={**os.environ, **environment})
    except OSError as error:
        raise BenchError(f"{command[0]} does not run: {error.strerror}") from error
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchError(f"{command[0]} ended with {result.returncode}: {last}")
    return result.stdout


def json_of(command, **environment):
    """The JSON document on its stdout."""
    text = output_of(command, **environment)
    try:
        return json.loads(text)
    except ValueError as error:
        raise BenchError(f"{command[0]} printed no JSON: {error}") from error

"""Tests of bench/serve: what is asked, what is taken from a stream, and the table."""

import argparse
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "serve"))
import chats  # noqa: E402
import load  # noqa: E402


class ServeBenchTest(unittest.TestCase):
    def test_percentiles(self):
        values = list(range(100, 0, -1))
        self.assertEqual([load.percentile(values, p) for p in (1, 50, 95, 99, 100)],
                         [1, 50, 95, 99, 100])
        self.assertEqual(load.percentile([7], 99), 7)

    def test_what_is_asked_depends_on_the_number_alone(self):
        self.assertEqual(load.first_turn(4), load.first_turn(4))
        self.assertNotEqual(load.first_turn(3), load.first_turn(4))
        self.assertEqual(load.first_turn(1)[0], load.first_turn(4)[0])  # the system text
        self.assertEqual(len(chats.words(300, 1).split()), 300)

    def test_a_stream(self):
        answer = chats.Answer()
        for delta in ({"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}):
            answer.take({"choices": [{"delta": delta}]})
        answer.take({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
        self.assertEqual((answer.text, answer.prompt_tokens, answer.tokens), ("ab", 5, 2))
        self.assertEqual((len(answer.times), len(answer.gaps)), (2, 1))
        with self.assertRaises(chats.BenchError):
            answer.take({"error": {"message": "no"}})

    def test_ratios_are_of_one_round(self):
        def figures(value):
            return {"requests/s": value, "tokens/s": value,
                    **{f"{name} p{percent}": value for percent in (50, 95, 99)
                       for name in ("first token", "second turn", "between")}}
        results = {("orrery", 1): [figures(6), figures(20), figures(30)],
                   ("llama-server", 1): [figures(2), figures(10), figures(10)]}
        text = load.table(results, argparse.Namespace(clients=[1], alone=False))
        self.assertIn("| 1 | orrery | 20.00 | 20.0 | 20 / 20 / 20 |", text)
        self.assertIn("3.00 (2.00 to 3.00)", text)


if __name__ == "__main__":
    unittest.main()

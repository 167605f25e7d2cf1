#!/usr/bin/env python3
"""With --deterministic a greedy answer is the same however the server came to it: alone, among
others, after reuse of a prefix, streamed and whole."""

import json
import threading

import service

CHAT = "/v1/chat/completions"
TURNS = [{"role": "user", "content": "Tell me about the sea and its ships. " * 30}]


class Equality(service.ServedCase):
    """Two keys share no prefixes: one is asked with a cold cache what the other's knows."""

    arguments = ("--api-key", "warm", "--api-key", "cold")

    def ask(self, key, messages, **fields):
        """(text, cached tokens)"""
        status, _, body = self.server.request(
            "POST", CHAT, {"messages": messages, "temperature": 0, "max_tokens": 40,
                           "ignore_eos": True, "stream_options": {"include_usage": True},
                           **fields}, {"Authorization": f"Bearer {key}"})
        self.assertEqual(status, 200, body[:300])
        if not fields.get("stream"):
            answer = json.loads(body)
            text = answer["choices"][0]["message"]["content"]
            return text, answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        events = [json.loads(line[6:]) for line in body.splitlines()
                  if line.startswith(b"data: {")]
        text = "".join(choice["delta"].get("content", "") for event in events
                       for choice in event["choices"])
        return text, events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_the_same_however_it_is_asked(self):
        first, _ = self.ask("warm", TURNS)
        second = [*TURNS, {"role": "assistant", "content": first},
                  {"role": "user", "content": "Go on."}]
        fresh, cached = self.ask("cold", second)
        self.assertEqual(cached, 0)
        reused, cached = self.ask("warm", second)
        self.assertGreater(cached, 200)
        self.assertEqual(reused, fresh)
        for stream in (False, True):
            self.assertEqual(self.ask("cold", second, stream=stream)[0], fresh)

        # Among others, of which some go on with the same prefix and some with none.
        answers = []

        def work(number):
            other = [{"role": "user", "content": f"{number} is a number. " * number}]
            key = ("warm", "cold")[number % 2]
            self.ask(key, other, stream=number % 3 == 0)
            answers.append(self.ask(key, second, stream=number % 3 == 0)[0])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [fresh] * 8)


if __name__ == "__main__":
    service.main()

#!/usr/bin/env python3
"""POST /v1/responses with the default model, as OpenAI's own client sees it."""

import json

import service

service.needs("openai", "jsonschema")
import jsonschema  # noqa: E402
import openai  # noqa: E402

MODEL = service.MODEL
QUESTION = "What is the capital of France?"
PLACE = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}},
         "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "name": "get_weather", "description": "The weather.",
        "parameters": PLACE}


class Responses(service.ServedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    def ask(self, **fields):
        return self.client.responses.create(**{
            "model": MODEL, "input": QUESTION, "temperature": 0, "max_output_tokens": 60,
            **fields})

    def test_a_text(self):
        answer = self.ask()
        self.assertTrue(answer.output_text)
        self.assertEqual(answer.output[0].type, "message")
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.input_tokens + answer.usage.output_tokens)
        self.assertEqual(answer.temperature, 0)
        short = self.ask(max_output_tokens=2)
        self.assertEqual(short.status, "incomplete")
        self.assertEqual(short.incomplete_details.reason, "max_output_tokens")
        chat = self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": QUESTION}], temperature=0,
            max_tokens=60)
        self.assertEqual(answer.output_text, chat.choices[0].message.content)

    def test_events_in_their_order(self):
        events = list(self.ask(stream=True, max_output_tokens=20))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        types = [event.type for event in events]
        self.assertEqual(types[:4], ["response.created", "response.in_progress",
                                     "response.output_item.added", "response.content_part.added"])
        self.assertEqual(types[-4:], ["response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.incomplete"])
        self.assertEqual(set(types[4:-4]), {"response.output_text.delta"})
        last = events[-1].response
        self.assertEqual("".join(event.delta for event in events[4:-4]), last.output_text)
        self.assertEqual(events[2].item.id, last.output[0].id)
        self.assertEqual(last.output_text, self.ask(max_output_tokens=20).output_text)

    def test_calls_and_what_came_of_them(self):
        ask = {"tools": [TOOL, {"type": "web_search"}], "tool_choice": "required",
               "max_output_tokens": 200}
        answer = self.ask(**ask)
        self.assertEqual(answer.status, "completed")
        (call,) = answer.output
        self.assertEqual((call.type, call.name), ("function_call", "get_weather"))
        jsonschema.validate(json.loads(call.arguments), PLACE)
        events = list(self.ask(stream=True, **ask))
        pieces = "".join(event.delta for event in events
                         if event.type == "response.function_call_arguments.delta")
        self.assertEqual(pieces, events[-1].response.output[0].arguments)
        self.assertEqual(pieces, call.arguments)
        follow = self.ask(instructions="Be brief.", max_output_tokens=4, input=[
            {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            call.model_dump(exclude_none=True),
            {"type": "function_call_output", "call_id": call.call_id, "output": "20 degrees"}])
        self.assertTrue(follow.output)

    def test_a_schema(self):
        answer = self.ask(text={"format": {"type": "json_schema", "name": "place",
                                           "schema": PLACE}})
        jsonschema.validate(json.loads(answer.output_text), PLACE)

    def test_what_cannot_be(self):
        for fields in ({"previous_response_id": "resp_1"}, {"input": 5}, {"input": []},
                       {"input": [{"type": "item_reference", "id": "a"}]},
                       {"input": [{"role": "robot", "content": "a"}]},
                       {"max_output_tokens": 0}, {"tools": {}}):
            status, _, body = self.server.request("POST", "/v1/responses",
                                                  {"input": QUESTION, **fields})
            self.assertEqual(status, 400, (fields, body))


if __name__ == "__main__":
    service.main()

#!/usr/bin/env python3
"""Schemas, grammars and tools over HTTP: `orrery serve` with the default model, which obeys them
because nothing else can be written."""

import json

import service

service.needs("openai", "anthropic", "ollama", "jsonschema")
import anthropic  # noqa: E402
import jsonschema  # noqa: E402
import ollama  # noqa: E402
import openai  # noqa: E402

MODEL = service.MODEL
QUESTION = [{"role": "user", "content": "Tell me about a person."}]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12},
                   "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12},
                   "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "find_person", "parameters": PERSON}},
         {"type": "function", "function": {"name": "get_weather", "description": "The weather.",
                                           "parameters": PLACE}}]


class Structured(service.ServedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        url = cls.server.url
        cls.client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
        cls.claude = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        cls.llama = ollama.Client(host=url)

    def chat(self, **fields):
        return self.client.chat.completions.create(**{
            "model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 100, **fields})

    def assert_weather(self, name, arguments):
        self.assertEqual(name, "get_weather")
        jsonschema.validate(arguments, PLACE)

    def test_a_schema_is_kept(self):
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
        for fields in ({"response_format": form},
                       {"extra_body": {"json_schema": PERSON}},
                       {"extra_body": {"response_format": {"type": "json_object",
                                                           "schema": PERSON}}}):
            choice = self.chat(**fields).choices[0]
            jsonschema.validate(json.loads(choice.message.content), PERSON)
            self.assertEqual(choice.finish_reason, "stop")

    def test_any_object(self):
        choice = self.chat(response_format={"type": "json_object"}, max_tokens=300).choices[0]
        self.assertTrue(choice.message.content.lstrip().startswith("{"))
        if choice.finish_reason == "stop":
            self.assertIsInstance(json.loads(choice.message.content), dict)

    def test_a_grammar_is_kept(self):
        answer = self.chat(extra_body={"grammar": 'root ::= "yes" | "no"'})
        self.assertIn(answer.choices[0].message.content, ("yes", "no"))
        answer = self.client.completions.create(model=MODEL, prompt="Yes or no?",
                                                extra_body={"grammar": 'root ::= [0-9] "!"'})
        self.assertRegex(answer.choices[0].text, r"^[0-9]!$")

    def test_a_call_of_the_tool_that_was_named(self):
        choice = self.chat(tools=TOOLS, tool_choice={
            "type": "function", "function": {"name": "get_weather"}}).choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertIsNone(choice.message.content)
        (call,) = choice.message.tool_calls
        self.assertTrue(call.id)
        self.assert_weather(call.function.name, json.loads(call.function.arguments))

    def test_a_call_in_a_stream(self):
        chunks = list(self.chat(tools=TOOLS, tool_choice="required", stream=True))
        deltas = [delta for chunk in chunks
                  for delta in chunk.choices[0].delta.tool_calls or []]
        first, *rest = deltas
        self.assertEqual(first.function.arguments, "")
        self.assertTrue(first.id)
        self.assertTrue(all(delta.id is None and delta.index == 0 for delta in rest))
        arguments = json.loads("".join(delta.function.arguments for delta in rest))
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
        jsonschema.validate(arguments, schemas[first.function.name])
        self.assertEqual(chunks[-1].choices[0].finish_reason, "tool_calls")

    def test_tools_may_be_left_alone(self):
        for choice in ("auto", "none"):
            answer = self.chat(tools=TOOLS, tool_choice=choice, max_tokens=8).choices[0]
            self.assertTrue(answer.message.content or answer.message.tool_calls)
        again = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function",
             "function": {"name": "find_person", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Ada, 36"}]
        self.assertTrue(self.chat(messages=again, tools=TOOLS, max_tokens=4).choices)

    def test_one_odd_tool_does_not_break_the_others(self):
        odd = {"type": "function", "function": {"name": "odd", "parameters": {"type": 5}}}
        choice = self.chat(tools=[odd, *TOOLS], tool_choice={
            "type": "function", "function": {"name": "get_weather"}}).choices[0]
        call = choice.message.tool_calls[0].function
        self.assert_weather(call.name, json.loads(call.arguments))

    def test_what_cannot_be_held_is_the_clients_fault(self):
        deep = {}
        for _ in range(30):
            deep = {"type": "array", "items": deep}
        schema = {"type": "json_schema", "json_schema": {"name": "a"}}
        for fields, param in (
                ({"response_format": {"type": "xml"}}, "response_format"),
                ({"response_format": schema}, "response_format"),
                ({"response_format": 5}, "response_format"),
                ({"json_schema": {"properties": {"x": {"not": {}}}}}, "json_schema"),
                ({"json_schema": {"$ref": "http://localhost/a"}}, "json_schema"),
                ({"json_schema": {"type": "string", "pattern": "(?<=x)*"}}, "json_schema"),
                ({"grammar": "root ::= other"}, "grammar"),
                ({"grammar": "root ::= " + "(" * 60000}, "grammar"),
                ({"grammar": 'root ::= root "a"'}, "grammar"),
                ({"grammar": 'root ::= "a"', "json_schema": PERSON}, "grammar"),
                ({"tools": "none"}, "tools"),
                ({"tools": TOOLS, "json_schema": PERSON}, "tools"),
                ({"tools": [{"type": "function", "function": {"name": "../x"}}]}, "tools"),
                ({"tools": [TOOLS[0]] * 129}, "tools"),
                ({"tools": TOOLS, "tool_choice": {"function": {"name": "other"}}}, "tools"),
                ({"tools": TOOLS, "tool_choice": 5}, "tool_choice"),
                ({"tool_choice": "required"}, "tool_choice")):
            status, _, body = self.server.request(
                "POST", "/v1/chat/completions", {"messages": QUESTION, "max_tokens": 1, **fields})
            self.assertEqual(status, 400, (str(fields)[:80], body[:300]))
            self.assertEqual(json.loads(body)["error"]["param"], param, str(fields)[:80])
        self.assertIn("$.properties.x.not", self.refused({"properties": {"x": {"not": {}}}}))

    def refused(self, schema):
        _, _, body = self.server.request("POST", "/v1/chat/completions",
                                         {"messages": QUESTION, "json_schema": schema})
        return json.loads(body)["error"]["message"]

    def test_anthropic_tools(self):
        tools = [{"name": "get_weather", "description": "The weather.", "input_schema": PLACE}]
        ask = {"model": MODEL, "messages": QUESTION, "max_tokens": 100, "tools": tools,
               "tool_choice": {"type": "tool", "name": "get_weather"}}
        message = self.claude.messages.create(**ask)
        self.assertEqual(message.stop_reason, "tool_use")
        use = message.content[-1]
        self.assertEqual(use.type, "tool_use")
        self.assert_weather(use.name, use.input)
        with self.claude.messages.stream(**ask) as stream:
            last = stream.get_final_message()
        self.assert_weather(last.content[-1].name, last.content[-1].input)
        follow = [*QUESTION, {"role": "assistant", "content": [use.model_dump()]},
                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id,
                                                "content": "20 degrees"}]}]
        ask.update(messages=follow, max_tokens=4, tool_choice={"type": "none"})
        self.assertTrue(self.claude.messages.create(**ask).content)
        counted = self.claude.messages.count_tokens(model=MODEL, messages=QUESTION, tools=tools)
        self.assertGreater(counted.input_tokens, 0)

    def test_ollama_formats(self):
        answer = self.llama.chat(MODEL, messages=QUESTION, format=PERSON,
                                 options={"temperature": 0, "num_predict": 100})
        jsonschema.validate(json.loads(answer.message.content), PERSON)
        answer = self.llama.generate(MODEL, "A person:", format=PERSON,
                                     options={"temperature": 0, "num_predict": 100})
        jsonschema.validate(json.loads(answer.response), PERSON)
        answer = self.llama.chat(MODEL, messages=QUESTION, tools=TOOLS,
                                 options={"temperature": 0, "num_predict": 8})
        self.assertTrue(answer.message.content or answer.message.tool_calls)
        status, _, _ = self.server.request("POST", "/api/chat",
                                           {"messages": QUESTION, "format": "xml"})
        self.assertEqual(status, 400)


if __name__ == "__main__":
    service.main()

#!/usr/bin/env python3
"""The server through libraries that stand on its dialects: langchain-openai, litellm and llm."""

import gc
import json
import os
import tempfile

import service

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is asked of the network
service.needs("langchain_openai", "litellm", "llm", "jsonschema")
import jsonschema  # noqa: E402
import langchain_openai  # noqa: E402
import litellm  # noqa: E402
import llm  # noqa: E402
import openai  # noqa: E402
import yaml  # noqa: E402
from llm.default_plugins import openai_models  # noqa: E402

litellm.suppress_debug_info = True
QUESTION = "What is the capital of France?"
PLACE = {"title": "place", "description": "A place.", "type": "object",
         "properties": {"city": {"type": "string", "maxLength": 12}},
         "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather.",
                                         "parameters": PLACE}}
TOO_LONG = "word " * 3000


class Langchain(service.ServedCase):
    def chat(self, **fields):
        return langchain_openai.ChatOpenAI(
            base_url=self.server.url + "/v1", api_key="none", temperature=0, max_retries=0,
            **{"model": service.MODEL, "max_tokens": 24, **fields})

    def test_whole_and_streamed(self):
        whole = self.chat().invoke(QUESTION)
        self.assertTrue(whole.content)
        self.assertGreater(whole.usage_metadata["input_tokens"], 0)
        chunks = list(self.chat(stream_usage=True).stream(QUESTION))
        self.assertEqual("".join(chunk.content for chunk in chunks), whole.content)
        usages = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
        self.assertEqual([usage["output_tokens"] for usage in usages],
                         [whole.usage_metadata["output_tokens"]])

    def test_tools(self):
        bound = self.chat(max_tokens=60).bind_tools([TOOL], tool_choice="get_weather")
        (call,) = bound.invoke(QUESTION).tool_calls
        self.assertEqual(call["name"], "get_weather")
        jsonschema.validate(call["args"], PLACE)
        whole = None
        for chunk in bound.stream(QUESTION):
            whole = chunk if whole is None else whole + chunk
        self.assertEqual(whole.tool_calls[0]["args"], call["args"])
        follow = [("user", QUESTION), whole, {"role": "tool", "tool_call_id": call["id"],
                                              "content": "20 degrees"}]
        self.assertTrue(self.chat(max_tokens=4).invoke(follow).content)

    def test_a_schema(self):
        for method in ("json_schema", "function_calling"):
            answer = self.chat(max_tokens=60).with_structured_output(PLACE, method=method)
            jsonschema.validate(answer.invoke(QUESTION), PLACE)

    def test_embeddings(self):
        embeddings = langchain_openai.OpenAIEmbeddings(
            base_url=self.server.url + "/v1", api_key="none", model=service.MODEL,
            check_embedding_ctx_length=False)
        one, two = embeddings.embed_documents(["The cat sat.", "A dog ran."])
        self.assertEqual(len(one), len(two))
        for a, b in zip(embeddings.embed_query("The cat sat."), one):
            self.assertAlmostEqual(a, b, places=4)

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            self.chat(model="other").invoke(QUESTION)
        with self.assertRaises(openai.BadRequestError):
            self.chat().invoke(TOO_LONG)

    def test_leaving(self):
        def leave():
            stream = self.chat(max_tokens=2000, extra_body={"ignore_eos": True}).stream(QUESTION)
            next(stream)
            stream.close()
        self.assert_cancels(leave)


class Litellm(service.ServedCase):
    def complete(self, prompt=QUESTION, dialect="openai", **fields):
        base = self.server.url + ("/v1" if dialect == "openai" else "")
        return litellm.completion(**{
            "model": f"{dialect}/{service.MODEL}", "api_base": base, "api_key": "none",
            "messages": [{"role": "user", "content": prompt}], "temperature": 0,
            "max_tokens": 24, "max_retries": 0, **fields})

    def test_every_dialect_says_the_same(self):
        said = set()
        for dialect in ("openai", "anthropic", "ollama_chat"):
            whole = self.complete(dialect=dialect).choices[0].message.content
            chunks = list(self.complete(dialect=dialect, stream=True))
            self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks),
                             whole, dialect)
            said.add(whole)
        self.assertEqual(len(said), 1, said)

    def test_tools(self):
        choice = {"type": "function", "function": {"name": "get_weather"}}
        for stream in (False, True):
            answer = self.complete(tools=[TOOL], tool_choice=choice, max_tokens=60, stream=stream)
            if stream:
                answer = litellm.stream_chunk_builder(list(answer))
            (call,) = answer.choices[0].message.tool_calls
            self.assertEqual(call.function.name, "get_weather")
            jsonschema.validate(json.loads(call.function.arguments), PLACE)

    def test_a_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE,
                                                       "strict": True}}
        answer = self.complete(response_format=form, max_tokens=60)
        jsonschema.validate(json.loads(answer.choices[0].message.content), PLACE)

    def test_embeddings(self):
        answer = litellm.embedding(model="openai/" + service.MODEL, input=["a", "b"],
                                   api_base=self.server.url + "/v1", api_key="none")
        self.assertEqual(len(answer.data), 2)
        self.assertEqual(len(answer.data[0]["embedding"]), len(answer.data[1]["embedding"]))

    def test_errors(self):
        with self.assertRaises(litellm.NotFoundError):
            self.complete(model="openai/other")
        with self.assertRaises(litellm.ContextWindowExceededError):
            self.complete(TOO_LONG)

    def test_leaving(self):
        def leave():
            stream = self.complete(stream=True, max_tokens=2000, extra_body={"ignore_eos": True})
            next(stream)
            stream.completion_stream.close()
        self.assert_cancels(leave)


class Llm(service.ServedCase):
    """With the file that its documentation names for servers of this kind."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        os.environ["LLM_USER_PATH"] = cls.folder.name
        entry = {"model_id": "orrery", "model_name": service.MODEL,
                 "api_base": cls.server.url + "/v1", "supports_tools": True,
                 "supports_schema": True}
        other = {**entry, "model_id": "other", "model_name": "other"}
        path = os.path.join(cls.folder.name, "extra-openai-models.yaml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump([entry, other], file)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        super().tearDownClass()

    def ask(self, stream=True, model="orrery", prompt=QUESTION, **fields):
        return llm.get_model(model).prompt(
            prompt, stream=stream, key="none",
            **{"temperature": 0, "max_tokens": 24, **fields})

    def test_whole_and_streamed(self):
        self.assertIsInstance(llm.get_model("orrery"), openai_models.Chat)
        whole = self.ask(stream=False)
        self.assertTrue(whole.text())
        self.assertEqual("".join(self.ask()), whole.text())
        self.assertGreater(whole.usage().input, 0)

    def test_a_second_turn(self):
        talk = llm.get_model("orrery").conversation()
        self.assertTrue(talk.prompt(QUESTION, key="none", max_tokens=8).text())
        self.assertTrue(talk.prompt("Go on.", key="none", max_tokens=8).text())

    def test_tools_and_a_schema(self):
        def get_weather(city: str) -> str:
            """The weather."""
            return city + ": 20 degrees"
        answer = self.ask(stream=False, tools=[get_weather])
        self.assertTrue(answer.text() or answer.tool_calls())
        answer = self.ask(schema=PLACE, max_tokens=60)
        jsonschema.validate(json.loads(answer.text()), PLACE)

    def test_errors(self):
        with self.assertRaises((llm.ModelError, openai.NotFoundError)):
            self.ask(model="other").text()
        with self.assertRaises((llm.ModelError, openai.BadRequestError)):
            self.ask(prompt=TOO_LONG).text()

    def test_leaving(self):
        def leave():
            answer = iter(self.ask(prompt="Count to a thousand: 1, 2, 3,", max_tokens=1500))
            next(answer)
            del answer
            gc.collect()  # nothing else closes its connection
        self.assert_cancels(leave)


if __name__ == "__main__":
    service.main()

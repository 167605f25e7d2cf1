#!/usr/bin/env python3
"""Models that rank, in the forms of Jina, Cohere and TEI: the golden ones, on one server beside one
that makes vectors."""

import json
import os

import service

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is asked of the network
service.needs("litellm", "openai")
import litellm  # noqa: E402
import openai  # noqa: E402

litellm.suppress_debug_info = True
GOLDEN = service.ROOT / "tests" / "golden"
MODELS = (GOLDEN / "bert-rank", GOLDEN / "xlmr-rank" / "xlmr-rank-f16.gguf",
          GOLDEN / "qwen3-rank" / "qwen3-rank-f16.gguf", GOLDEN / "bert")
QUERY = "the world"
DOCUMENTS = ["hello", "hello, world. hello", "a long query about the world", "the", "hello"]


def pairs_of(model):
    return json.loads((GOLDEN / model / "golden.json").read_text())["pairs"]


class Rerank(service.ServedCase):
    arguments = tuple(map(str, MODELS))
    context = 0

    def rank(self, path="/v1/rerank", expected=200, **fields):
        status, body = self.server.post(path, {"model": "bert-rank", "query": QUERY, **fields})
        self.assertEqual(status, expected, body)
        return body

    def refused(self, expected=400, **fields):
        return self.rank(expected=expected, **{"documents": DOCUMENTS, **fields})["error"]

    def test_scores_are_those_of_transformers(self):
        for model, name in (("bert-rank", "bert-rank"), ("xlmr-rank", "xlmr-rank-f16"),
                            ("qwen3-rank", "qwen3-rank-f16")):
            for pair in pairs_of(model):
                answer = self.rank(model=name, query=pair["query"], documents=[pair["document"]])
                (result,) = answer["results"]
                self.assertAlmostEqual(result["relevance_score"], pair["score"], delta=1e-2)
                self.assertEqual(answer["usage"]["prompt_tokens"], len(pair["ids"]))

    def test_the_best_come_first(self):
        answer = self.rank(documents=DOCUMENTS)
        self.assertEqual((answer["object"], answer["model"]), ("list", "bert-rank"))
        scores = [r["relevance_score"] for r in answer["results"]]
        self.assertEqual(scores, sorted(scores, reverse=True))
        order = [r["index"] for r in answer["results"]]
        self.assertEqual(sorted(order), [0, 1, 2, 3, 4])
        self.assertLess(order.index(0), order.index(4))  # equal ones as they were asked for
        self.assertEqual(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"])
        for path in ("/rerank", "/reranking", "/v1/reranking"):
            self.assertEqual(self.rank(path, documents=DOCUMENTS), answer)

    def test_each_as_if_alone(self):
        for result in self.rank(documents=DOCUMENTS)["results"]:
            (alone,) = self.rank(documents=[DOCUMENTS[result["index"]]])["results"]
            self.assertEqual(alone["relevance_score"], result["relevance_score"])

    def test_how_many_and_their_texts(self):
        whole = self.rank(documents=DOCUMENTS)["results"]
        for most, count in ((0, 0), (2, 2), (5, 5), (99, 5)):
            self.assertEqual(self.rank(documents=DOCUMENTS, top_n=most)["results"], whole[:count])
        objects = [{"text": text} for text in DOCUMENTS]
        for result in self.rank(documents=objects, return_documents=True)["results"]:
            self.assertEqual(result["document"], objects[result["index"]])
        self.assertNotIn("document", whole[0])

    def test_the_form_of_tei(self):
        whole = [(r["index"], r["relevance_score"])
                 for r in self.rank(documents=DOCUMENTS)["results"]]
        answer = self.rank("/rerank", texts=DOCUMENTS)
        self.assertEqual([(r["index"], r["score"]) for r in answer], whole)
        for result in self.rank("/rerank", texts=DOCUMENTS, return_text=True, top_n=3):
            self.assertEqual(result["text"], DOCUMENTS[result["index"]])

    def test_long_documents(self):
        longer = "hello " * 200  # the model reads 128 tokens
        error = self.refused(documents=["hello", longer])
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn("document 1: query and document have 205 tokens", error["message"])
        (cut,) = self.rank(documents=[longer], truncate=True)["results"]
        (fits,) = self.rank(documents=["hello " * 123])["results"]
        self.assertEqual(cut["relevance_score"], fits["relevance_score"])
        self.refused(query=longer, documents=["hello"], truncate=True)

    def test_what_is_refused(self):
        for field, wrong in (("query", ""), ("query", 1), ("query", None), ("documents", []),
                             ("documents", 123), ("documents", None), ("documents", [1, 2]),
                             ("documents", [{}]), ("documents", [{"text": 1}]), ("top_n", -1),
                             ("top_n", "x"), ("return_documents", 1), ("truncate", "yes"),
                             ("documents", ["a"] * 2049)):
            self.assertEqual(self.refused(**{field: wrong})["param"], field, wrong)
        self.assertEqual(self.refused(expected=501, model="bert")["code"], "not_supported")
        self.refused(expected=404, model="none")

    def test_what_else_a_ranker_does_not_do(self):
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)
        with self.assertRaisesRegex(openai.BadRequestError, "makes no vectors"):
            client.embeddings.create(model="bert-rank", input="hello")
        with self.assertRaisesRegex(openai.BadRequestError, "scores documents"):
            client.chat.completions.create(model="bert-rank",
                                           messages=[{"role": "user", "content": "hello"}])

    def test_what_models_are_for(self):
        listed = json.loads(self.server.request("GET", "/v1/models")[2])["data"]
        uses = {model["id"]: model["meta"]["capabilities"] for model in listed}
        self.assertEqual(uses, {"bert-rank": ["rerank"], "xlmr-rank-f16": ["rerank"],
                                "qwen3-rank-f16": ["completion", "rerank"], "bert": ["embedding"]})
        self.assertEqual(json.loads(self.server.request("GET", "/props")[2])["capabilities"],
                         ["rerank"])
        shown = self.server.post("/api/show", {"model": "xlmr-rank-f16"})[1]
        self.assertEqual(shown["capabilities"], ["rerank"])

    def test_litellm(self):
        answer = litellm.rerank(model="hosted_vllm/bert-rank", query=QUERY, documents=DOCUMENTS,
                                top_n=3, api_base=self.server.url, api_key="none")
        want = self.rank(documents=DOCUMENTS, top_n=3)["results"]
        self.assertEqual([(r["index"], r["relevance_score"]) for r in answer.results],
                         [(r["index"], r["relevance_score"]) for r in want])
        for result in answer.results:
            self.assertEqual(result["document"]["text"], DOCUMENTS[result["index"]])


if __name__ == "__main__":
    service.main()

// POST /v1/rerank: documents by how well they answer a query, in the forms of Jina and Cohere
// (`documents`) and of Text Embeddings Inference (`texts`), as llama-server has them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/rank_text.hpp"
#include "server/fields.hpp"
#include "server/handlers.hpp"
#include "server/inputs.hpp"

namespace orrery::server {
namespace {

struct Asked {
  std::string query;
  std::vector<std::string> documents;
  std::size_t most = 0;  // results
  bool is_tei = false, with_texts = false;
  engine::LongText long_text = engine::LongText::error;
};

struct Ranked {
  std::size_t index = 0;
  float score = 0;
};

ApiResult<std::vector<std::string>> read_documents(const Json& body, const std::string& name) {
  const Json* list = find(body, name);
  if (list == nullptr || !list->is_array() || list->empty() || list->size() > kMaxInputs) {
    return refuse(400, fmt::format("{} must be a list of 1 to {} texts", name, kMaxInputs), name,
                  "invalid_value");
  }
  std::vector<std::string> texts;
  for (const Json& item : *list) {
    const Json* text = item.is_object() ? find(item, "text") : &item;
    if (text == nullptr || !text->is_string()) {
      return refuse(400, name + " holds what is neither a text nor an object with one", name,
                    "invalid_value");
    }
    texts.push_back(text->get<std::string>());
  }
  return texts;
}

ApiResult<Asked> read(const Json& body) {
  Asked asked;
  ORRERY_TRY(const auto query, get_string(body, "query", SIZE_MAX));
  if (!query || query->empty()) return refuse(400, "query is missing", "query", "invalid_value");
  asked.query = *query;
  asked.is_tei = find(body, "documents") == nullptr && find(body, "texts") != nullptr;
  ORRERY_TRY(asked.documents, read_documents(body, asked.is_tei ? "texts" : "documents"));
  ORRERY_TRY(const auto most, get_integer(body, "top_n", 0, INT32_MAX));
  asked.most = std::min(asked.documents.size(), static_cast<std::size_t>(most.value_or(INT32_MAX)));
  ORRERY_TRY(asked.with_texts,
             get_bool(body, asked.is_tei ? "return_text" : "return_documents", false));
  ORRERY_TRY(const bool cuts, get_bool(body, "truncate", false));
  if (cuts) asked.long_text = engine::LongText::cut;
  return asked;
}

// All tokens before the first score: a document that is too long costs no work of the others.
ApiResult<std::vector<engine::PairTokens>> tokens_of(const Asked& asked,
                                                     const engine::Model& model) {
  std::vector<engine::PairTokens> pairs;
  for (const std::string& document : asked.documents) {
    auto pair = engine::pair_tokens(model, asked.query, document, asked.long_text);
    if (!pair) {
      ApiError error = api_error(pair.error());
      error.message = fmt::format("document {}: {}", pairs.size(), error.message);
      if (error.code == "context_length_exceeded") error.message += " (\"truncate\": true)";
      return std::unexpected(std::move(error));
    }
    pairs.push_back(std::move(*pair));
  }
  return pairs;
}

Json results_of(Asked& asked, std::vector<Ranked> ranked) {
  // Equal scores stay in the order of the request.
  std::ranges::stable_sort(ranked, std::greater<>(), &Ranked::score);
  ranked.resize(asked.most);
  Json results = Json::array();
  for (const Ranked& one : ranked) {
    Json item = Json::object();
    item["index"] = one.index;
    item[asked.is_tei ? "score" : "relevance_score"] = one.score;
    std::string& text = asked.documents[one.index];
    if (asked.with_texts && asked.is_tei) item["text"] = std::move(text);
    if (asked.with_texts && !asked.is_tei) item["document"]["text"] = std::move(text);
    results.push_back(std::move(item));
  }
  return results;
}

}  // namespace

ApiStatus rerank(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(const auto model, app.models.find(name.value_or("")));
  ORRERY_TRY(Asked asked, read(body));
  if (!model->model->hparams().ranks) {
    return refuse(501,
                  model->id +
                      " cannot rank: it has no head that scores a query and a document "
                      "together. /v1/embeddings gives vectors to compare",
                  "model", "not_supported");
  }
  ORRERY_TRY(const auto pairs, tokens_of(asked, *model->model));
  std::vector<Ranked> ranked;
  std::size_t tokens = 0;
  for (const engine::PairTokens& pair : pairs) {
    if (call->response->is_gone()) return {};
    const auto score = model->model->rank(pair.ids, pair.second);
    if (!score) return std::unexpected(api_error(score.error()));
    ranked.push_back({ranked.size(), *score});
    tokens += pair.ids.size();
  }
  Json results = results_of(asked, std::move(ranked));
  if (asked.is_tei) {
    send_json(app, *call, results);
    return {};
  }
  Json out = Json::object();
  out["model"] = model->id;
  out["object"] = "list";
  out["usage"]["prompt_tokens"] = tokens;
  out["usage"]["total_tokens"] = tokens;
  out["results"] = std::move(results);
  send_json(app, *call, out);
  return {};
}

}  // namespace orrery::server

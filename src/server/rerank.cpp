// POST /v1/rerank: documents by how well they answer a query. That is the work of a head which
// scores both together; no family here has one, and the cosine of two embeddings is another thing.
#include "server/fields.hpp"
#include "server/handlers.hpp"
#include "server/inputs.hpp"

namespace orrery::server {

ApiStatus rerank(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, parse_object(call->request.body));
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(const auto model, app.models.find(name.value_or("")));
  ORRERY_TRY(const auto query, get_string(body, "query", SIZE_MAX));
  if (!query) return refuse(400, "query is missing", "query", "invalid_value");
  const Json* documents = find(body, "documents");
  if (documents == nullptr) documents = find(body, "texts");
  if (documents == nullptr || !documents->is_array() || documents->empty() ||
      documents->size() > kMaxInputs) {
    return refuse(400, "documents must be a list of 1 to 2048 texts", "documents", "invalid_value");
  }
  return refuse(501,
                model->id +
                    " cannot rank: it has no head that scores a query and a document "
                    "together. /v1/embeddings gives vectors to compare",
                "model", "not_supported");
}

}  // namespace orrery::server

// What OpenAI's endpoints have in common.
#pragma once

#include <string>
#include <string_view>

#include "server/forms.hpp"
#include "server/generation.hpp"

namespace orrery::server {

// One event of a stream.
std::string sse(const Json& data);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSseProbe = ":\n\n";  // a comment

// "stop", "length" or "tool_calls".
std::string_view finish_text(const ChoiceEnd& end);
Json usage_object(const Usage& usage);
// llama.cpp's: counts, milliseconds and rates.
Json timings_object(const Usage& usage);
// {token, logprob, bytes, top_logprobs}
Json logprob_object(const text::Tokenizer& tokenizer, const TokenLogprobs& logprobs);

// model, n, max_tokens, stop, logprobs, ignore_eos, stream_options, response_format, tools: of
// chats and of completions.
struct OpenaiOptions {
  std::shared_ptr<ServedModel> model;
  GenerationOptions generation;
  AnswerForm form;
  bool stream = false;
  bool include_usage = false;
};
ApiResult<OpenaiOptions> parse_openai_options(const Models& models, const Json& body);

}  // namespace orrery::server

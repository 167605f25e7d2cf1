// The answer of POST /v1/responses: a list of items (reasoning, messages, calls), as one object or
// as events with rising numbers.
#pragma once

#include <string>

#include "server/generation.hpp"
#include "server/handlers.hpp"

namespace orrery::server {

class ResponsesSink final : public Sink {
 public:
  // `echo`: the fields of the request that a response repeats.
  ResponsesSink(App& app, CallPtr call, std::string model, Json echo, bool stream);

  void on_start(std::uint32_t prompt_tokens) override;
  bool on_token(std::uint32_t choice, std::span<const text::ReplyPart> parts,
                const TokenLogprobs* logprobs) override;
  void on_choice_end(std::uint32_t choice, const ChoiceEnd& end) override;
  void on_end(const Usage& usage) override;

 private:
  enum class Type { message, reasoning, function_call };
  struct Item {
    Type type = Type::message;
    std::string id, call_id, name;
    std::string text;  // of a call: its arguments
    bool is_done = false;
  };

  void add(const text::ReplyPart& part);
  void open(Type type, std::string name);
  void close();
  Json item_object(const Item& item) const;
  static Json content_part(const Item& item);
  Json response(std::string_view status, const Usage* usage) const;
  void emit(std::string_view type, Json data);
  // Of the last item: where it is.
  Json place() const;

  App& app_;
  CallPtr call_;
  std::string id_ = new_id("resp_"), model_;
  std::int64_t created_ = unix_seconds();
  Json echo_;
  bool stream_, cut_off_ = false;
  std::vector<Item> items_;
  std::uint64_t events_ = 0;
  Json error_;  // null: none
};

}  // namespace orrery::server

// The messages of a chat and the tokens that the model's template makes of them.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/model.hpp"
#include "text/chat_template.hpp"

namespace orrery::cli {

class Conversation {
 public:
  // An empty system message is none.
  explicit Conversation(std::string system);
  void add(std::string role, std::string content);
  // Takes back the last message.
  void drop_last();
  void set_system(std::string system);
  void reset() { messages_.clear(); }
  bool empty() const { return messages_.empty(); }

  // The prompt for the next answer.
  Result<std::vector<text::TokenId>> tokens(const engine::Model& model) const;

  // The transcript as text: "### role" lines, each followed by its message.
  std::string transcript() const;
  // E_TRANSCRIPT when the text is no transcript; then nothing changes.
  Status load(const std::string& transcript);

 private:
  struct Message {
    std::string role, content;
  };
  std::string system_;
  std::vector<Message> messages_;
};

}  // namespace orrery::cli

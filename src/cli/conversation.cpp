#include "cli/conversation.hpp"

#include "engine/chat.hpp"

namespace orrery::cli {
namespace {
constexpr std::string_view kMark = "### ";
}

Conversation::Conversation(std::string system) : system_(std::move(system)) {}

void Conversation::add(std::string role, std::string content) {
  messages_.push_back({std::move(role), std::move(content)});
}

void Conversation::drop_last() {
  if (!messages_.empty()) messages_.pop_back();
}

void Conversation::set_system(std::string system) {
  system_ = std::move(system);
}

Result<std::vector<text::TokenId>> Conversation::tokens(const engine::Model& model) const {
  text::Json variables;
  variables["messages"] = text::Json::array();
  if (!system_.empty()) {
    variables["messages"].push_back({{"role", "system"}, {"content", system_}});
  }
  for (const Message& message : messages_) {
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  variables["add_generation_prompt"] = true;
  return engine::chat_tokens(model, std::move(variables));
}

// A line of a message that begins with the mark, or with backslashes and the mark, gets one more
// backslash, so that it is no role line when it is read back.
std::string Conversation::transcript() const {
  std::string text;
  const auto put = [&](const std::string& role, const std::string& content) {
    text += std::string(kMark) + role + "\n";
    std::size_t begin = 0;
    while (begin <= content.size()) {
      const std::size_t end = std::min(content.find('\n', begin), content.size());
      const std::string line = content.substr(begin, end - begin);
      const std::size_t slashes = std::min(line.find_first_not_of('\\'), line.size());
      if (line.compare(slashes, kMark.size(), kMark) == 0) text += '\\';
      text += line + "\n";
      begin = end + 1;
    }
  };
  if (!system_.empty()) put("system", system_);
  for (const Message& message : messages_) put(message.role, message.content);
  return text;
}

Status Conversation::load(const std::string& transcript) {
  std::vector<Message> messages;
  std::size_t begin = 0;
  while (begin < transcript.size()) {
    const std::size_t end = std::min(transcript.find('\n', begin), transcript.size());
    std::string line = transcript.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t slashes = std::min(line.find_first_not_of('\\'), line.size());
    const bool marked = line.compare(slashes, kMark.size(), kMark) == 0;
    if (marked && slashes == 0) {
      messages.push_back({line.substr(kMark.size()), ""});
      continue;
    }
    if (messages.empty()) {
      return fail("E_TRANSCRIPT",
                  "the file is no transcript: it must begin with a line \"### role\"");
    }
    if (marked) line.erase(0, 1);
    messages.back().content += line + "\n";
  }
  for (Message& message : messages) {
    if (message.content.ends_with('\n')) message.content.pop_back();
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      return fail("E_TRANSCRIPT", "unknown role \"" + message.role + "\" in the transcript");
    }
  }
  system_.clear();
  if (!messages.empty() && messages.front().role == "system") {
    system_ = messages.front().content;
    messages.erase(messages.begin());
  }
  messages_ = std::move(messages);
  return {};
}

}  // namespace orrery::cli

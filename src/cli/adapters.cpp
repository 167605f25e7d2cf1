#include "cli/adapters.hpp"

#include <charconv>
#include <string_view>
#include <utility>

#include "storage/io.hpp"

namespace orrery::cli {

AdapterFile parse_adapter_file(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text};
  AdapterFile file{text.substr(0, colon)};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, file.scale);
  if (error != std::errc{} || stop != end) return {text};
  return file;
}

void add_adapter_option(Command command, AdapterFiles& files) {
  command
      .option("--lora", files,
              "FILE or FILE:SCALE, a LoRA adapter as GGUF or as PEFT's folder (repeatable)")
      .repeatable();
}

Result<std::unique_ptr<engine::Session>> open_session(const engine::Model& model,
                                                      const AdapterFiles& files) {
  ORRERY_TRY(auto session, engine::Session::open(model.executor()));
  std::vector<engine::AdapterUse> uses;
  for (const std::string& text : files) {
    const AdapterFile file = parse_adapter_file(text);
    ORRERY_TRY(const std::uint32_t id, model.load_adapter(file.path, storage::system_io()));
    uses.push_back({id, file.scale});
  }
  ORRERY_TRY_VOID(session->set_adapters(uses));
  return session;
}

}  // namespace orrery::cli

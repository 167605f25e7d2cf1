#include "cli/options.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>

#include "cli/app.hpp"

namespace orrery::cli {

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::range(int least, int most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option Option::range(double least, double most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option Option::one_of(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Option Option::values(int least, int most) {
  option_->expected(least, most);
  return *this;
}

Option Option::repeatable() {
  option_->expected(1)->take_all();
  return *this;
}

bool Option::given() const {
  return option_->count() > 0;
}

Command Command::command(const std::string& name, const std::string& description) {
  return {app_->add_subcommand(name, description), chosen_};
}

void Command::requires_command() {
  app_->require_subcommand(1);
}

void Command::accepts_one_command() {
  app_->require_subcommand(0, 1);
}

template <class T>
Option Command::option(const std::string& names, T& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}

template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::option(const std::string&, int&, const std::string&);
template Option Command::option(const std::string&, std::uint32_t&, const std::string&);
template Option Command::option(const std::string&, std::optional<float>&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::int32_t>&,
                                const std::string&);
template Option Command::option(const std::string&, std::optional<std::uint64_t>&,
                                const std::string&);

Option Command::option(const std::string& names, std::function<Status(const std::string&)> read,
                       const std::string& help) {
  return Option(app_->add_option_function<std::string>(
      names,
      [names, read = std::move(read)](const std::string& text) {
        const Status status = read(text);
        if (!status) throw CLI::ValidationError(names, status.error().message);
      },
      help));
}

Option Command::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

void Command::does(Action action) {
  app_->callback([app = app_, chosen = chosen_, action = std::move(action)] {
    if (app->get_subcommands().empty()) *chosen = action;
  });
}

CommandLine::CommandLine(const std::string& name, const std::string& description,
                         const std::string& version)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->set_version_flag("--version", version);
  app_->failure_message(CLI::FailureMessage::simple);
}

CommandLine::~CommandLine() = default;

Command CommandLine::root() {
  return {app_.get(), &chosen_};
}

std::optional<int> CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? kExitDone : kExitUsage;
  }
  return std::nullopt;
}

Status CommandLine::run() const {
  return chosen_ ? chosen_() : Status{};
}

}  // namespace orrery::cli

// What a command takes from the command line. The parser behind it takes longer to compile than all
// commands together, so options.cpp alone knows it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace orrery::cli {

// What the chosen command does once all arguments are parsed.
using Action = std::function<Status()>;

// A flag, an option or an argument without a name; lives as long as the CommandLine.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  Option range(int least, int most);
  Option range(double least, double most);
  Option one_of(const std::vector<std::string>& values);
  Option excludes(Option other);
  Option values(int least, int most);
  Option repeatable();
  bool given() const;

 private:
  CLI::Option* option_;
};

// A command, or a part of one (`orrery inspect plan`). What options write to must outlive the
// parsing.
class Command {
 public:
  Command(CLI::App* app, Action* chosen) : app_(app), chosen_(chosen) {}

  Command command(const std::string& name, const std::string& description);
  void requires_command();     // one of its own commands must be named
  void accepts_one_command();  // or none

  // `names`: "-p,--prompt", or "MODEL" for an argument without a name. T: std::string, int,
  // std::uint32_t, a list of strings, or an optional float, std::int32_t or std::uint64_t.
  template <class T>
  Option option(const std::string& names, T& value, const std::string& help);
  // `read` refuses a value with a sentence for who typed it.
  Option option(const std::string& names, std::function<Status(const std::string&)> read,
                const std::string& help);
  Option flag(const std::string& names, bool& value, const std::string& help);

  // What it does, unless a command of its own is named.
  void does(Action action);

 private:
  CLI::App* app_;
  Action* chosen_;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description, const std::string& version);
  ~CommandLine();

  Command root();
  // The exit code, where nothing is left to do: help and version are printed, wrong usage is said.
  std::optional<int> parse(int argc, const char* const* argv);
  Status run() const;  // what the chosen command does

 private:
  std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace orrery::cli

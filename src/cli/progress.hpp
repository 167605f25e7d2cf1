// One line on stderr for what takes longer than a second.
#pragma once

#include <cstdint>
#include <string>

namespace orrery::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  // On a terminal the line is drawn anew at most ten times a second; elsewhere every ten percent.
  void update(std::uint64_t done, std::uint64_t total);
  void finish();

 private:
  std::string what_;
  double start_;
  double drawn_ = 0;
  int tenth_ = 0;
  bool visible_ = false;
};

}  // namespace orrery::cli

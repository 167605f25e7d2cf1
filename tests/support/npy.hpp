// Reads what numpy.save writes: version 1, little endian f32 or f64, C order.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace orrery::testing {

struct Npy {
  std::vector<std::size_t> shape;
  std::vector<double> values;
};

// Nothing when the file is absent or of another kind.
inline std::optional<Npy> read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string data(std::istreambuf_iterator<char>(file), {});
  if (data.size() < 10 || data.compare(0, 8, std::string("\x93NUMPY\x01\x00", 8)) != 0) return {};
  const std::size_t header_bytes =
      static_cast<unsigned char>(data[8]) + 256UL * static_cast<unsigned char>(data[9]);
  const std::string header = data.substr(10, header_bytes);
  const bool wide = header.find("'<f8'") != std::string::npos;
  if (!wide && header.find("'<f4'") == std::string::npos) return {};
  if (header.find("'fortran_order': False") == std::string::npos) return {};
  Npy npy;
  std::size_t n = 1;
  std::size_t at = header.find('(');
  const std::size_t end = header.find(')');
  while (at < end) {
    at = header.find_first_of("0123456789", at);
    if (at > end) break;
    npy.shape.push_back(std::stoul(header.substr(at)));
    n *= npy.shape.back();
    at = header.find_first_of(",)", at);
  }
  const std::size_t begin = 10 + header_bytes, size = wide ? 8 : 4;
  if (data.size() != begin + n * size) return {};
  for (std::size_t i = 0; i < n; ++i) {
    float narrow = 0.0F;
    double value = 0.0;
    if (wide) {
      std::memcpy(&value, data.data() + begin + i * size, size);
    } else {
      std::memcpy(&narrow, data.data() + begin + i * size, size);
    }
    npy.values.push_back(wide ? value : double{narrow});
  }
  return npy;
}

}  // namespace orrery::testing

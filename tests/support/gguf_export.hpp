// Writes what model::gguf_image() makes of a folder, and changes safetensors for tests of it.
#pragma once

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/gguf_image.hpp"
#include "storage/gguf_writer.hpp"

namespace orrery::testing {

// A GGUF file of the model, without its tokenizer, everything in F32: exact.
inline Status write_f32(const std::string& folder, const std::string& out) {
  storage::Io& io = storage::system_io();
  ORRERY_TRY(const auto checkpoint, storage::Checkpoint::open(folder, io));
  ORRERY_TRY(const model::GgufImage image, model::gguf_image(checkpoint));
  std::vector<storage::GgufTensor> targets;
  for (const model::ImageTensor& tensor : image.tensors) {
    targets.push_back(tensor.as);
    targets.back().type = DType::f32;
  }
  ORRERY_TRY(auto writer, storage::GgufWriter::create(out, image.metadata, targets, io));
  for (const model::ImageTensor& tensor : image.tensors) {
    std::vector<float> row(tensor.as.dims[0]);
    for (std::uint64_t r = 0; r < tensor.as.n_rows(); ++r) {
      tensor.read_row(r, row.data());
      ORRERY_TRY_VOID(writer.append(std::as_bytes(std::span(row))));
    }
  }
  return writer.finish();
}

// Rewrites a safetensors file: `edit` changes the header and the data behind it.
inline void edit_safetensors(const std::string& path,
                             const std::function<void(nlohmann::json&, std::string&)>& edit) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  nlohmann::json header = nlohmann::json::parse(bytes.substr(sizeof(size), size));
  std::string data = bytes.substr(sizeof(size) + size);
  edit(header, data);
  const std::string text = header.dump();
  size = text.size();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << text << data;
}

}  // namespace orrery::testing

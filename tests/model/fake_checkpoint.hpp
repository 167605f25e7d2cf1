// A checkpoint made in memory: a tiny model of zeros that tests bend out of shape.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/checkpoint.hpp"

namespace orrery::model {

class FakeCheckpoint : public storage::Checkpoint {
 public:
  storage::Format format() const override { return format_; }
  const std::string& path() const override { return path_; }
  std::span<const std::string> files() const override { return {}; }
  const storage::Metadata& metadata() const override { return metadata_; }
  std::span<const storage::TensorInfo> tensors() const override { return tensors_; }
  const storage::TensorInfo* find(std::string_view name) const override {
    const auto found = std::ranges::find(tensors_, name, &storage::TensorInfo::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  std::string_view config_json() const override { return config_; }
  std::string_view tokenizer_json() const override { return {}; }
  std::string_view tokenizer_config_json() const override { return {}; }
  std::string_view generation_config_json() const override { return {}; }
  std::string_view chat_template_jinja() const override { return {}; }
  std::span<const std::string> warnings() const override { return {}; }
  Status check_files(bool /*on_disk*/) const override { return {}; }

  // dims[0] is the contiguous one.
  void add(std::string name, DType type, std::vector<std::uint64_t> dims) {
    storage::TensorInfo info{};
    info.name = std::move(name);
    info.type = type;
    info.n_dims = static_cast<std::uint32_t>(dims.size());
    dims.resize(4, 1);
    std::ranges::copy(dims, info.dims.begin());
    const DTypeInfo& element = dtype_info(type);
    info.bytes = info.n_elements() / element.block_len * element.block_bytes;
    if (has_data_) {
      data_.push_back(std::make_unique<std::vector<std::byte>>(info.bytes));
      info.data = data_.back()->data();
    }
    tensors_.push_back(std::move(info));
  }
  void remove(std::string_view name) {
    std::erase_if(tensors_, [&](const storage::TensorInfo& info) { return info.name == name; });
  }
  void replace(std::string name, DType type, std::vector<std::uint64_t> dims) {
    remove(name);
    add(std::move(name), type, std::move(dims));
  }

  storage::Format format_ = storage::Format::gguf;
  storage::Metadata metadata_;
  std::string config_;
  bool has_data_ = true;

 private:
  std::string path_ = "fake";
  std::vector<storage::TensorInfo> tensors_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> data_;
};

using Change = std::pair<std::string, storage::MetaValue>;

// A llama of one layer: hidden 64, 4 heads of 16, 2 KV heads, ffn 96, 32 tokens. `changes` replace
// keys (with the architecture's prefix); a change to an empty string view removes the key.
inline std::shared_ptr<FakeCheckpoint> fake_llama(const std::vector<Change>& changes = {}) {
  using std::uint64_t;
  auto fake = std::make_shared<FakeCheckpoint>();
  std::vector<Change> keys = {
      {"general.architecture", std::string_view("llama")},
      {"llama.block_count", uint64_t{1}},
      {"llama.context_length", uint64_t{128}},
      {"llama.embedding_length", uint64_t{64}},
      {"llama.feed_forward_length", uint64_t{96}},
      {"llama.attention.head_count", uint64_t{4}},
      {"llama.attention.head_count_kv", uint64_t{2}},
      {"llama.attention.layer_norm_rms_epsilon", 1e-5},
      {"llama.rope.freq_base", 10000.0},
  };
  for (const Change& change : changes) {
    std::erase_if(keys, [&](const Change& key) { return key.first == change.first; });
    const auto* text = std::get_if<std::string_view>(&change.second);
    if (text == nullptr || !text->empty()) keys.push_back(change);
  }
  for (const auto& [key, value] : keys) fake->metadata_.insert(key, value);
  fake->add("token_embd.weight", DType::f16, {64, 32});
  fake->add("output_norm.weight", DType::f32, {64});
  fake->add("blk.0.attn_norm.weight", DType::f32, {64});
  fake->add("blk.0.attn_q.weight", DType::q4_0, {64, 64});
  fake->add("blk.0.attn_k.weight", DType::q4_0, {64, 32});
  fake->add("blk.0.attn_v.weight", DType::q4_0, {64, 32});
  fake->add("blk.0.attn_output.weight", DType::q4_0, {64, 64});
  fake->add("blk.0.ffn_norm.weight", DType::f32, {64});
  fake->add("blk.0.ffn_gate.weight", DType::q4_0, {64, 96});
  fake->add("blk.0.ffn_up.weight", DType::q4_0, {64, 96});
  fake->add("blk.0.ffn_down.weight", DType::q4_0, {96, 64});
  return fake;
}

}  // namespace orrery::model

// A session that grows from version to version, as KvFile sees it: what a file must hold when a
// version was committed is known exactly.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/kv_file.hpp"

namespace orrery::engine {

// Version v has 100 + 40 v tokens in two groups: whole pages never change, the last one does.
class KvVersions {
 public:
  explicit KvVersions(std::uint64_t page_bytes = 1000) : page_bytes_(page_bytes) {}

  std::uint64_t page_bytes(std::size_t group) const { return group == 0 ? page_bytes_ : 4096; }

  Status commit(KvFile& file, int version) {
    KvIndex next{kIdentity, tokens(version), {}, text(version)};
    const std::vector<std::uint64_t> keys = page_keys(kIdentity, next.tokens);
    bytes_.clear();
    PageBytes spans(2);
    next.pages.resize(2);
    bytes_.reserve(2 * keys.size());
    for (std::size_t g = 0; g < 2; ++g) {
      for (std::uint32_t entry = 0; entry < keys.size(); ++entry) {
        bytes_.push_back(page(version, g, entry));
        spans[g].push_back(std::as_bytes(std::span(bytes_.back())));
        SavedPage saved{entry, 0, page_checksum(spans[g].back(), keys[entry])};
        if (file.index() && entry < file.index()->pages[g].size() &&
            file.index()->pages[g][entry].checksum == saved.checksum) {
          saved.offset = file.index()->pages[g][entry].offset;
        }
        next.pages[g].push_back(saved);
      }
    }
    return file.commit(std::move(next), spans);
  }

  // The version that the file holds whole; -1: none; -2: something that was never committed.
  int version_of(const KvFile& file) const {
    if (!file.index()) return -1;
    const KvIndex& index = *file.index();
    const int version = (static_cast<int>(index.tokens.size()) - 100) / 40;
    if (index.tokens != tokens(version) || index.text != text(version)) return -2;
    for (std::size_t g = 0; g < 2; ++g) {
      for (const SavedPage& saved : index.pages[g]) {
        std::string bytes(page_bytes(g), '\0');
        const auto into = std::as_writable_bytes(std::span(bytes));
        if (!storage::read_at(file.file(), saved.offset, into)) return -2;
        if (bytes != page(version, g, saved.entry)) return -2;
      }
    }
    return version;
  }

  static constexpr KvIdentity kIdentity{1, 2, 3, 4};

 private:
  static std::vector<text::TokenId> tokens(int version) {
    std::vector<text::TokenId> list(static_cast<std::size_t>(100 + 40 * version));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = static_cast<int>(i * i % 977);
    return list;
  }
  static std::string text(int version) { return "text of " + std::to_string(version); }
  std::string page(int version, std::size_t group, std::uint32_t entry) const {
    const bool is_whole = (entry + 1) * 64 <= tokens(version).size();
    std::mt19937 rng(static_cast<std::uint32_t>(1000 * group + entry) +
                     (is_whole ? 0U : 100000U * static_cast<std::uint32_t>(version + 1)));
    std::string bytes(page_bytes(group), static_cast<char>(rng()));
    for (int i = 0; i < 64; ++i) bytes[rng() % bytes.size()] = static_cast<char>(rng());
    return bytes;
  }

  std::uint64_t page_bytes_;
  std::vector<std::string> bytes_;  // of the last commit
};

}  // namespace orrery::engine

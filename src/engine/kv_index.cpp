#include "engine/kv_index.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "base/checked.hpp"
#include "storage/byte_reader.hpp"

namespace orrery::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "session files are little-endian");

constexpr std::uint64_t kPageEntryBytes = 20;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::unexpected<Error> no_index(const std::string& label, std::string_view what) {
  return fail("E_SESSION", fmt::format("{}: is no session that can be used: {}", label, what));
}

Result<std::vector<SavedPage>> decode_pages(storage::ByteReader& reader, std::uint64_t n_pages) {
  ORRERY_TRY(const auto n, reader.read<std::uint32_t>("a number of pages"));
  if (n > n_pages || n > reader.remaining() / kPageEntryBytes) {
    return no_index(reader.label(), "it has more pages than tokens or bytes");
  }
  std::vector<SavedPage> pages(n);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    ORRERY_TRY(pages[i].entry, reader.read<std::uint32_t>("a page"));
    ORRERY_TRY(pages[i].offset, reader.read<std::uint64_t>("a page"));
    ORRERY_TRY(pages[i].checksum, reader.read<std::uint64_t>("a page"));
    if (pages[i].entry >= n_pages || (i > 0 && pages[i].entry <= pages[i - 1].entry)) {
      return no_index(reader.label(), "its pages are out of order");
    }
  }
  return pages;
}

Result<KvIndex> decode(storage::ByteReader& reader) {
  KvIndex index;
  for (std::uint64_t* hash : {&index.identity.model_low, &index.identity.model_high,
                              &index.identity.caches, &index.identity.classes}) {
    ORRERY_TRY(*hash, reader.read<std::uint64_t>("the model"));
  }
  ORRERY_TRY(const auto n_tokens, reader.read<std::uint32_t>("the number of tokens"));
  if (n_tokens > kMaxSavedTokens) return no_index(reader.label(), "it has too many tokens");
  ORRERY_TRY(const std::string_view tokens,
             reader.take(std::uint64_t{n_tokens} * sizeof(text::TokenId), "the tokens"));
  index.tokens.resize(n_tokens);
  std::copy(tokens.begin(), tokens.end(), reinterpret_cast<char*>(index.tokens.data()));
  ORRERY_TRY(const auto n_groups, reader.read<std::uint32_t>("the number of groups"));
  if (n_groups > kMaxSavedGroups) return no_index(reader.label(), "it has too many cache groups");
  for (std::uint32_t g = 0; g < n_groups; ++g) {
    ORRERY_TRY(auto pages, decode_pages(reader, ceil_div(n_tokens, plan::kPageTokens)));
    index.pages.push_back(std::move(pages));
  }
  ORRERY_TRY(const auto text_bytes, reader.read<std::uint64_t>("the length of the text"));
  if (text_bytes > kMaxSavedText) return no_index(reader.label(), "its text is too long");
  ORRERY_TRY(const std::string_view text, reader.take(text_bytes, "the text"));
  index.text = text;
  if (reader.remaining() > 0) return no_index(reader.label(), "something follows its index");
  return index;
}

}  // namespace

std::string_view difference(const KvIdentity& saved, const KvIdentity& mine) {
  if (saved.model_low != mine.model_low || saved.model_high != mine.model_high) {
    return "it is of another model";
  }
  if (saved.caches != mine.caches) return "its cache has other types or shapes (--kv-type)";
  if (saved.classes != mine.classes) {
    return "it was computed in another way (--deterministic, the device, or what the context "
           "length changes)";
  }
  return "";
}

std::vector<std::uint64_t> page_keys(const KvIdentity& identity,
                                     std::span<const text::TokenId> tokens) {
  std::uint64_t key = XXH3_64bits(&identity, sizeof identity);
  std::vector<std::uint64_t> keys;
  for (std::size_t at = 0; at < tokens.size(); at += plan::kPageTokens) {
    const auto block =
        tokens.subspan(at, std::min<std::size_t>(plan::kPageTokens, tokens.size() - at));
    key = XXH3_64bits_withSeed(block.data(), block.size_bytes(), key);
    keys.push_back(key);
  }
  return keys;
}

std::uint64_t page_checksum(std::span<const std::byte> bytes, std::uint64_t key) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), key);
}

std::string encode_index(const KvIndex& index) {
  std::string out;
  put(out, index.identity);
  put(out, static_cast<std::uint32_t>(index.tokens.size()));
  out.append(reinterpret_cast<const char*>(index.tokens.data()),
             index.tokens.size() * sizeof(text::TokenId));
  put(out, static_cast<std::uint32_t>(index.pages.size()));
  for (const std::vector<SavedPage>& pages : index.pages) {
    put(out, static_cast<std::uint32_t>(pages.size()));
    for (const SavedPage& page : pages) {
      put(out, page.entry);
      put(out, page.offset);
      put(out, page.checksum);
    }
  }
  put(out, std::uint64_t{index.text.size()});
  return out + index.text;
}

Result<KvIndex> decode_index(std::span<const std::byte> bytes, const std::string& label) {
  storage::ByteReader reader(bytes, label);
  Result<KvIndex> index = decode(reader);
  if (index || index.error().kind == "E_SESSION") return index;
  return no_index(label, "its index ends too early");
}

}  // namespace orrery::engine

// Filters that compare: sorting, grouping, extremes, sums.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "text/jinja_paths.hpp"
#include "text/jinja_sort.hpp"

namespace orrery::text::jinja {

namespace {

// An item and what it is compared by.
struct Keyed {
  Value key;
  Value item;
};

void sort_keyed(Interpreter& interpreter, std::vector<Keyed>& entries, bool reverse) {
  merge_sort(entries, [&](const Keyed& a, const Keyed& b) {
    return reverse ? interpreter.less(b.key, a.key) : interpreter.less(a.key, b.key);
  });
}

Value items_in_order(Interpreter& interpreter, std::vector<Keyed>& entries) {
  ValueList out;
  out.reserve(entries.size());
  for (Keyed& entry : entries) out.push_back(std::move(entry.item));
  return interpreter.list(std::move(out));
}

Value filter_sort(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 3> kNames{"reverse", "case_sensitive", "attribute"};
  const Bound bound("sort", args, kNames, 0);
  const bool fold = !bound.flag(1, false);
  const auto paths = attribute_paths(interpreter, bound.value_or(2, Value::none()));
  std::vector<Keyed> entries;
  for (Value& item : interpreter.to_list(value)) {
    ValueList keys;
    for (const AttributePath& path : paths) {
      Value key = path.get(interpreter, item);
      keys.push_back(fold ? fold_case(interpreter, key) : std::move(key));
    }
    entries.push_back({interpreter.list(std::move(keys)), std::move(item)});
  }
  sort_keyed(interpreter, entries, bound.flag(0, false));
  return items_in_order(interpreter, entries);
}

Value filter_dictsort(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 3> kNames{"case_sensitive", "by", "reverse"};
  const Bound bound("dictsort", args, kNames, 0);
  const std::string by = bound.has(1) ? interpreter.str(bound[1]).bytes() : "key";
  if (by != "key" && by != "value") raise("dictsort sorts by key or value");
  if (!value.is(Kind::dict)) raise("dictsort needs a mapping");
  const bool fold = !bound.flag(0, false);
  std::vector<Keyed> entries;
  for (const DictEntry& entry : dict_of(value).entries) {
    const Value& key = by == "key" ? entry.key : entry.value;
    entries.push_back(
        {fold ? fold_case(interpreter, key) : key, interpreter.tuple({entry.key, entry.value})});
  }
  sort_keyed(interpreter, entries, bound.flag(2, false));
  return items_in_order(interpreter, entries);
}

// What two values that Python's set would hold as one have in common.
std::string set_key(Interpreter& interpreter, const Value& value) {
  interpreter.step();
  if (value.is_string()) return "s" + std::string(bytes_of(value));
  if (value.is_integral()) return "n" + std::to_string(value.as_int());
  if (value.is(Kind::real)) {
    const double whole = value.real;
    const bool integral = whole >= -9e15 && whole <= 9e15 &&
                          whole == static_cast<double>(static_cast<std::int64_t>(whole));
    return "n" + (integral ? std::to_string(static_cast<std::int64_t>(whole)) : real_repr(whole));
  }
  if (value.is_none()) return "0";
  if (value.is_undefined()) return "u";
  if (value.is(Kind::tuple)) {
    const DepthGuard guard(interpreter);
    std::string out = "(";
    for (const Value& item : items_of(value)) {
      const std::string part = set_key(interpreter, item);
      out += std::to_string(part.size()) + ":" + part;
      if (out.size() > kMaxStringBytes) raise("a key of more than 16 MiB");
    }
    return out;
  }
  raise("a value of type " + std::string(type_name(value)) + " cannot be in a set");
}

Value filter_unique(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"case_sensitive", "attribute"};
  const Bound bound("unique", args, kNames, 0);
  const bool fold = !bound.flag(0, false);
  const AttributePath path(interpreter, bound.value_or(1, Value::none()));
  std::unordered_set<std::string> seen;
  ValueList out;
  for (Value& item : interpreter.to_list(value)) {
    Value key = path.get(interpreter, item);
    if (fold) key = fold_case(interpreter, key);
    if (seen.insert(set_key(interpreter, key)).second) out.push_back(std::move(item));
  }
  return interpreter.generator(std::move(out));
}

Value filter_groupby(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 3> kNames{"attribute", "default", "case_sensitive"};
  const Bound bound("groupby", args, kNames, 1);
  const bool fold = !bound.flag(2, false);
  std::optional<Value> fallback;
  if (bound.has(1) && !bound[1].is_none()) fallback = bound[1];
  const AttributePath path(interpreter, bound[0], fallback);
  std::vector<Keyed> entries;
  for (Value& item : interpreter.to_list(value)) {
    Value key = path.get(interpreter, item);
    entries.push_back({fold ? fold_case(interpreter, key) : std::move(key), std::move(item)});
  }
  sort_keyed(interpreter, entries, false);
  ValueList out;
  for (std::size_t begin = 0; begin < entries.size();) {
    std::size_t end = begin;
    ValueList members;
    while (end < entries.size() && interpreter.equal(entries[end].key, entries[begin].key)) {
      members.push_back(entries[end++].item);
    }
    if (end == begin) raise("groupby: a key that does not equal itself");
    Value grouper = path.get(interpreter, entries[begin].item);
    out.push_back(interpreter.tuple({std::move(grouper), interpreter.list(std::move(members))}));
    items_object(out.back()).view_name = kGroupName;
    begin = end;
  }
  return interpreter.list(std::move(out));
}

template <bool kMost>
Value filter_extreme(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"case_sensitive", "attribute"};
  const Bound bound(kMost ? "max" : "min", args, kNames, 0);
  const bool fold = !bound.flag(0, false);
  const AttributePath path(interpreter, bound.value_or(1, Value::none()));
  Keyed best{Value::undefined(), Value::undefined()};
  bool first = true;
  for (Value& item : interpreter.to_list(value)) {
    Value key = path.get(interpreter, item);
    if (fold) key = fold_case(interpreter, key);
    const bool better =
        first || (kMost ? interpreter.less(best.key, key) : interpreter.less(key, best.key));
    if (better) best = {std::move(key), std::move(item)};
    first = false;
  }
  return best.item;
}

Value filter_sum(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"attribute", "start"};
  const Bound bound("sum", args, kNames, 0);
  const AttributePath path(interpreter, bound.value_or(0, Value::none()));
  Value total = bound.value_or(1, Value::of_int(0));
  if (total.is_string()) raise("sum does not join strings");
  for (const Value& item : interpreter.to_list(value)) {
    total = interpreter.binary(Op::add, total, path.get(interpreter, item));
  }
  return total;
}

}  // namespace

std::span<const FilterEntry> order_filters() {
  static constexpr auto kFilters = std::to_array<FilterEntry>({
      {"sort", filter_sort},
      {"dictsort", filter_dictsort},
      {"unique", filter_unique},
      {"groupby", filter_groupby},
      {"min", filter_extreme<false>},
      {"max", filter_extreme<true>},
      {"sum", filter_sum},
  });
  return kFilters;
}

}  // namespace orrery::text::jinja

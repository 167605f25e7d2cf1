#include "text/jinja_value.hpp"

#include <algorithm>

namespace orrery::text::jinja {

namespace {
constexpr std::size_t kIndexFrom = 12;  // dicts with more entries get a hash index
constexpr std::uint32_t kMaxNesting = 256;

std::size_t items_bytes(const ValueList& values) {
  return sizeof(ItemsObject) + values.capacity() * sizeof(Value);
}

std::size_t dict_bytes(const std::vector<DictEntry>& members) {
  const std::size_t index = members.size() > kIndexFrom ? members.size() * 48 : 0;
  return sizeof(DictObject) + members.capacity() * sizeof(DictEntry) + index;
}

std::uint32_t checked_nesting(std::uint32_t nesting) {
  if (nesting > kMaxNesting) raise("a list or dict is nested more than 256 deep");
  return nesting;
}
}  // namespace

void raise(std::string message) {
  throw RenderError{std::move(message)};
}

void Budget::take(std::size_t bytes) {
  if (bytes > limit_ || used_ > limit_ - bytes) {
    raise("the template needs more than " + std::to_string(limit_ >> 20U) + " MiB of memory");
  }
  used_ += bytes;
}

Object::Object(Budget* budget, std::size_t bytes) : budget_(budget), bytes_(bytes) {
  if (budget_ != nullptr) budget_->take(bytes_);
}

Object::~Object() {
  if (budget_ != nullptr) budget_->give_back(bytes_);
}

void release(Object* object) {
  thread_local std::vector<Object*> waiting;
  thread_local bool draining = false;
  waiting.push_back(object);
  if (draining) return;
  draining = true;
  while (!waiting.empty()) {
    Object* next = waiting.back();
    waiting.pop_back();
    delete next;
  }
  draining = false;
}

Value Value::scalar(Kind kind, std::int64_t value) {
  Value out;
  out.kind = kind;
  out.integer = value;
  return out;
}

Value Value::of_bool(bool value) {
  Value out;
  out.kind = Kind::boolean;
  out.boolean = value;
  return out;
}

Value Value::of_int(std::int64_t value, bool markup) {
  Value out = scalar(Kind::integer, value);
  out.markup = markup;
  return out;
}

Value Value::of_real(double value, bool markup) {
  Value out;
  out.kind = Kind::real;
  out.real = value;
  out.markup = markup;
  return out;
}

Value Value::of(Kind kind, std::shared_ptr<Object> object) {
  Value out = scalar(kind, 0);
  out.object = std::move(object);
  return out;
}

ItemsObject::ItemsObject(Budget* budget, ValueList values, std::uint32_t nesting)
    : Object(budget, items_bytes(values)),
      items(std::move(values)),
      depth(checked_nesting(nesting)) {}

DictObject::DictObject(Budget* budget, std::vector<DictEntry> members, std::uint32_t nesting)
    : Object(budget, dict_bytes(members)),
      entries(std::move(members)),
      depth(checked_nesting(nesting)) {
  if (entries.size() <= kIndexFrom) return;
  index_.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].key.is_string()) index_.emplace(bytes_of(entries[i].key), i);
  }
}

const Value* DictObject::find(std::string_view key) const {
  if (entries.size() > kIndexFrom) {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &entries[found->second].value;
  }
  for (const DictEntry& entry : entries) {
    if (entry.key.is_string() && bytes_of(entry.key) == key) return &entry.value;
  }
  return nullptr;
}

const Value* DictObject::find(const Value& key) const {
  if (key.is_string()) return find(bytes_of(key));
  for (const DictEntry& entry : entries) {
    if (entry.key.is_number() && key.is_number() && same_number(entry.key, key))
      return &entry.value;
    if (entry.key.is_none() && key.is_none()) return &entry.value;
  }
  return nullptr;
}

RangeObject::RangeObject(Budget* budget, std::int64_t first, std::int64_t end, std::int64_t stride)
    : Object(budget, sizeof(RangeObject)), start(first), stop(end), step(stride), length(0) {
  using Wide = __int128;
  const Wide span = step > 0 ? Wide{stop} - start : Wide{start} - stop;
  const Wide width = step > 0 ? Wide{step} : -Wide{step};
  if (span <= 0) return;
  const Wide count = (span + width - 1) / width;
  constexpr Wide kMost = INT64_MAX;
  length = static_cast<std::int64_t>(std::min(count, kMost));
}

Value* NamespaceObject::find(std::string_view name) {
  for (auto& [key, value] : members) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value constant_string(std::string bytes) {
  return Value::of(Kind::string, make_object<StringObject>(nullptr, Text(std::move(bytes), true)));
}

std::string_view type_name(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return value.safe ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::view:
      return items_object(value).view_name;
    case Kind::generator:
      return "generator";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::name_space:
      return "Namespace";
    case Kind::macro:
      return "Macro";
    case Kind::function:
      return "function";
    case Kind::method:
      return "builtin_function_or_method";
    case Kind::loop:
      return "LoopContext";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
  }
  return "object";
}

bool truthy(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer != 0;
    case Kind::real:
      return value.real != 0.0;
    case Kind::string:
      return !text_of(value).empty();
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return !items_of(value).empty();
    case Kind::dict:
      return !dict_of(value).entries.empty();
    case Kind::range:
      return range_of(value).length != 0;
    default:
      return true;
  }
}

bool same_number(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  return a.as_real() == b.as_real();
}

std::uint32_t nesting_of(const Value& value) {
  if (value.is_items()) return items_object(value).depth;
  if (value.is(Kind::dict)) return dict_of(value).depth;
  return 0;
}

}  // namespace orrery::text::jinja

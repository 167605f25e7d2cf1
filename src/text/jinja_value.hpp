// Values of the template language: Python's, as far as templates can see them. Containers never
// change after they are made (the sandbox of transformers refuses it), so sharing is safe; only
// namespaces, loops and generators have state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja_text.hpp"

namespace orrery::text::jinja {

using NameId = std::int32_t;  // index into the names of a template
inline constexpr NameId kNoName = -1;

// What stops a rendering; caught where the interpreter ends (chat_template.cpp).
struct RenderError {
  std::string message;
};
[[noreturn]] void raise(std::string message);

// Bytes held by the values of one rendering.
class Budget {
 public:
  explicit Budget(std::size_t limit) : limit_(limit) {}
  void take(std::size_t bytes);
  void give_back(std::size_t bytes) { used_ -= bytes; }

 private:
  std::size_t used_ = 0;
  std::size_t limit_;
};

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  view,       // dict.keys(), .values(), .items(): iterable and sized, not indexable
  generator,  // what map, select, ... give: can be walked once
  dict,
  range,
  name_space,
  macro,
  function,
  method,
  loop,
  cycler,
  joiner,
};

// What a value points to. `budget` is null for the constants of a template, which outlive it.
class Object {
 public:
  Object(Budget* budget, std::size_t bytes);
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object();

 private:
  Budget* budget_;
  std::size_t bytes_;
};

// Destroys an object. Chains of objects (a list in a macro's frame in a list ...) can be millions
// long, so that nothing here recurses: what an object held is destroyed after it, not inside it.
void release(Object* object);

template <class T, class... Args>
std::shared_ptr<T> make_object(Args&&... args) {
  return std::shared_ptr<T>(new T(std::forward<Args>(args)...), [](T* object) { release(object); });
}

struct Value {
  Kind kind = Kind::undefined;
  bool markup = true;  // numbers and booleans: made by the template, not by a variable
  bool safe = false;   // strings: marked by |safe or |escape
  union {
    bool boolean;
    std::int64_t integer = kNoName;  // undefined: the NameId that was not found
    double real;
  };
  std::shared_ptr<Object> object;

  static Value none() { return scalar(Kind::none, 0); }
  static Value undefined(NameId name = kNoName) { return scalar(Kind::undefined, name); }
  static Value of_bool(bool value);
  static Value of_int(std::int64_t value, bool markup = true);
  static Value of_real(double value, bool markup = true);
  static Value of(Kind kind, std::shared_ptr<Object> object);

  bool is(Kind which) const { return kind == which; }
  bool is_undefined() const { return kind == Kind::undefined; }
  bool is_none() const { return kind == Kind::none; }
  bool is_string() const { return kind == Kind::string; }
  bool is_integral() const { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_number() const { return is_integral() || kind == Kind::real; }
  bool is_items() const { return kind >= Kind::list && kind <= Kind::generator; }
  std::int64_t as_int() const { return kind == Kind::boolean ? (boolean ? 1 : 0) : integer; }
  double as_real() const { return kind == Kind::real ? real : static_cast<double>(as_int()); }

 private:
  static Value scalar(Kind kind, std::int64_t value);
};

struct StringObject final : Object {
  StringObject(Budget* budget, Text value)
      : Object(budget, sizeof(StringObject) + value.footprint()), text(std::move(value)) {}
  Text text;
};

using ValueList = std::vector<Value>;

// A tuple of groupby, whose parts also have the names grouper and list.
inline constexpr std::string_view kGroupName = "_GroupTuple";

// list, tuple, view and generator.
struct ItemsObject final : Object {
  ItemsObject(Budget* budget, ValueList values, std::uint32_t nesting);
  ValueList items;
  std::uint32_t depth;         // containers below and including this one
  std::size_t position = 0;    // generator: the next item
  std::string_view view_name;  // view: dict_keys, dict_values, dict_items; tuple: see kGroupName
};

struct DictEntry {
  Value key;
  Value value;
};

struct DictObject final : Object {
  DictObject(Budget* budget, std::vector<DictEntry> members, std::uint32_t nesting);
  // The entry of a key, or null. String keys only need their bytes.
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;

  std::vector<DictEntry> entries;  // keys are unique
  std::uint32_t depth;

 private:
  std::unordered_map<std::string_view, std::size_t> index_;  // string keys, where there are many
};

struct RangeObject final : Object {
  RangeObject(Budget* budget, std::int64_t first, std::int64_t end, std::int64_t stride);
  std::int64_t at(std::int64_t position) const { return start + position * step; }
  std::int64_t start, stop, step, length;
};

struct NamespaceObject final : Object {
  explicit NamespaceObject(Budget* budget) : Object(budget, sizeof(NamespaceObject)) {}
  Value* find(std::string_view name);
  std::vector<std::pair<std::string, Value>> members;
};

struct CyclerObject final : Object {
  CyclerObject(Budget* budget, ValueList values)
      : Object(budget, sizeof(CyclerObject)), items(std::move(values)) {}
  ValueList items;
  std::size_t position = 0;
};

struct JoinerObject final : Object {
  JoinerObject(Budget* budget, Value value)
      : Object(budget, sizeof(JoinerObject)), separator(std::move(value)) {}
  Value separator;
  bool used = false;
};

inline const Text& text_of(const Value& value) {
  return static_cast<const StringObject&>(*value.object).text;
}
inline std::string_view bytes_of(const Value& value) {
  return text_of(value).view();
}
inline ItemsObject& items_object(const Value& value) {
  return static_cast<ItemsObject&>(*value.object);
}
inline const ValueList& items_of(const Value& value) {
  return items_object(value).items;
}
inline const DictObject& dict_of(const Value& value) {
  return static_cast<const DictObject&>(*value.object);
}
inline const RangeObject& range_of(const Value& value) {
  return static_cast<const RangeObject&>(*value.object);
}

// A constant of the template: markup, not charged to any rendering.
Value constant_string(std::string bytes);

std::string_view type_name(const Value& value);  // as Python names the type
bool truthy(const Value& value);
// A number that Python's dict would treat as the same key as another (1, 1.0 and True are).
bool same_number(const Value& a, const Value& b);
std::uint32_t nesting_of(const Value& value);

}  // namespace orrery::text::jinja

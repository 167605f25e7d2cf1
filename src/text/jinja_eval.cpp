// Expressions.
#include <algorithm>

#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

Value Interpreter::eval(const Expr& expr) {
  const DepthGuard guard(*this);
  step();
  switch (expr.kind) {
    case ExprKind::constant:
      return expr.constant;
    case ExprKind::name:
      return lookup(expr.name);
    case ExprKind::list:
      return list(eval_all(expr.items));
    case ExprKind::tuple:
      return tuple(eval_all(expr.items));
    case ExprKind::dict:
      return eval_dict(expr);
    case ExprKind::attribute:
      return attribute(eval(*expr.items[0]), bytes_of(expr.constant), expr.name);
    case ExprKind::item: {
      const Value value = eval(*expr.items[0]);
      return item(value, eval(*expr.items[1]));
    }
    case ExprKind::slice: {
      const Value value = eval(*expr.items[0]);
      const Value start = eval_optional(expr.items[1]);
      const Value stop = eval_optional(expr.items[2]);
      return slice(value, start, stop, eval_optional(expr.items[3]));
    }
    case ExprKind::call:
      return eval_call(expr, nullptr);
    case ExprKind::filter:
      return eval_filter(expr, nullptr);
    case ExprKind::test:
      return eval_test(expr);
    case ExprKind::unary:
      return eval_unary(expr);
    case ExprKind::binary:
      return eval_binary(expr);
    case ExprKind::compare:
      return eval_compare(expr);
    case ExprKind::concat: {
      Text text;
      for (const ExprPtr& part : expr.items) {
        const Text next = str(eval(*part));
        if (text.size() + next.size() > kMaxStringBytes) raise("a string of more than 16 MiB");
        text.append(next);
      }
      return string(std::move(text));
    }
    case ExprKind::condition: {
      if (truthy(eval(*expr.items[0]))) return eval(*expr.items[1]);
      return expr.items[2] == nullptr ? Value::undefined() : eval(*expr.items[2]);
    }
  }
  return Value::undefined();
}

Value Interpreter::eval_optional(const ExprPtr& expr) {
  return expr == nullptr ? Value::none() : eval(*expr);
}

ValueList Interpreter::eval_all(const std::vector<ExprPtr>& items) {
  ValueList values;
  values.reserve(items.size());
  for (const ExprPtr& part : items) values.push_back(eval(*part));
  return values;
}

Value Interpreter::eval_dict(const Expr& expr) {
  std::vector<DictEntry> entries;
  for (std::size_t i = 0; i + 1 < expr.items.size(); i += 2) {
    Value key = eval(*expr.items[i]);
    put(entries, std::move(key), eval(*expr.items[i + 1]));
  }
  return dict(std::move(entries));
}

Value Interpreter::eval_unary(const Expr& expr) {
  const Value value = eval(*expr.items[0]);
  if (expr.op == Op::logical_not) return Value::of_bool(!truthy(value));
  if (value.is_undefined()) raise_undefined(value);
  if (!value.is_number()) raise("a sign before a " + std::string(type_name(value)));
  if (value.is(Kind::real)) {
    return Value::of_real(expr.op == Op::negative ? -value.real : value.real, value.markup);
  }
  const std::int64_t number = value.as_int();
  if (expr.op == Op::positive) return Value::of_int(number, value.markup);
  return integer_arithmetic(Op::subtract, 0, number, value.markup);
}

Value Interpreter::eval_binary(const Expr& expr) {
  Value left = eval(*expr.items[0]);
  if (expr.op == Op::logical_and) return truthy(left) ? eval(*expr.items[1]) : left;
  if (expr.op == Op::logical_or) return truthy(left) ? left : eval(*expr.items[1]);
  return binary(expr.op, left, eval(*expr.items[1]));
}

bool Interpreter::compare(Op op, const Value& left, const Value& right) {
  switch (op) {
    case Op::equal:
      return equal(left, right);
    case Op::not_equal:
      return !equal(left, right);
    case Op::less:
      return less(left, right);
    case Op::greater:
      return less(right, left);
    case Op::less_equal:
      return less(left, right) || equal(left, right);
    case Op::greater_equal:
      return less(right, left) || equal(left, right);
    case Op::in:
      return contains(right, left);
    default:
      return !contains(right, left);
  }
}

Value Interpreter::eval_compare(const Expr& expr) {
  Value left = eval(*expr.items[0]);
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = eval(*expr.items[i + 1]);
    if (!compare(expr.ops[i], left, right)) return Value::of_bool(false);
    left = std::move(right);
  }
  return Value::of_bool(true);
}

CallArgs Interpreter::eval_arguments(const Arguments* arguments) {
  CallArgs args;
  if (arguments == nullptr) return args;
  args.positional = eval_all(arguments->positional);
  for (const auto& [name, expr] : arguments->named) args.named.emplace_back(name, eval(*expr));
  if (arguments->spread_list != nullptr) {
    for (Value& value : to_list(eval(*arguments->spread_list))) {
      args.positional.push_back(std::move(value));
    }
  }
  if (arguments->spread_dict != nullptr) {
    const Value members = eval(*arguments->spread_dict);
    if (!members.is(Kind::dict)) raise("** needs a mapping");
    for (const DictEntry& entry : dict_of(members).entries) {
      if (!entry.key.is_string()) raise("the names of arguments must be strings");
      std::string name(bytes_of(entry.key));
      for (const auto& [known, value] : args.named) {
        if (known == name) raise("the argument '" + name + "' is given twice");
      }
      step(1 + args.named.size());
      args.named.emplace_back(std::move(name), entry.value);
    }
  }
  return args;
}

Value Interpreter::eval_filter(const Expr& expr, const Value* body) {
  const ExprPtr& source = expr.items[0];
  Value value;
  if (source == nullptr) {
    value = *body;
  } else {
    value = source->kind == ExprKind::filter && body != nullptr ? eval_filter(*source, body)
                                                                : eval(*source);
  }
  if (expr.filter == nullptr) raise("there is no filter '" + name_of(expr.name) + "'");
  const CallArgs args = eval_arguments(expr.arguments.get());
  line_ = expr.line;
  return expr.filter->function(*this, value, args);
}

Value Interpreter::eval_test(const Expr& expr) {
  const Value value = eval(*expr.items[0]);
  if (expr.test == nullptr) raise("there is no test '" + name_of(expr.name) + "'");
  const CallArgs args = eval_arguments(expr.arguments.get());
  return Value::of_bool(expr.test->function(*this, value, args));
}

Value Interpreter::eval_call(const Expr& expr, const Value* caller) {
  const Value callee = eval(*expr.items[0]);
  if (callee.is_undefined()) raise_undefined(callee);
  CallArgs args = eval_arguments(expr.arguments.get());
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(callee, std::move(args));
}

}  // namespace orrery::text::jinja

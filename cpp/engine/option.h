// An option as a row of a table, with all that the command line, JSON and Python need to read, check, describe and save
// it. The tables are in request_options.h and generator_options.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/argument.h"
#include "sampling/transforms.h"

namespace specdec {

// Used instead of a number of layers.
constexpr int all_layers = -1, layers_that_fit = -2;

}  // namespace specdec

namespace specdec::option {

// The value of an option, independent of its source. monostate: not given.
using Value = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string,
                           std::vector<std::string>, std::vector<Token>, sampling::LogitBias>;

// Types, and what a Value of each holds.
struct Flag {};  // bool; on the command line the flag inverts the default
struct Whole {   // int64_t
  Range range;
};
struct Number {  // double
  Range range;
};
struct Seed {};         // uint64_t, any
struct DraftTokens {};  // int64_t, 0 .. max_draft_tokens, or the string "auto"
struct Layers {};       // int64_t from 0, or the strings "all" (or -1) and "auto"
struct Choice {         // one of these strings
  std::vector<std::string> names;
};
struct String {};     // string
struct Schema {};     // string, JSON; in JSON and Python also an object
struct Object {};     // string, JSON of an object; in JSON and Python also an object
struct Path {};       // string
struct Draft {};      // string, see draft_source()
struct Texts {};      // strings; on the command line one per occurrence of the flag
struct Addresses {};  // strings; on the command line with commas between
struct Biases {};     // LogitBias
struct Tokens {};     // token ids; on the command line with commas between
using Type = std::variant<Flag, Whole, Number, Seed, DraftTokens, Layers, Choice, String, Schema, Object, Path, Draft,
                          Texts, Addresses, Biases, Tokens>;

// The option on the command line.
struct Flags {
  std::string group;               // heading in the help
  std::vector<std::string> names;  // "-m", "--model"; none: no flag
  std::string placeholder;         // of the value
  std::string help;                // the default is appended unless the text contains "(default"
  // An extra accepted word and its value: {"-1", {}} is a random seed.
  std::string word = {};
  Value word_value = {};
};

struct Description {
  std::string name;  // in Python and JSON
  Type type;
  Flags flags = {};
  bool is_optional = false;              // accepts monostate
  bool changes_texts = true;             // false: cannot change the generated text
  std::string requirement() const;       // "a whole number from 0 to 63"
  void check(const Value& value) const;  // of the right type. Throws WrongValue
};

template <class Owner>
struct Option : Description {
  Value (*get)(const Owner& owner);
  void (*set)(Owner& owner, const Value& value);  // a checked value
};

template <class Owner>
using Table = std::vector<Option<Owner>>;

// Null if there is no option of that name.
template <class Owner>
const Option<Owner>* find(const Table<Owner>& table, const std::string& name) {
  for (const Option<Owner>& row : table) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Throws WrongValue.
template <class Owner>
void check(const Table<Owner>& table, const Owner& owner) {
  for (const Option<Owner>& row : table) row.check(row.get(owner));
}

std::string text(const Value& value);  // "0.95", "a, b"; empty for monostate

// ---- For defining tables

Value layers_value(const std::optional<int>& num_layers);
std::optional<int> layers_of(const Value& value);
Value draft_tokens_value(int num_draft_tokens);
int draft_tokens_of(const Value& value);

inline Value to_value(bool value) { return value; }
inline Value to_value(int value) { return static_cast<std::int64_t>(value); }
template <class T>
Value to_value(const T& value) {
  return value;
}
template <class T>
Value to_value(const std::optional<T>& value) {
  return value ? to_value(*value) : Value();
}

inline void from_value(const Value& value, int& member) { member = static_cast<int>(std::get<std::int64_t>(value)); }
template <class T>
void from_value(const Value& value, T& member) {
  member = std::get<T>(value);
}
template <class T>
void from_value(const Value& value, std::optional<T>& member) {
  if (std::holds_alternative<std::monostate>(value)) member.reset();
  else from_value(value, member.emplace());
}

template <class Owner>
Option<Owner> row(Description description, Value (*get)(const Owner&), void (*set)(Owner&, const Value&)) {
  return {std::move(description), get, set};
}

// A row for a member, or a member of a member, that is an int, one of Value's types, or an optional of these.
template <class Owner, auto... members>
Option<Owner> member_row(Description description) {
  return {std::move(description), [](const Owner& owner) { return to_value((owner.*....*members)); },
          [](Owner& owner, const Value& value) { from_value(value, (owner.*....*members)); }};
}

}  // namespace specdec::option

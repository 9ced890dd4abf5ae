// Rules for JSON output that its grammar does not express: numbers end, long strings end in time, items and names
// differ. A grammar would need a state for each character and for each set of items.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/index.h"
#include "sampling/constraint.h"

namespace specdec {

// Items of an array or names of an object's properties must differ.
struct Distinct {
  std::vector<std::string> values;  // all possible values, as they are written; empty: any strings or integers

  bool operator==(const Distinct& other) const { return values == other.values; }
};

struct JsonLimits {
  std::map<std::string, int> max_lengths;  // of strings, by the property whose value (or array element) they are
  int max_length = std::numeric_limits<int>::max();  // of other strings
  int max_digits = 16;                               // in a row; an exponent has at most 2
  // By the property whose value is the array or object; "": the whole output.
  std::map<std::string, Distinct> items, names;
};

// Reads valid JSON on one line, byte by byte.
class JsonPlace {
 public:
  explicit JsonPlace(const JsonLimits& limits) : limits_(&limits) {}

  // A copy that can read on without changing this one; this one must not read meanwhile.
  JsonPlace trial() const;

  void read(const std::string& bytes);

  bool in_string() const { return in_string_; }
  bool is_key() const { return is_key_; }           // the string is a key
  int length() const { return length_; }            // of the string so far, in characters
  int escape_left() const { return escape_left_; }  // bytes still missing in the string's escape sequence
  const std::string& property() const;              // the property whose value this is; empty: none
  int num_digits() const { return num_digits_; }    // of the number so far, in a row; 0: not in a number
  bool in_exponent() const { return in_exponent_; }

  bool has_distinct() const;       // whether any open array or object must have different items or names
  bool in_distinct() const;        // whether the next bytes may belong to such an item or name
  bool has_repeated() const;       // whether one came twice or can only come twice
  bool is_any_string() const;      // whether this is in such an item or name, and it may be any string
  bool may_repeat_string() const;  // and so far it is the beginning of an earlier one

 private:
  struct Level {
    bool is_object;
    bool expects_key;
    std::string key;
    const Distinct* distinct;
    std::shared_ptr<std::set<std::string>> used;  // items or names that must differ; those of any length as nlohmann
                                                  // writes them
  };
  void read_in_string(char c);
  void read_outside(char c);
  void open(bool is_object);
  void end_item();
  bool is_used(const std::string& item) const;
  bool can_differ(const std::string& item) const;

  const JsonLimits* limits_;
  std::vector<Level> levels_;
  std::string item_;             // the item that must differ, as far as it is written
  std::set<std::string> added_;  // a trial's additions to the innermost level's `used`
  bool is_trial_ = false;
  bool has_repeated_ = false;
  std::string text_;  // the key as it is written
  bool in_string_ = false, is_key_ = false, in_exponent_ = false;
  int length_ = 0, escape_left_ = 0, num_digits_ = 0;
};

// Precomputed facts about each token of a vocabulary.
class JsonTokens {
 public:
  explicit JsonTokens(std::vector<std::string> pieces);

  const std::string& piece(Token token) const { return pieces_[idx(token)]; }
  bool allows(const JsonLimits& limits, const JsonPlace& place, Token token) const;
  // Removes the tokens that would exceed the limits from a mask of what may come at this place.
  void keep_within(const JsonLimits& limits, const JsonPlace& place, std::uint32_t* words) const;

 private:
  void limit_digits(int room, std::uint32_t* words) const;
  void limit_length(int room, const JsonPlace& place, std::uint32_t* words) const;
  void keep_distinct(const JsonPlace& place, std::uint32_t* words) const;
  bool repeats(const JsonPlace& place, Token token) const;
  int digits(Token token) const;
  int characters(const JsonPlace& place, Token token) const;

  std::vector<std::string> pieces_;
  std::vector<std::pair<Token, int>> digits_;  // tokens that begin with digits, and how many
  std::vector<int> characters_;                // of each token, before its first quote; a lower bound
  int most_digits_ = 0, most_characters_ = 0;
  std::vector<Token> quoted_;  // tokens with a quote
  std::vector<Token> paired_;  // with two or more
};

// Adds these limits to a grammar's constraint.
std::unique_ptr<sampling::Constraint> limited_json(std::unique_ptr<sampling::Constraint> grammar,
                                                   std::shared_ptr<const JsonTokens> tokens, JsonLimits limits);

}  // namespace specdec

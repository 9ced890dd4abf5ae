// Rules for JSON output that its grammar does not express: long strings end in time, items and names differ. A grammar
// would need a state for each character and for each set of items.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
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

// The places of an output, as a graph: from an array or object to the places of its parts. A part may be the place of
// a whole again. Numbers of places; -1: a place without rules in or below it.
struct JsonPlaces {
  static constexpr int no_limit = std::numeric_limits<int>::max();

  struct Place {
    int max_length = no_limit;             // characters of a string here
    std::optional<Distinct> items, names;  // of an array or object here
    std::vector<int> first;                // places of an array's first items
    int items_place = -1;                  // of its other items
    std::map<std::string, int> members;    // places of properties, by the name as it is written, without quotes
    int others = -1;                       // of other properties
  };
  std::vector<Place> places;  // the first: the whole output. Empty: there are no rules

  const Place* at(int number) const { return number < 0 ? nullptr : &places[idx(number)]; }
};

// Items that were written, in order. Copies of a JsonPlace share one; each knows how many of the items are its own, so
// that it stays valid when the text is cut and goes on differently.
class WrittenItems {
 public:
  bool has(const std::string& item, int count) const;
  bool has_beginning(const std::string& begin, int count) const;
  void add(std::string item, int count);  // after the first `count` items

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::map<std::string, int>::iterator> order_;
};

// Reads valid JSON on one line, byte by byte. Copies read on by themselves.
class JsonPlace {
 public:
  explicit JsonPlace(const JsonPlaces& places) : places_(&places), child_(places.places.empty() ? -1 : 0) {}

  // A copy that can read on without changing this one; this one must not read meanwhile.
  JsonPlace trial() const;

  void read(const std::string& bytes);

  bool in_string() const { return in_string_; }
  bool is_key() const { return is_key_; }           // the string is a key
  int length() const { return length_; }            // of the string so far, in characters
  int max_length() const;                           // of the string
  int escape_left() const { return escape_left_; }  // bytes still missing in the string's escape sequence

  bool has_distinct() const;       // whether any open array or object must have different items or names
  bool in_distinct() const;        // whether the next bytes may belong to such an item or name
  bool has_repeated() const;       // whether one came twice or can only come twice
  bool is_any_string() const;      // whether this is in such an item or name, and it may be any string
  bool may_repeat_string() const;  // and so far it is the beginning of an earlier one

 private:
  struct Level {
    bool is_object;
    bool expects_key;
    int place;  // of the array or object
    int index;  // of the item
    const Distinct* distinct;
    std::shared_ptr<WrittenItems> used;  // items or names that must differ; those of any length as nlohmann writes them
    int num_used;
  };
  void read_in_string(char c);
  void read_outside(char c);
  void open(bool is_object);
  void end_item();
  void begin_item();
  bool is_used(const std::string& item) const;
  bool can_differ(const std::string& item) const;

  const JsonPlaces* places_;
  int child_;  // place of the next value
  std::vector<Level> levels_;
  std::string item_;                // the item that must differ, as far as it is written
  std::vector<std::string> added_;  // a trial's additions to the innermost level's `used`
  bool is_trial_ = false;
  bool has_repeated_ = false;
  std::string text_;  // the key as it is written
  bool in_string_ = false, is_key_ = false;
  int length_ = 0, escape_left_ = 0;
};

// Precomputed facts about each token of a vocabulary.
class JsonTokens {
 public:
  explicit JsonTokens(std::vector<std::string> pieces);

  const std::string& piece(Token token) const { return pieces_[idx(token)]; }
  bool allows(const JsonPlace& place, Token token) const;
  // Removes the tokens that would break the rules from a mask of what may come at this place.
  void keep_within(const JsonPlace& place, std::uint32_t* words) const;

 private:
  void limit_length(const JsonPlace& place, std::uint32_t* words) const;
  void keep_distinct(const JsonPlace& place, std::uint32_t* words) const;
  bool repeats(const JsonPlace& place, Token token) const;
  int characters(const JsonPlace& place, Token token) const;

  std::vector<std::string> pieces_;
  std::vector<int> characters_;  // of each token, before its first quote; a lower bound
  int most_characters_ = 0;
  std::vector<Token> quoted_;  // tokens with a quote
  std::vector<Token> paired_;  // with two or more
};

// Adds these rules to a grammar's constraint.
std::unique_ptr<sampling::Constraint> limited_json(std::unique_ptr<sampling::Constraint> grammar,
                                                   std::shared_ptr<const JsonTokens> tokens, JsonPlaces places);

}  // namespace specdec

// A JSON schema as data. It is read once into nodes; each stands for a set of JSON values, and a reference is an edge
// to another node, so that schemas may name themselves. Questions about a node are answered here; what is written for
// it is decided by constraints/schema_grammar.h.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "constraints/limits.h"
#include "constraints/pattern.h"
#include "constraints/schema_numbers.h"

namespace specdec {

using SchemaJson = nlohmann::ordered_json;

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();  // of a schema's counts

struct SchemaValues {  // exactly these
  std::vector<SchemaJson> values;
};

struct SchemaStrings {
  std::optional<Pattern> pattern;  // that the whole text matches; nullopt: any text
  std::uint64_t least = 0;         // characters
  std::optional<std::uint64_t> most;
  std::string most_place;       // of maxLength
  bool is_web_address = false;  // the pattern is web_address: `most` need not be a part of it
};

struct SchemaArrays {
  std::vector<int> first;    // nodes of the first items
  std::optional<int> items;  // of further ones; nullopt: not stated. There are none then if `first` is not empty.
  std::uint64_t least = 0;
  std::optional<std::uint64_t> most;
  std::vector<std::string> unique_places;  // of uniqueItems; empty: items may be equal
};

struct SchemaObjects {
  struct Property {
    std::string name;
    int value;  // node
    bool is_required = false;
  };
  // What one schema says of properties that are not listed. All sources apply to each of them.
  struct Source {
    std::vector<std::pair<Pattern, int>> patterns;  // patternProperties
    std::optional<int> others;                      // additionalProperties; nullopt: not stated
  };
  std::vector<Property> properties;  // in the order in which they are written
  std::vector<Source> sources;
  std::vector<int> names;  // nodes of propertyNames
  std::uint64_t least = 0;
  std::optional<std::uint64_t> most;
  std::string least_place, most_place;  // of minProperties and maxProperties; empty: not stated
  std::string place;                    // of a schema that it is made of

  const Property* find(const std::string& name) const;
};

// Values of one kind.
struct SchemaAtom {
  std::variant<SchemaValues, NumberRange, SchemaStrings, SchemaArrays, SchemaObjects> form;
  std::string place;      // a JSON pointer into the client's document
  bool is_empty = false;  // as far as one sees without its parts

  template <class Form>
  const Form* as() const {
    return std::get_if<Form>(&form);
  }
};

class SchemaNodes {
 public:
  // Throws ArgumentError "json_schema cannot be used: PLACE ..." for what is not a schema, is larger than the limits,
  // or allows no value; if strict, also for a keyword that is not enforced.
  // pointers: of the schemas in the document that are asked for; "" is the document itself.
  SchemaNodes(const SchemaJson& document, bool is_strict, GrammarSource source = GrammarSource::client,
              const std::vector<std::string>& pointers = {""});

  const std::vector<int>& roots() const { return roots_; }  // as the pointers
  // The atoms whose union is the node, those without values left out.
  std::vector<int> atoms(int node);
  const SchemaAtom& atom(int number) const { return atoms_[static_cast<std::size_t>(number)]; }
  bool has_value(int node);
  const std::string& place(int node) const { return nodes_[static_cast<std::size_t>(node)].place; }

  // Other keywords that are not enforced, as JSON pointers; unsupported() adds one, or throws if strict.
  const std::vector<std::string>& ignored() const { return ignored_; }
  void unsupported(const std::string& place, const std::string& where);
  [[noreturn]] static void fail(const std::string& place, const std::string& problem);

  // The values of a node as they are written, if they are few and each has one text.
  std::optional<std::vector<std::string>> few_values(int node);
  // Whether it is one kind of strings or integers that has no end.
  bool is_endless(int node);

  // The listed properties that may be written.
  std::vector<SchemaObjects::Property> members(const SchemaObjects& objects);
  // The other properties that may be written: names, without those that are listed, and the node of their values.
  struct Others {
    std::optional<Pattern> names;                       // nullopt: any text
    bool are_free;                                      // any text that is not listed
    std::optional<std::vector<std::string>> few_names;  // if these are all
    int value;
  };
  std::vector<Others> others(const SchemaObjects& objects);

 private:
  enum class Kind { unfinished, atoms, any_of, all_of };
  struct Node {
    Kind kind = Kind::unfinished;
    std::vector<int> parts;  // atoms: of atoms_; others: nodes
    // Kinds of values that a schema without "type" speaks of (bits by index in SchemaAtom::form); 0: it has a type.
    unsigned implied = 0;
    std::string place;
    bool is_in_work = false, is_settled = false;
    int round = 0;           // the last in which its atoms were looked for
    std::vector<int> found;  // all_atoms(); before it is settled, what the last round found
    std::optional<bool> has_value;
  };

  // Reading. All return nodes.
  int reference(const SchemaJson& value, const std::string& place);
  int at(const std::string& place, const SchemaJson& schema);
  void read(int node, const SchemaJson& schema, const std::string& place, int depth);
  int child(const SchemaJson& schema, const std::string& place, int depth);
  int one_of(const SchemaJson& schemas, const std::string& place, int depth);
  void read_types(const SchemaJson& schema, const std::string& place, int depth, std::vector<int>& parts);
  SchemaAtom numbers(const SchemaJson& schema, const std::string& place, bool is_integer);
  SchemaAtom strings(const SchemaJson& schema, const std::string& place);
  SchemaAtom arrays(const SchemaJson& schema, const std::string& place, int depth);
  SchemaAtom objects(const SchemaJson& schema, const std::string& place, int depth);
  std::optional<Pattern> read_pattern(const std::string& pattern, Pattern::Match match, const std::string& place);

  // Making.
  int add_node(Kind kind, std::vector<int> parts, const std::string& place);
  int add_atom(SchemaAtom atom);
  int values_node(std::vector<SchemaJson> values, const std::string& place);
  int all_of(std::vector<int> nodes, const std::string& place);
  std::optional<int> both(int left, int right);  // atoms
  SchemaAtom both(const SchemaObjects& left, const SchemaObjects& right, const std::string& place);
  SchemaAtom both(const SchemaArrays& left, const SchemaArrays& right, const std::string& place);

  std::vector<int> all_atoms(int node);
  std::vector<int> look_for_atoms(int node);
  std::vector<int> leaves(int node) const;
  std::vector<int> intersection(const Node& node);
  // The nodes that a property of this name, which the sources do not list, must satisfy.
  static std::vector<int> values_of(const std::vector<SchemaObjects::Source>& sources, const std::string& name);
  static bool lists_properties(const SchemaObjects& objects);
  bool accepts_names(const SchemaObjects& objects, const std::string& name);
  std::optional<Pattern> names_of(const SchemaObjects& objects);
  std::optional<std::vector<std::string>> few_names_of(const SchemaObjects& objects);
  bool accepts(int node, const SchemaJson& value);
  bool accepts(int node, const SchemaJson& value, std::map<int, bool>& known);
  bool atom_accepts(int atom, const SchemaJson& value);
  static bool is_empty(const SchemaAtom& atom);
  bool may_have_value(const SchemaAtom& atom);  // as far as Node::has_value says
  std::vector<int> children(const SchemaAtom& atom) const;
  void settle(int node);
  [[noreturn]] void fail_without_value(int root);

  const SchemaJson& document_;
  const bool is_strict_;
  const int max_schemas_;
  std::vector<int> roots_;
  int any_ = 0;
  std::deque<Node> nodes_;
  std::deque<SchemaAtom> atoms_;
  std::map<std::string, int> by_place_;
  std::map<std::vector<int>, int> intersections_;
  std::deque<std::set<int>> sources_;  // of each atom: those whose intersection it is
  std::map<std::set<int>, std::optional<int>> both_;
  struct Exclusive {
    std::vector<int> nodes;
    std::string place;
  };
  std::vector<Exclusive> exclusive_;                       // oneOf
  std::vector<std::pair<int, const SchemaJson*>> unread_;  // targets of references
  std::vector<std::string> ignored_;
  int num_schemas_ = 0;
  // Of all_atoms().
  int round_ = 0, num_loops_ = 0, num_in_work_ = 0;
  bool has_grown_ = false;
  std::vector<int> in_round_;
};

// As Python's json.dumps(ensure_ascii=False) writes it.
std::string one_line(const SchemaJson& value);

}  // namespace specdec

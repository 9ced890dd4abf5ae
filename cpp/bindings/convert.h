// Converts Python objects to the engine's values. Errors name the argument: TypeError for a wrong type, ValueError for
// an invalid value.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "base/token.h"
#include "engine/option.h"

// name: the argument's name, for errors.
std::string string_from(const std::string& name, pybind11::handle object);
std::vector<specdec::Token> tokens_from(const std::string& name, pybind11::handle object);
specdec::option::Value value_from(const specdec::option::Description& option, pybind11::handle object);  // checked

// Names an option that the table lacks, and the one that was probably meant.
[[noreturn]] void throw_unknown_option(const std::string& name, std::vector<std::string> known);

// Sets the given options, by name; None leaves the default. others: further names that the caller takes, for errors.
template <class Owner>
void set_options(const specdec::option::Table<Owner>& table, Owner& owner, const pybind11::dict& options,
                 std::vector<std::string> others = {}) {
  for (const auto& [key, object] : options) {
    const auto* option = specdec::option::find(table, pybind11::cast<std::string>(key));
    if (option == nullptr) {
      for (const auto& row : table) others.push_back(row.name);
      throw_unknown_option(pybind11::cast<std::string>(key), std::move(others));
    }
    if (!object.is_none()) option->set(owner, value_from(*option, object));
  }
}

// The table for Python: {name: {"type": ..., "default": ..., "help": ..., ...}}, with the defaults of a new Owner.
pybind11::dict described(const specdec::option::Description& option, const specdec::option::Value& value);

template <class Owner>
pybind11::dict described(const specdec::option::Table<Owner>& table) {
  const Owner defaults;
  pybind11::dict rows;
  for (const auto& row : table) rows[pybind11::str(row.name)] = described(row, row.get(defaults));
  return rows;
}

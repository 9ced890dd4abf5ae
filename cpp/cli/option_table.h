// Command line options made from rows of the engine's option tables.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "cli/options.h"
#include "engine/option.h"

namespace specdec::cli {

// An option that passes its checked value to `set`. present(): the current value, to which a repeatable option adds.
Option option_of(const option::Description& row, const std::function<option::Value()>& present,
                 const std::function<void(const option::Value&)>& set);

// An option that sets the value in `owner`.
template <class Owner>
Option option_of(const option::Option<Owner>& row, Owner& owner) {
  return option_of(
      row, [get = row.get, &owner] { return get(owner); }, [set = row.set, &owner](const option::Value& value) { set(owner, value); });
}

// All rows of a table with one heading of the help.
template <class Owner>
Group group_of(const option::Table<Owner>& table, const std::string& title, Owner& owner) {
  Group group{title, {}};
  for (const option::Option<Owner>& row : table) {
    if (row.flags.group == title) group.options.push_back(option_of(row, owner));
  }
  return group;
}

}  // namespace specdec::cli

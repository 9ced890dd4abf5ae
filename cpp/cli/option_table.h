// Rows of the engine's tables of options as options of a command line.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "cli/options.h"
#include "engine/option.h"

namespace specdec::cli {

// The option that hands what it reads to `set`, checked. present(): the value now, to which a repeatable option adds.
Option option_of(const option::Description& row, const std::function<option::Value()>& present,
                 const std::function<void(const option::Value&)>& set);

// The option that sets owner's.
template <class Owner>
Option option_of(const option::Option<Owner>& row, Owner& owner) {
  return option_of(
      row, [get = row.get, &owner] { return get(owner); }, [set = row.set, &owner](const option::Value& value) { set(owner, value); });
}

// All rows of a table that belong below one heading of the help.
template <class Owner>
Group group_of(const option::Table<Owner>& table, const std::string& title, Owner& owner) {
  Group group{title, {}};
  for (const option::Option<Owner>& row : table) {
    if (row.flags.group == title) group.options.push_back(option_of(row, owner));
  }
  return group;
}

}  // namespace specdec::cli

// The error for an output that cannot be continued.
#pragma once

#include "base/error.h"

namespace specdec {

// A constraint or banned tokens leave no token: what the request asks for cannot be written.
class DeadEnd : public Error {
  using Error::Error;
};

}  // namespace specdec

// The options of a request. To add one: a member of Request, a row here, and a parameter of Python's Generator.stream.
#pragma once

#include "engine/option.h"
#include "engine/request.h"

namespace specdec {

using RequestOption = option::Option<Request>;
const option::Table<Request>& request_options();

bool is_constraint(const RequestOption& option);  // a request has at most one

}  // namespace specdec

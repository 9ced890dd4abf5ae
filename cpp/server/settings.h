// The options of a request in replies, under llama-server's names.
#pragma once

#include "engine/request.h"
#include "server/json_body.h"

namespace specdec::server {

Json settings_json(const Request& request);

}  // namespace specdec::server

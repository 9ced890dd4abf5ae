// Reads the fields of completion in the middle from a request's body.
#pragma once

#include <string>

#include "engine/infill.h"
#include "server/json_body.h"
#include "server/prompts.h"
#include "server/service.h"

namespace specdec::server {

// llama-server's "input_prefix", "input_suffix", "input_extra" and "prompt".
Infill read_infill(const Fields& body);

// Throws ApiError (501) if the model has no tokens for it. field: the field that asks for it, for the message.
Prompt infill_prompt(const Service& service, const std::string& field, const Infill& infill);

}  // namespace specdec::server

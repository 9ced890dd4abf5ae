// A piece of an output as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/generator.h"

namespace specdec::cli {

// token, text, from_draft, draft_source, logprob and, if any, top_logprobs: [{token, text, logprob}], with names of
// control tokens.
nlohmann::ordered_json piece_json(const Piece& piece, const Generator& generator);

}  // namespace specdec::cli

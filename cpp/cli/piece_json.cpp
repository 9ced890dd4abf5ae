#include "cli/piece_json.h"

#include <nlohmann/json.hpp>

namespace specdec::cli {

using Json = nlohmann::ordered_json;

Json piece_json(const Piece& piece, const Generator& generator) {
  Json json = {{"token", piece.token},
               {"text", piece.text},
               {"from_draft", piece.from_draft()},
               {"draft_source", piece.from_draft() ? Json(name(piece.origin)) : Json(nullptr)},
               {"logprob", piece.logprob}};
  for (const auto& [token, logprob] : piece.top_logprobs) {
    json["top_logprobs"].push_back(
        {{"token", token}, {"text", generator.detokenize({token}, true)}, {"logprob", logprob}});
  }
  return json;
}

}  // namespace specdec::cli

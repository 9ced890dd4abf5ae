// Files of block drafters (architecture dflash): layers that read the inputs of some of the target's layers and fill a
// whole block of places in one pass.
#pragma once

#include <string>
#include <vector>

#include "base/token.h"
#include "gguf/gguf_file.h"

namespace specdec {

struct BlockFile {
  std::string name;         // for messages: "a DFlash block drafter"
  std::string unsupported;  // the kind of drafter, if it cannot be used; empty if it can
  int block_size = 0;       // tokens of the longest block: the last committed token and the masks after it; 0: damaged
  // Whether the last token's place predicts the next token (DSpark). Otherwise each mask predicts the token at its own
  // place.
  bool fills_anchor = false;
  bool is_causal = false;  // a place sees only the places before it
  Token mask = -1;         // -1: missing
  bool has_bias = false;   // a low-rank bias on the logits, chosen by the previous token (DSpark)

  int num_places() const { return fills_anchor ? block_size : block_size - 1; }
};

inline bool is_block_file(const GgufFile& file) { return file.string("general.architecture") == "dflash"; }
BlockFile block_file(const std::vector<GgufFile>& parts);

// Throws ModelError for a drafter that is damaged or was not made for this target.
void check_block_drafter(const std::vector<GgufFile>& drafter, const std::vector<GgufFile>& target);

}  // namespace specdec

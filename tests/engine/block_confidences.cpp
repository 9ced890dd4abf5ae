// The confidences of a block drafter, for test_block_drafters.py: block_confidences TARGET DRAFTER PLACES TOKEN...
//
// Reads the tokens and prints, for each of PLACES, the token that is likeliest there if those before it were drafted,
// and the drafter's confidence in it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/loaded_models.h"

int main(int argc, char** argv) {
  using namespace specdec;
  if (argc < 6) return 2;
  GeneratorOptions options;
  options.target = argv[1];
  options.draft = draft_source(argv[2]);
  options.n_ctx = 256;
  options.n_threads = 1;
  options.draft_weights = "file";
  const int places = std::atoi(argv[3]);
  std::vector<Token> tokens;
  for (int i = 4; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
  const auto committed = static_cast<int>(tokens.size());
  LoadedModels models = load_models(options, nullptr);
  LanguageModel& draft = *models.draft();
  draft.expect_drafts(0, places);
  models.target().decode({{0, tokens.data(), committed - 1, 0}});
  draft.decode({{0, tokens.data(), committed, 1}});
  for (int place = 0; place < places; ++place) {
    if (place > 0) draft.decode({{0, tokens.data() + tokens.size() - 1, 1, 1}});
    const float* const row = draft.logits(0);
    tokens.push_back(static_cast<Token>(std::max_element(row, row + draft.vocabulary_size()) - row));
    std::printf("%d %.9g\n", tokens.back(), draft.confidence(0).value_or(-1.0));
  }
  return 0;
}

// Time and memory of suffix decoding: bench_suffix FILE... reads texts, cuts them into words and signs as tokens, and
// prints what a token costs to index and what a cycle costs to propose, at several lengths of text; with half of the
// texts as a corpus, and without.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "speculative/suffix_proposer.h"

namespace {

using namespace specdec;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A word with the space before it, or one other character.
std::vector<Token> tokens_of(const std::string& text) {
  std::unordered_map<std::string, Token> ids;
  std::vector<Token> tokens;
  const auto is_word = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0);
  };
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = begin + 1;
    if (is_word(begin) || (text[begin] == ' ' && is_word(end))) {
      while (is_word(end)) ++end;
    }
    tokens.push_back(ids.try_emplace(text.substr(begin, end - begin), static_cast<Token>(ids.size())).first->second);
  }
  return tokens;
}

void print(const std::vector<Token>& tokens, const std::shared_ptr<const CorpusIndex>& corpus) {
  std::printf("%s\n%10s %12s %14s %22s %22s\n", corpus ? "with the corpus" : "without a corpus", "tokens", "index us",
              "bytes/token", "propose 8, us (max)", "propose 63, us (max)");
  constexpr int cycles = 200, step = 4;
  for (const int length : {1000, 8000, 32000, 128000}) {
    if (length + cycles * step > static_cast<int>(tokens.size())) break;
    SuffixIndex index;
    const double start = now();
    for (int i = 0; i < length; ++i) index.push(tokens[static_cast<std::size_t>(i)]);
    std::printf("%10d %12.2f %14.1f", length, 1e6 * (now() - start) / length,
                static_cast<double>(index.bytes()) / length);
    for (const int num_tokens : {8, 63}) {
      SuffixProposer proposer(corpus);
      // Earlier outputs: as many as are kept, from the end of the text.
      const int earlier = std::min(static_cast<int>(tokens.size()), EarlierOutputs::max_tokens);
      for (int i = 0; i + 500 <= earlier; i += 500) proposer.remember(tokens.data() + tokens.size() - earlier + i, 500);
      Sequence s(0, sampling::SamplingParams(), std::make_unique<sampling::PhiloxUniforms>(1, 0));
      s.num_draft_tokens = auto_draft_tokens;
      s.tokens.reserve(tokens.size() + max_draft_tokens);
      s.tokens.assign(tokens.begin(), tokens.begin() + length);
      s.num_committed = length;
      proposer.prefill(s, length);
      Stats stats;
      double longest = 0.0;
      for (int cycle = 0; cycle < cycles; ++cycle) {  // each commits `step` tokens
        s.drop_drafts_after(0);
        s.tokens.insert(s.tokens.end(), tokens.begin() + s.num_committed, tokens.begin() + s.num_committed + step);
        s.num_committed += step;
        const double before = stats.draft_seconds;
        proposer.propose({{&s, num_tokens}}, stats);
        if (cycle > 0) longest = std::max(longest, stats.draft_seconds - before);
      }
      std::printf(" %13.1f (%6.1f)", 1e6 * stats.draft_seconds / cycles, 1e6 * longest);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string text;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  const std::vector<Token> tokens = tokens_of(text);
  std::printf("%zu tokens\n", tokens.size());
  const double sorting = now();
  const auto corpus =
      std::make_shared<const CorpusIndex>(std::vector<Token>(tokens.begin() + tokens.size() / 2, tokens.end()));
  std::printf("corpus: %zu tokens, indexed in %.1f s\n", corpus->text().size(), now() - sorting);
  for (const auto& used : {std::shared_ptr<const CorpusIndex>(), corpus}) print(tokens, used);
  return 0;
}

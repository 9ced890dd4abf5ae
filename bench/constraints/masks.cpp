// Time of a grammar's mask over a whole vocabulary, by llama.cpp's grammar sampler and by xgrammar: bench_masks
// VOCABULARY.gguf (any model file; its weights are not read). Milliseconds of processor time on one thread, along one
// short text that each grammar accepts.
//
// llama.cpp gets schemas as its own converter writes them. Both masks of every place must allow the text's next token.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "chat.h"
#include "constraints/constraint_compiler.h"
#include "json-schema-to-grammar.h"
#include "llama.h"
#include "llama/vocabulary.h"

namespace {

using specdec::Token;

struct Case {
  const char* name;
  const char* form;  // "schema" or "grammar"
  const char* text;
  const char* output;
};

const Case cases[] = {
    {"a JSON string", "schema", R"({"type": "string"})", R"("The quick brown fox jumps over the lazy dog.")"},
    {"a string of at most 10 characters", "schema", R"({"type": "string", "maxLength": 10})", R"("quick fox")"},
    {"a string of at most 40 characters", "schema", R"({"type": "string", "maxLength": 40})",
     R"("The quick brown fox jumps over it.")"},
    {"an object with a string and one of three words", "schema",
     R"({"type": "object", "properties": {"name": {"type": "string"}, "kind": {"enum": ["red", "green", "blue"]}},
         "required": ["name", "kind"], "additionalProperties": false})",
     R"({"name": "Ada Lovelace", "kind": "green"})"},
    {"a list of objects with numbers", "schema",
     R"({"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "integer"}},
         "required": ["x", "y"], "additionalProperties": false}})",
     R"([{"x": 1.25, "y": 7}, {"x": -30.5, "y": 42}])"},
    {"`[0-9]{5}`", "grammar", "root ::= [0-9]{5}", "31415"},
    {"any text", "grammar", "root ::= [^\\x00]*", "The quick brown fox jumps over the lazy dog.\nIt goes on.\n"},
};

double milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

struct Times {
  double compiling = 0.0;
  std::vector<double> masks;  // of each place

  double mean() const {
    double sum = 0.0;
    for (const double mask : masks) sum += mask;
    return sum / static_cast<double>(masks.size());
  }
  double worst() const { return *std::max_element(masks.begin(), masks.end()); }
};

// mask() computes the mask of a place, advance(token) checks that it allows the token there, and reads it.
template <class Mask, class Advance>
void time_masks(Times& times, const std::vector<Token>& tokens, Mask&& mask, Advance&& advance) {
  for (const Token token : tokens) {
    const double start = milliseconds();
    mask();
    times.masks.push_back(milliseconds() - start);
    advance(token);
  }
}

Times time_llama_cpp(const Case& one, const llama_vocab* vocabulary, const std::vector<Token>& tokens) {
  Times times;
  double start = milliseconds();
  const std::string gbnf =
      one.form == std::string("schema") ? json_schema_to_grammar(common_json::parse(one.text)) : one.text;
  const std::unique_ptr<llama_sampler, void (*)(llama_sampler*)> sampler(
      llama_sampler_init_grammar(vocabulary, gbnf.c_str(), "root"), llama_sampler_free);
  if (!sampler) throw std::runtime_error(std::string(one.name) + ": llama.cpp does not take the grammar");
  times.compiling = milliseconds() - start;
  std::vector<llama_token_data> candidates(static_cast<std::size_t>(llama_vocab_n_tokens(vocabulary)));
  const auto mask = [&] {
    for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i] = {static_cast<llama_token>(i), 0.0f, 0.0f};
    llama_token_data_array all{candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(sampler.get(), &all);
  };
  const auto advance = [&](Token token) {
    if (!(candidates[static_cast<std::size_t>(token)].logit >= 0.0f))
      throw std::runtime_error(std::string(one.name) + ": llama.cpp");
    llama_sampler_accept(sampler.get(), token);
  };
  time_masks(times, tokens, mask, advance);
  return times;
}

Times time_xgrammar(const Case& one, const specdec::ConstraintCompiler& compiler, const std::vector<Token>& tokens) {
  Times times;
  const double start = milliseconds();
  const auto constraint =
      one.form == std::string("schema") ? compiler.json_schema(one.text) : compiler.grammar(one.text);
  times.compiling = milliseconds() - start;
  specdec::sampling::TokenMask mask;
  const auto fill = [&] {
    mask.fill(constraint->vocabulary_size(), [&](std::uint32_t* words) { constraint->write_mask(words); });
  };
  const auto advance = [&](Token token) {
    if (!mask.contains(token) || !constraint->advance(token))
      throw std::runtime_error(std::string(one.name) + ": xgrammar");
  };
  time_masks(times, tokens, fill, advance);
  return times;
}

void run(const char* path) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const std::unique_ptr<llama_model, void (*)(llama_model*)> model(llama_model_load_from_file(path, params),
                                                                   llama_model_free);
  if (!model) throw std::runtime_error(std::string(path) + ": cannot be loaded");
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  const specdec::Vocabulary vocabulary(vocab, path);
  std::vector<std::string> pieces;
  std::vector<Token> ends;
  for (Token token = 0; token < vocabulary.size(); ++token) {
    pieces.push_back(vocabulary.piece(token));
    if (vocabulary.is_end_of_generation(token)) ends.push_back(token);
  }
  const double start = milliseconds();
  (void)specdec::ConstraintCompiler(pieces, ends);
  std::printf(
      "| %d tokens; xgrammar reads them once: %.0f | llama.cpp, mean (worst) | compiling | xgrammar, mean (worst) | "
      "compiling |\n",
      vocabulary.size(), milliseconds() - start);
  std::printf("|---|---|---|---|---|\n");
  for (const Case& one : cases) {
    std::vector<Token> tokens = vocabulary.tokenize(one.output, false);
    if (vocabulary.adds_bos()) tokens.erase(tokens.begin());
    tokens.push_back(ends.front());
    const specdec::ConstraintCompiler compiler(pieces, ends);  // a new one: it keeps what it has compiled
    const Times stock = time_llama_cpp(one, vocab, tokens), ours = time_xgrammar(one, compiler, tokens);
    std::printf("| %s | %.3g (%.3g) | %.3g | %.3g (%.3g) | %.3g |\n", one.name, stock.mean(), stock.worst(),
                stock.compiling, ours.mean(), ours.worst(), ours.compiling);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: bench_masks VOCABULARY.gguf\n"), 2;
  try {
    run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// The tables of options: what each row reads and writes, and the sources of drafts.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "check.h"
#include "engine/generator_options.h"
#include "engine/request_json.h"
#include "engine/request_options.h"

using namespace specdec;
using Json = nlohmann::ordered_json;
using option::Value;

namespace {

// No value is the default.
Request changed_request() {
  Request request;
  request.max_tokens = 7;
  request.stop = {"a", "b"};
  request.seed = std::numeric_limits<std::uint64_t>::max();
  const sampling::LogitBias bias = {{4, -1.0}, {5, -std::numeric_limits<double>::infinity()}};
  request.sampling = {0.5, 3, 0.25, 0.125, 2.0, 1.5, -1.5, -1, bias, {0.5, 1.5, 3, 64}, 0.25, 0.25};
  request.min_tokens = 2;
  request.ignore_eos = true;
  request.stop_token_ids = {7};
  request.allowed_token_ids = {8, 9};
  request.bad_words = {"no"};
  request.dry_sequence_breakers = {"("};
  request.prediction = "x = 1";
  request.strict_schema = false;
  request.num_draft_tokens = auto_draft_tokens;
  request.verification = Verification::token;
  request.drafting = Drafting::argmax;
  request.top_logprobs = 2;
  request.grammar = "root ::= [a-z]+";
  request.json_schema = "{}";
  request.regex = "a+";
  request.choice = {"a", "b"};
  request.structural_tag = R"({"format": {"type": "const_string", "value": "a"}})";
  request.reasoning_budget = 5;
  return request;
}

GeneratorOptions changed_generator() {
  GeneratorOptions options;
  options.target = "t.gguf";
  options.draft = NgramLookup();
  options.n_ctx = 64;
  options.n_threads = 3;
  options.n_batch = 99;
  options.rpc_servers = {"a:1"};
  options.n_gpu_layers = all_layers;
  options.devices = {"Vulkan1"};
  options.n_gpu_layers_draft = layers_that_fit;
  options.devices_draft = {"none"};
  options.n_cpu_moe = 3;
  options.n_cpu_moe_draft = 2;
  options.tensor_split = "3,1";
  options.override_tensor = {"ffn=CPU"};
  options.override_tensor_draft = {"attn=CPU"};
  options.exact = false;
  options.use_mmap = false;
  options.repack = false;
  options.tile_cache = "tiles:100";
  options.memory = "11G";
  options.draft_weights = "file";
  options.suffix = false;
  options.auto_cache = false;
  options.draft_corpus = "c.txt";
  options.chat_template = "chatml";
  options.kv_type = "q8_0";
  options.draft_window = 128;
  options.json_tool_calls = "always";
  options.max_sequences = 5;
  options.max_queue_size = 6;
  options.num_draft_tokens = 4;
  options.draft_tree = 16;
  options.mmproj = "p.gguf";
  return options;
}

// Each row reads what it writes, and another member than every other row.
template <class Owner>
void check_rows(const option::Table<Owner>& table, const Owner& changed) {
  std::set<std::string> names, flags;
  for (const option::Option<Owner>& row : table) {
    CHECK(names.insert(row.name).second);
    for (const std::string& flag : row.flags.names) CHECK(flags.insert(flag).second);
    Owner owner;
    CHECK(row.get(owner) != row.get(changed));
    row.check(row.get(owner));
    row.check(row.get(changed));
    row.set(owner, row.get(changed));
    for (const option::Option<Owner>& other : table) {
      CHECK(other.get(owner) == other.get(&other == &row ? changed : Owner()));
    }
  }
}

Request with(const std::string& name, const Json& json) {
  Request request;
  request.prompt = "x";
  set_option(request, *option::find(request_options(), name), json);
  request.validate();
  return request;
}

}  // namespace

TEST(every_row_reads_what_it_writes) {
  check_rows(request_options(), changed_request());
  check_rows(generator_options(), changed_generator());
}

TEST(what_does_not_change_a_text) {
  for (const RequestOption& row : request_options()) CHECK(row.changes_texts);
  std::set<std::string> same;
  for (const GeneratorOption& row : generator_options()) {
    if (!row.changes_texts) same.insert(row.name);
  }
  CHECK((same == std::set<std::string>{"auto_cache", "n_threads", "n_batch", "mmap", "memory", "tile_cache",
                                       "max_sequences", "max_queue_size"}));
}

TEST(requests_are_checked_by_the_table) {
  Request request;
  request.prompt = "x";
  request.validate();
  request.max_tokens = -1;
  CHECK_THROWS(request.validate(), ArgumentError, "max_tokens is -1; it must be a whole number from 0 to 2147483647");
  request.max_tokens = 1;
  request.num_draft_tokens = 64;
  CHECK_THROWS(request.validate(), ArgumentError,
               "num_draft_tokens is 64; it must be a whole number from 0 to 63 or auto");
}

TEST(options_from_json) {
  CHECK(with("temperature", 0).sampling.temperature == 0.0);
  CHECK(with("max_tokens", 5).max_tokens == 5);
  CHECK(with("seed", std::numeric_limits<std::uint64_t>::max()).seed == std::numeric_limits<std::uint64_t>::max());
  CHECK(with("stop", "a").stop == std::vector<std::string>{"a"});
  CHECK((with("stop", Json::array({"a", "b"})).stop == std::vector<std::string>{"a", "b"}));
  CHECK(with("num_draft_tokens", "auto").num_draft_tokens == auto_draft_tokens);
  CHECK(with("num_draft_tokens", 0).num_draft_tokens == 0);
  CHECK(!with("num_draft_tokens", nullptr).num_draft_tokens);
  CHECK(with("verification", "invariant").verification == Verification::invariant);
  CHECK(!with("verification", "auto").verification);
  const auto biases = with("logit_bias", Json::parse(R"({"12": "-inf", "3": 1})")).sampling.logit_bias;
  CHECK(biases.size() == 2 && biases[0].first == 12 && std::isinf(biases[0].second) && biases[1].second == 1.0);
}

TEST(json_that_is_not_valid_names_the_option) {
  CHECK_THROWS(with("temperature", "hot"), std::invalid_argument,
               "temperature is \"hot\"; it must be a finite number of at least 0");
  CHECK_THROWS(with("temperature", true), std::invalid_argument, "temperature is true");
  CHECK_THROWS(with("top_k", 1.5), std::invalid_argument, "top_k is 1.5");
  CHECK_THROWS(with("top_k", std::numeric_limits<std::uint64_t>::max()), std::invalid_argument,
               "top_k is 18446744073709551615");
  CHECK_THROWS(with("top_p", 0), std::invalid_argument, "top_p is 0; it must be a number above 0 and at most 1");
  CHECK_THROWS(with("seed", -1), std::invalid_argument,
               "seed is -1; it must be a whole number from 0 to 18446744073709551615");
  CHECK_THROWS(with("stop", Json::array({1})), std::invalid_argument,
               "stop is [1]; it must be a string or a list of strings");
  CHECK_THROWS(with("num_draft_tokens", "many"), std::invalid_argument,
               "num_draft_tokens is \"many\"; it must be a whole number from 0 to 63 or auto");
  CHECK_THROWS(with("num_draft_tokens", -1), std::invalid_argument, "num_draft_tokens is -1");
  CHECK_THROWS(with("verification", "blok"), std::invalid_argument,
               "verification is \"blok\"; it must be auto, token, block or invariant");
  CHECK_THROWS(with("logit_bias", 1), std::invalid_argument, "logit_bias is 1");
  CHECK_THROWS(with("logit_bias", Json::parse(R"({"a": 1})")), std::invalid_argument, "token id \"a\"");
  CHECK_THROWS(with("logit_bias", Json::parse(R"({"1": "inf"})")), std::invalid_argument, "logit_bias[1] is \"inf\"");
}

TEST(draft_sources_by_name) {
  CHECK(std::holds_alternative<NoDraft>(draft_source("")));
  CHECK(std::holds_alternative<PlainDecoding>(draft_source("none")) && has_draft(PlainDecoding()));
  CHECK(std::holds_alternative<NgramLookup>(draft_source("ngram")));
  CHECK(std::holds_alternative<SuffixDecoding>(draft_source("suffix")));
  CHECK(std::holds_alternative<OwnHead>(draft_source("mtp")) && to_text(OwnHead()) == "mtp");
  CHECK(*draft_path(draft_source("d.gguf")) == "d.gguf");
  CHECK(*draft_path(draft_source("./ngram")) == "./ngram");
  CHECK(draft_file("ngram") == "./ngram" && draft_file("d.gguf") == "d.gguf");
  for (const char* text : {"", "none", "ngram", "suffix", "./ngram", "./suffix", "d.gguf"})
    CHECK(to_text(draft_source(text)) == text);
  CHECK(to_text(DraftModel{"ngram"}) == "./ngram");  // read again, it is the same source
}

TEST_MAIN()

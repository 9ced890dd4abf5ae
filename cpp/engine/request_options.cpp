#include "engine/request_options.h"

#include <limits>
#include <optional>

namespace specdec {
namespace {

using namespace option;
using sampling::DryParams;
using sampling::SamplingParams;
namespace ranges = sampling::ranges;

constexpr const char* constraints = "Constraints";
constexpr int max_int = std::numeric_limits<int>::max();
constexpr int max_top_logprobs = 20;  // as in OpenAI's API

template <auto member>
RequestOption request_row(Description description) {
  return member_row<Request, member>(std::move(description));
}
template <auto member>
RequestOption sampling_row(Description description) {
  return member_row<Request, &Request::sampling, member>(std::move(description));
}

Value num_draft_tokens(const Request& request) {
  return request.num_draft_tokens ? draft_tokens_value(*request.num_draft_tokens) : Value();
}
void set_num_draft_tokens(Request& request, const Value& value) {
  request.num_draft_tokens.reset();
  if (!std::holds_alternative<std::monostate>(value)) request.num_draft_tokens = draft_tokens_of(value);
}

template <auto member>
Value dry_value(const Request& request) {
  return to_value(request.sampling.dry.*member);
}
template <auto member>
void set_dry(Request& request, const Value& value) {
  from_value(value, request.sampling.dry.*member);
}

Value verification(const Request& request) {
  return std::string(request.verification ? name(*request.verification) : "auto");
}
void set_verification(Request& request, const Value& value) {
  request.verification = verification_named(std::get<std::string>(value));
}

Value drafting(const Request& request) { return std::string(name(request.drafting)); }
void set_drafting(Request& request, const Value& value) {
  request.drafting = drafting_named(std::get<std::string>(value));
}

}  // namespace

const Table<Request>& request_options() {
  static const Table<Request> table = {
      request_row<&Request::max_tokens>(
          {"max_tokens",
           Whole{whole_numbers(0, max_int)},
           {"Text",
            {"-n", "--predict", "--n-predict"},
            "N",
            "maximum number of tokens; -1: until the model ends its output or the context is full",
            "-1",
            to_value(max_int)}}),
      request_row<&Request::stop>({"stop",
                                   Texts{},
                                   {"Text",
                                    {"-r", "--stop", "--reverse-prompt"},
                                    "TEXT",
                                    "stop string: ends the output, which does not include it; repeatable"}}),
      request_row<&Request::min_tokens>(
          {"min_tokens",
           Whole{whole_numbers(0, max_int)},
           {"Sampling", {"--min-tokens"}, "N", "the output does not end before N tokens"}}),
      request_row<&Request::ignore_eos>(
          {"ignore_eos", Flag{}, {"Sampling", {"--ignore-eos"}, "", "ban the tokens that end the output"}}),
      request_row<&Request::stop_token_ids>(
          {"stop_token_ids",
           Tokens{},
           {"Sampling", {"--stop-token-ids"}, "IDS", "comma-separated token ids that end the output"}}),
      // The command line takes a file instead.
      request_row<&Request::prediction>({"prediction", String{}}),
      request_row<&Request::seed>(
          {"seed",
           Seed{},
           {"Sampling",
            {"-s", "--seed"},
            "N",
            "random seed; the same seed repeats the output with any draft or none (default: -1, a random one)",
            "-1"},
           true}),
      sampling_row<&SamplingParams::temperature>(
          {"temperature",
           Number{ranges::temperature},
           {"Sampling", {"--temp", "--temperature"}, "X", "temperature; 0: greedy decoding"}}),
      sampling_row<&SamplingParams::top_k>(
          {"top_k", Whole{ranges::top_k}, {"Sampling", {"--top-k"}, "N", "keep the N most likely tokens; 0: off"}}),
      sampling_row<&SamplingParams::top_p>(
          {"top_p",
           Number{ranges::top_p},
           {"Sampling",
            {"--top-p"},
            "X",
            "keep the fewest most likely tokens whose probabilities sum to at least X; 1: off"}}),
      sampling_row<&SamplingParams::min_p>(
          {"min_p",
           Number{ranges::min_p},
           {"Sampling", {"--min-p"}, "X", "keep tokens at least X times as likely as the most likely one; 0: off"}}),
      sampling_row<&SamplingParams::repeat_penalty>(
          {"repeat_penalty",
           Number{ranges::repeat_penalty},
           {"Sampling",
            {"--repeat-penalty"},
            "X",
            "divide positive logits of recent tokens by X, multiply negative ones; 1: off"}}),
      sampling_row<&SamplingParams::presence_penalty>(
          {"presence_penalty",
           Number{ranges::presence_penalty},
           {"Sampling", {"--presence-penalty"}, "X", "subtract X from the logits of recent tokens; 0: off"}}),
      sampling_row<&SamplingParams::frequency_penalty>(
          {"frequency_penalty",
           Number{ranges::frequency_penalty},
           {"Sampling",
            {"--frequency-penalty"},
            "X",
            "subtract X from the logits of recent tokens once per occurrence; 0: off"}}),
      sampling_row<&SamplingParams::penalty_last_n>(
          {"penalty_last_n",
           Whole{ranges::penalty_last_n},
           {"Sampling",
            {"--repeat-last-n"},
            "N",
            "how many of the last tokens are \"recent\" for the penalties; -1: all, 0: off"}}),
      row<Request>({"dry_multiplier",
                    Number{ranges::dry_multiplier},
                    {"Sampling",
                     {"--dry-multiplier"},
                     "X",
                     "DRY: subtract X * base^(L - allowed length) from the logits of tokens that would continue a "
                     "repetition of L tokens; 0: off"}},
                   dry_value<&DryParams::multiplier>, set_dry<&DryParams::multiplier>),
      row<Request>(
          {"dry_base", Number{ranges::dry_base}, {"Sampling", {"--dry-base"}, "X", "DRY: base of the penalty"}},
          dry_value<&DryParams::base>, set_dry<&DryParams::base>),
      row<Request>(
          {"dry_allowed_length",
           Whole{ranges::dry_allowed_length},
           {"Sampling", {"--dry-allowed-length"}, "N", "DRY: repetitions of fewer than N tokens cost nothing"}},
          dry_value<&DryParams::allowed_length>, set_dry<&DryParams::allowed_length>),
      row<Request>({"dry_penalty_last_n",
                    Whole{ranges::dry_penalty_last_n},
                    {"Sampling",
                     {"--dry-penalty-last-n"},
                     "N",
                     "DRY: how many of the last tokens are searched for repetitions; -1: all, 0: off"}},
                   dry_value<&DryParams::penalty_last_n>, set_dry<&DryParams::penalty_last_n>),
      request_row<&Request::dry_sequence_breakers>({"dry_sequence_breakers",
                                                    Texts{},
                                                    {"Sampling",
                                                     {"--dry-sequence-breaker"},
                                                     "TEXT",
                                                     "DRY: no repetition is counted across this text; repeatable; "
                                                     "none: no text (default: newline, colon, double "
                                                     "quote and asterisk)",
                                                     "none",
                                                     std::vector<std::string>{}},
                                                    true}),
      sampling_row<&SamplingParams::xtc_probability>(
          {"xtc_probability",
           Number{ranges::xtc_probability},
           {"Sampling",
            {"--xtc-probability"},
            "X",
            "XTC: with this probability a token is sampled without the top choices; 0: off"}}),
      sampling_row<&SamplingParams::xtc_threshold>(
          {"xtc_threshold",
           Number{ranges::xtc_threshold},
           {"Sampling",
            {"--xtc-threshold"},
            "X",
            "XTC: tokens of at least this probability, except the least likely of them, are top choices; above 0.5: "
            "off"}}),
      sampling_row<&SamplingParams::logit_bias>(
          {"logit_bias",
           Biases{},
           {"Sampling",
            {"-l", "--logit-bias"},
            "ID+BIAS",
            "add BIAS to the logit of token ID, as in 15043+1 or 15043-1; 15043-inf bans the token; repeatable"}}),
      request_row<&Request::allowed_token_ids>(
          {"allowed_token_ids",
           Tokens{},
           {"Sampling", {"--allowed-token-ids"}, "IDS", "allow only these token ids, comma-separated"}}),
      request_row<&Request::bad_words>({"bad_words",
                                        Texts{},
                                        {"Sampling",
                                         {"--bad-word"},
                                         "TEXT",
                                         "ban this text: its last token cannot follow its other tokens; repeatable"}}),
      request_row<&Request::top_logprobs>(
          {"top_logprobs",
           Whole{whole_numbers(0, max_top_logprobs)},
           {"Output",
            {"--top-logprobs"},
            "N",
            "report the N most likely tokens at every position, with their log-probabilities"}}),
      request_row<&Request::grammar>(
          {"grammar",
           String{},
           {constraints,
            {"--grammar"},
            "TEXT",
            "the output matches this grammar, in llama.cpp's notation (GBNF); its first rule is root"},
           true}),
      request_row<&Request::json_schema>(
          {"json_schema",
           Schema{},
           {constraints,
            {"-j", "--json-schema"},
            "JSON",
            "the output is JSON, in one line, that satisfies this schema; {}: any object. Keywords that are "
            "not enforced are an error"},
           true}),
      request_row<&Request::strict_schema>({"strict_schema",
                                            Flag{},
                                            {constraints,
                                             {"--no-strict-schema"},
                                             "",
                                             "accept schemas with keywords that cannot be enforced, such as not"}}),
      request_row<&Request::regex>(
          {"regex",
           String{},
           {constraints, {"--regex"}, "TEXT", "the whole output matches this regular expression"},
           true}),
      request_row<&Request::choice>(
          {"choice",
           Texts{},
           {constraints, {"--choice"}, "TEXT", "the output is one of these texts; repeatable"},
           true}),
      request_row<&Request::structural_tag>(
          {"structural_tag",
           Object{},
           {constraints,
            {"--structural-tag"},
            "JSON",
            "the output is text with parts that obey schemas, in vLLM's and SGLang's form"},
           true}),
      // On the command line this is an option of the server.
      request_row<&Request::reasoning_budget>(
          {"reasoning_budget", Whole{whole_numbers(-1, max_int, "-1: any number")}}),
      // On the command line this is an option of the Generator.
      row<Request>({"num_draft_tokens", DraftTokens{}, {}, true}, num_draft_tokens, set_num_draft_tokens),
      row<Request>({"verification",
                    Choice{{"auto", "token", "block", "invariant"}},
                    {"Sampling",
                     {"--verification"},
                     "MODE",
                     "how drafts are verified; in every mode the output is distributed exactly as the target's. block: "
                     "jointly, which accepts the most; token: one by one; invariant: a seed gives the same output for "
                     "any draft and any -k, with 8 % fewer tokens per target call than block (12 % at worst); auto: "
                     "invariant with -s, else block"}},
                   verification, set_verification),
      row<Request>(
          {"drafting",
           Choice{{"sampled", "argmax"}},
           {"Sampling",
            {"--drafting"},
            "MODE",
            "sampled: sample drafts from the draft model's distribution; argmax: propose its most likely tokens"}},
          drafting, set_drafting),
  };
  return table;
}

bool is_constraint(const RequestOption& option) { return option.flags.group == constraints && option.is_optional; }

}  // namespace specdec

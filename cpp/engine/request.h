// A request for one generation, and the pieces of its output.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_output.h"
#include "constraints/constraint_compiler.h"
#include "pictures/picture_file.h"
#include "sampling/log_softmax.h"
#include "sampling/transforms.h"
#include "speculative/sequence.h"

namespace specdec {

struct Request {
  std::string prompt;                // UTF-8; special tokens written out are recognised
  std::vector<Token> prompt_tokens;  // used instead of `prompt` if not empty
  std::vector<Picture> pictures;     // of prompt_tokens, where these are in_picture (speculative/text.h)
  PictureFiles picture_files;        // instead: whose marks (picture_mark()) stand in `prompt`
  sampling::SamplingParams sampling;
  std::vector<std::string> stop;        // the output ends before the first occurrence of any of these
  std::optional<std::uint64_t> seed;    // none: a random one
  std::optional<int> num_draft_tokens;  // none: the generator's
  int max_tokens = 224;                 // 0 produces nothing
  bool logprobs = false;                // report the log-probability of each token; implied by top_logprobs
  int top_logprobs = 0;                 // most likely tokens to report with each token, see Piece and Score
  std::vector<Token> control_tokens;    // control tokens rendered by name; all others are omitted
  bool score_prompt = false;  // also the log-probabilities of the prompt's tokens, see ScheduledRequest::prompt_score()
  int score_from = 0;         // only those of the prompt's tokens from this one on
  std::optional<int> slot;    // runs only in this slot; the slot's number does not change while the request is cached
  bool read_prompt = false;   // also with max_tokens 0, the prompt is read into the caches and stays there
  std::optional<Verification> verification;  // none ("auto"): see verification_in_use()
  Drafting drafting = Drafting::sampled;

  // Tokens that are banned or that end the output (engine/request_tokens.h).
  int min_tokens = 0;                    // until then, the end of generation and stop tokens are banned
  bool ignore_eos = false;               // the end of generation is banned
  std::vector<Token> stop_token_ids;     // each ends the output
  std::vector<Token> allowed_token_ids;  // no others; empty: all
  std::vector<std::string> bad_words;    // their last tokens are banned where they would complete them
  std::optional<std::vector<std::string>> dry_sequence_breakers;  // none: llama.cpp's

  bool reports_cut_drafts = false;  // with the pieces (Piece::cut_drafts)

  std::string prediction;  // what the output is likely to be: drafts are copied from it

  // What the whole output must match; at most one may be given (constraints/constraint_compiler.h).
  std::optional<std::string> grammar;
  std::optional<std::string> json_schema;
  bool strict_schema = true;  // false: keywords that cannot be enforced are left to the caller
  std::optional<std::vector<std::string>> ignored_keywords;  // those, if they are known already
  std::optional<std::string> regex;
  std::optional<std::vector<std::string>> choice;  // one of these
  std::optional<std::string> structural_tag;
  // The grammar of a tool call. The output is a call or, if one of the constraints above is given, may match that
  // instead.
  struct Call : CallGrammar {
    std::vector<std::string> ignored;  // keywords of the tools' schemas that it does not enforce, for people
  };
  std::optional<Call> call;
  int reasoning_budget = -1;  // most tokens of reasoning in a chat's answer; -1: any number
  // How the chat template marks reasoning (ChatOutputParser::Reasoning); none: it has no reasoning, or its place is
  // unknown.
  struct ReasoningMarks {
    std::string begin, end;
    bool is_open = false;
  };
  std::optional<ReasoningMarks> reasoning;
  // Parses an answer that may have at most one call: the output ends where a second call begins. Null: no limit.
  std::shared_ptr<const ChatOutputParser> one_call;
  std::string constraint_name;  // for errors; empty: the option's name
  void set_prompt(Text text);
  const char* constraint() const;  // the name of the constraint that is given; null: none
  void drop_constraint();

  void validate() const;  // throws std::invalid_argument, or ArgumentError if one option is wrong

  // The requested mode. If none was requested: without a seed block, which accepts the most; with a seed invariant, so
  // that the seed gives the same output with any draft, any number of drafts, or none.
  Verification verification_in_use() const;
};

// The mode with this name; "auto" gives nullopt. The valid names are in request_options.h.
std::optional<Verification> verification_named(const std::string& name);
Drafting drafting_named(const std::string& name);
const char* name(Verification verification);
const char* name(Drafting drafting);
const char* name(DraftOrigin origin);  // "model", "suffix", "ngram", "constraint"; none: ""

enum class FinishReason { stop, length, context };  // end of generation or a stop string; max_tokens; no room left
const char* name(FinishReason reason);

// One token of the output. `text` is the text that became final with it: it may be empty, or include text of earlier
// tokens.
struct Piece {
  Token token = 0;
  std::string text;
  DraftOrigin origin = DraftOrigin::none;     // of an accepted draft
  double logprob = 0.0;                       // natural log of the target's raw probability; NaN if not asked for
  std::optional<FinishReason> finish_reason;  // on the last piece
  // The Request::top_logprobs most likely tokens at this place, by the same probabilities, most likely first.
  std::vector<sampling::TokenLogprob> top_logprobs;
  // On the last piece of a cycle, if the request asks for them: the text of drafts that were not accepted, by branch.
  std::vector<std::string> cut_drafts;

  bool from_draft() const { return origin != DraftOrigin::none; }
};

}  // namespace specdec

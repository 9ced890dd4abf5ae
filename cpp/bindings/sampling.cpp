// specdec_native.sampling: the sampling mathematics on numpy arrays. Checks the arguments that the C++ functions assume
// valid.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/index.h"
#include "bindings/register.h"
#include "sampling/gumbel_max.h"
#include "sampling/require.h"
#include "sampling/speedup.h"
#include "sampling/transforms.h"
#include "sampling/verify_block.h"
#include "sampling/verify_token.h"

namespace py = pybind11;

namespace {

using namespace specdec::sampling;

// Token ids are read as doubles too (exact below 2^53): as an integer array, numpy would silently truncate 1.5 to 1.
using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

std::string shape_text(const py::array& array) {
  std::string text = "(";
  for (py::ssize_t i = 0; i < array.ndim(); ++i) text += (i > 0 ? ", " : "") + std::to_string(array.shape(i));
  return text + (array.ndim() == 1 ? ",)" : ")");
}

// shape: the required shape, -1 for any length; layout: the same as text for the message.
void check_shape(const py::array& array, const std::string& name, const std::vector<py::ssize_t>& shape,
                 const std::string& layout) {
  bool same = array.ndim() == static_cast<py::ssize_t>(shape.size());
  for (std::size_t i = 0; same && i < shape.size(); ++i) {
    same = shape[i] == -1 || array.shape(static_cast<py::ssize_t>(i)) == shape[i];
  }
  if (!same) throw std::invalid_argument(name + " has shape " + shape_text(array) + ": must be " + layout);
}

std::string element(const std::string& name, std::size_t index) { return name + "[" + std::to_string(index) + "]"; }

Token checked_token(double token, py::ssize_t vocabulary, const std::string& name) {
  if (token >= 0.0 && token < static_cast<double>(vocabulary) && token == std::floor(token)) {
    return static_cast<Token>(token);
  }
  throw_invalid(name, token, "an integer in [0, " + std::to_string(vocabulary) + "), the vocabulary");
}

std::vector<Token> checked_tokens(const Doubles& tokens, py::ssize_t vocabulary, const std::string& name) {
  std::vector<Token> checked;
  for (py::ssize_t i = 0; i < tokens.size(); ++i) {
    checked.push_back(checked_token(tokens.data()[i], vocabulary, element(name, checked.size())));
  }
  return checked;
}

Distribution checked_distribution(const double* row, py::ssize_t vocabulary, const std::string& name) {
  double sum = 0.0;
  for (py::ssize_t i = 0; i < vocabulary; ++i) {
    const bool plausible = row[i] >= 0.0 && row[i] <= 2.0;  // excludes NaN and inf; the sum is checked below
    if (!plausible) throw_invalid(element(name, specdec::idx(i)), row[i], "a probability");
    sum += row[i];
  }
  if (!(std::fabs(sum - 1.0) <= 1e-6)) throw_invalid("sum of " + name, sum, "1 (to 1e-6)");
  Distribution distribution;
  distribution.set_dense(row, static_cast<int>(vocabulary));
  return distribution;
}

// The rows of an array [rows, V].
std::vector<Distribution> checked_rows(const Doubles& array, const std::string& name) {
  const py::ssize_t vocabulary = array.shape(1);
  std::vector<Distribution> rows;
  for (py::ssize_t i = 0; i < array.shape(0); ++i) {
    const double* row = array.data() + i * vocabulary;
    rows.push_back(checked_distribution(row, vocabulary, element(name, rows.size())));
  }
  return rows;
}

py::array_t<double> to_dense(const Distribution& distribution, py::ssize_t vocabulary) {
  py::array_t<double> row(vocabulary);
  std::fill_n(row.mutable_data(), vocabulary, 0.0);
  for (std::size_t i = 0; i < distribution.tokens.size(); ++i) {
    row.mutable_data()[distribution.tokens[i]] = distribution.probs[i];
  }
  return row;
}

py::array_t<double> transform(const Doubles& logits, double temperature, int top_k, double top_p, double min_p,
                              double repeat_penalty, double frequency_penalty, double presence_penalty,
                              int penalty_last_n, const std::optional<std::map<std::int64_t, double>>& logit_bias,
                              const std::optional<Doubles>& history) {
  check_shape(logits, "logits", {-1}, "[V]");
  const py::ssize_t vocabulary = logits.size();
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  params.repeat_penalty = repeat_penalty;
  params.frequency_penalty = frequency_penalty;
  params.presence_penalty = presence_penalty;
  params.penalty_last_n = penalty_last_n;
  if (logit_bias) {
    for (const auto& [token, bias] : *logit_bias) {
      params.logit_bias.emplace_back(checked_token(static_cast<double>(token), vocabulary, "logit_bias token"), bias);
    }
  }
  std::vector<Token> past;
  if (history) {
    check_shape(*history, "history", {-1}, "[n]");
    past = checked_tokens(*history, vocabulary, "history");
  }
  Distribution out;
  Transforms(params).apply(logits.data(), static_cast<int>(vocabulary), past.data(), static_cast<int>(past.size()),
                           out);
  return to_dense(out, vocabulary);
}

py::array_t<double> residual_of(const Doubles& target_probs, const Doubles& draft_probs) {
  check_shape(target_probs, "target_probs", {-1}, "[V]");
  const py::ssize_t vocabulary = target_probs.size();
  check_shape(draft_probs, "draft_probs", {vocabulary}, "[V], V = " + std::to_string(vocabulary) + " as target_probs");
  const Distribution target = checked_distribution(target_probs.data(), vocabulary, "target_probs");
  const Distribution draft = checked_distribution(draft_probs.data(), vocabulary, "draft_probs");
  Distribution out;
  residual(target, draft, out);
  return to_dense(out, vocabulary);
}

// A token with draft probability zero was not sampled from that row, so draft_probs is not the recorded proposal.
void check_drawn(const std::vector<Token>& drafted, const std::vector<Distribution>& draft_probs) {
  for (std::size_t i = 0; i < drafted.size(); ++i) {
    if (draft_probs[i].probability(drafted[i]) > 0.0) continue;
    throw std::invalid_argument(element("draft_tokens", i) + " = " + std::to_string(drafted[i]) +
                                " has probability 0 in " + element("draft_probs", i) + ": it was not drawn from it");
  }
}

std::vector<double> checked_uniforms(const Doubles& uniforms) {
  const std::vector<double> checked(uniforms.data(), uniforms.data() + uniforms.size());
  for (std::size_t i = 0; i < checked.size(); ++i) {
    if (!(checked[i] >= 0.0 && checked[i] < 1.0)) throw_invalid(element("uniforms", i), checked[i], "in [0, 1)");
  }
  return checked;
}

using Verification = Verdict (*)(const std::vector<Token>&, const std::vector<Distribution>&,
                                 const std::vector<Distribution>&, const std::vector<double>&);

template <Verification verification>
Verdict verify(const Doubles& draft_tokens, const Doubles& draft_probs, const Doubles& target_probs,
               const Doubles& uniforms) {
  check_shape(draft_tokens, "draft_tokens", {-1}, "[K]");
  const py::ssize_t k = draft_tokens.size();
  const std::string given = ", K = " + std::to_string(k) + " as draft_tokens";
  check_shape(target_probs, "target_probs", {k + 1, -1}, "[K+1, V]" + given);
  const py::ssize_t vocabulary = target_probs.shape(1);
  check_shape(draft_probs, "draft_probs", {k, vocabulary},
              "[K, V]" + given + ", V = " + std::to_string(vocabulary) + " as target_probs");
  check_shape(uniforms, "uniforms", {k + 1}, "[K+1]" + given);

  const std::vector<Token> drafted = checked_tokens(draft_tokens, vocabulary, "draft_tokens");
  const std::vector<Distribution> draft_rows = checked_rows(draft_probs, "draft_probs");
  check_drawn(drafted, draft_rows);
  const std::vector<Distribution> target_rows = checked_rows(target_probs, "target_probs");
  return verification(drafted, draft_rows, target_rows, checked_uniforms(uniforms));
}

Token gumbel_max_of(const Doubles& probs, std::uint64_t seed, std::int64_t position) {
  check_shape(probs, "probs", {-1}, "[V]");
  if (position < 0) throw_invalid("position", static_cast<double>(position), "0 or more");
  return gumbel_max(checked_distribution(probs.data(), probs.size(), "probs"), PhiloxUniforms(seed, 0), position);
}

double speedup(double rate, int num_draft_tokens, double t_draft, double t_target,
               std::optional<double> t_target_batch) {
  return predicted_speedup(rate, num_draft_tokens, t_draft, t_target, t_target_batch.value_or(t_target));
}

constexpr const char* module_doc =
    R"(The sampling and verification functions of lossless speculative decoding on numpy arrays. Pure functions: random
numbers are arguments.

Bad values raise ValueError (TypeError for arguments that are not arrays of numbers): NaN, wrong shapes, rows that do
not sum to 1 (to 1e-6), token ids outside the vocabulary, uniforms outside [0, 1).)";

constexpr const char* transform_doc =
    R"(The distribution to sample from, given a row of logits: float64 [V], summing to 1.

logits: [V], any real dtype, computed in float64; -inf means probability zero. Order, as in llama.cpp: logit bias,
penalties, top-k, top-p, min-p, temperature. Ties go to the lower token id.

temperature: >= 0; below 1e-5 gives the one-hot of the highest logit
top_k: keep the k highest; 0 is off
top_p: in (0, 1]: keep the smallest set of most probable tokens whose probabilities reach top_p (before temperature)
min_p: in [0, 1]: keep tokens at least min_p times as probable as the most probable one (before temperature)
repeat_penalty: > 0: divides positive and multiplies negative logits of tokens among the last penalty_last_n of
    history
frequency_penalty: subtracted from the logit once per occurrence among those tokens
presence_penalty: subtracted once if the token occurs among them
penalty_last_n: -1 is all of history, 0 turns the penalties off
logit_bias: {token: bias}, added; -inf bans the token
history: integers [n], the tokens so far, the newest last

ValueError: NaN or +inf logits, no finite logit, a parameter or token id out of range.)";

constexpr const char* residual_doc =
    R"(normalise(max(0, target - draft)), float64 [V]: the distribution of the correction token after a rejection.

target_probs, draft_probs: [V], each summing to 1. If they are equal, the residual is empty and target_probs is
    returned.
Chen et al., arXiv:2302.01318, algorithm 2; Leviathan et al., arXiv:2211.17192, section 2.3.)";

constexpr const char* verify_token_doc =
    R"(Modified Rejection Sampling: how many drafted tokens to keep, and the token that follows them.

draft_tokens: integers [K], draft_tokens[i] drawn from draft_probs[i]
draft_probs:  [K, V], the distributions that were sampled from (one-hot rows for argmax drafting)
target_probs: [K+1, V]
uniforms:     [K+1], each in [0, 1), independent of the drafting: uniforms[i] decides on draft_tokens[i],
              uniforms[K] draws the last token by inverse CDF in ascending token order

draft_tokens[i] is accepted iff uniforms[i] * draft_prob < target_prob; the first rejection draws the correction
token from residual(target_probs[i], draft_probs[i]), full acceptance the bonus token from target_probs[K]. Then
draft_tokens[:num_accepted] followed by next_token has the target's distribution, for any draft.
Chen et al., arXiv:2302.01318, algorithm 2 and theorem 1; Leviathan et al., arXiv:2211.17192, algorithm 1.

ValueError, besides the module's: a drafted token of draft probability zero.)";

constexpr const char* verify_block_doc =
    R"(Block verification: how many drafted tokens to keep, and the token that follows them. Arguments as for
verify_token.

The drafts are verified jointly: the longest prefix whose test succeeds is kept; uniforms[i] tests the prefix that
ends with draft_tokens[i]. The output has the target's distribution, as with verify_token; the expected number of
accepted tokens is at least as large.
Sun et al., arXiv:2403.10444, algorithm 2.)";

constexpr const char* gumbel_max_doc =
    R"(Gumbel-max sampling: argmax(log(probs) + Gumbel noise), which is distributed as probs. The noise of a token
depends only on the seed, the position and the token id.

probs: [V]; seed: 0 to 2^64 - 1; position: the token's index in the sequence, 0 or more

Drafter-invariant speculative decoding accepts a draft if it equals the target's choice by this function. Similar
distributions usually choose the same token. Daliri, Musco and Suresh, arXiv:2408.07978.)";

constexpr const char* speedup_doc =
    R"(Predicted speedup over plain decoding: rate * (K + 1) * t_target / (K * t_draft + t_target_batch),
K = num_draft_tokens.

rate: tokens per cycle / (K + 1) = (1 + acceptance_rate * K) / (K + 1), in (0, 1]
t_draft, t_target: time of one draft pass and of one target pass over one token, in the same unit
t_target_batch: time of one target pass over K + 1 tokens; None: t_target
Leviathan et al., arXiv:2211.17192, section 3.3, with a measured rate.)";

void register_verdict(py::module_& m) {
  const auto text = [](const Verdict& v) {
    return "Verdict(num_accepted=" + std::to_string(v.num_accepted) + ", next_token=" + std::to_string(v.next_token) +
           ")";
  };
  const auto as_tuple = [](const Verdict& v) { return py::make_tuple(v.num_accepted, v.next_token); };
  py::class_<Verdict>(m, "Verdict", "The result of a verification. Unpacks as (num_accepted, next_token).")
      .def(py::init([](int num_accepted, Token next_token) { return Verdict{num_accepted, next_token}; }),
           py::arg("num_accepted"), py::arg("next_token"))
      .def_readonly("num_accepted", &Verdict::num_accepted, "How many drafted tokens are kept, 0..K.")
      .def_readonly("next_token", &Verdict::next_token, "The correction token; after full acceptance, the bonus token.")
      .def("__repr__", text)
      .def(
          "__eq__",
          [](const Verdict& a, const py::object& b) { return py::isinstance<Verdict>(b) && a == b.cast<Verdict>(); },
          py::arg("other"))
      .def("__hash__", [=](const Verdict& v) { return py::hash(as_tuple(v)); })
      .def("__iter__", [=](const Verdict& v) -> py::typing::Iterator<int> { return py::iter(as_tuple(v)); });
}

}  // namespace

void register_sampling(py::module_& m) {
  m.doc() = module_doc;
  register_verdict(m);
  m.def("transform", &transform, transform_doc, py::arg("logits"), py::kw_only(), py::arg("temperature") = 1.0,
        py::arg("top_k") = 0, py::arg("top_p") = 1.0, py::arg("min_p") = 0.0, py::arg("repeat_penalty") = 1.0,
        py::arg("frequency_penalty") = 0.0, py::arg("presence_penalty") = 0.0, py::arg("penalty_last_n") = 64,
        py::arg("logit_bias") = py::none(), py::arg("history") = py::none());
  m.def("residual", &residual_of, residual_doc, py::arg("target_probs"), py::arg("draft_probs"));
  m.def("verify_token", &verify<verify_token>, verify_token_doc, py::arg("draft_tokens"), py::arg("draft_probs"),
        py::arg("target_probs"), py::arg("uniforms"));
  m.def("verify_block", &verify<verify_block>, verify_block_doc, py::arg("draft_tokens"), py::arg("draft_probs"),
        py::arg("target_probs"), py::arg("uniforms"));
  m.def("gumbel_max", &gumbel_max_of, gumbel_max_doc, py::arg("probs"), py::kw_only(), py::arg("seed"),
        py::arg("position"));
  m.def("predicted_speedup", &speedup, speedup_doc, py::arg("rate"), py::arg("num_draft_tokens"), py::arg("t_draft"),
        py::arg("t_target"), py::arg("t_target_batch") = py::none());
}

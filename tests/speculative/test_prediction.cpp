// Predictions of the output in simulated time: right ones pay, edited ones go on after the edit, wrong ones cost
// nothing.
#include "check.h"
#include "replayed_text.h"
#include "speculative/suffix_proposer.h"

namespace {

using namespace simulated;
using Tokens = std::vector<Token>;

double flat(int n) { return 26.0 + 1.3 * (n - 1); }
double per_token(int n) { return 40.0 + 4.8 * (n - 1); }
double f16(int n) { return n == 1 ? 62.0 : 70.0 + 12.0 * n; }
// Two cores with AVX-512, Q4_K_M.
double measured(int n) { return n <= 4 ? 28.0 + 2.0 * n : 14.0 + 7.0 * n; }
constexpr double (*const costs[])(int) = {flat, per_token, f16, measured};

// As in source code some tokens are frequent, and some pairs of them more than others: short matches abound.
Tokens code(Random& random, int length) {
  Tokens tokens;
  for (int i = 0; i < length; ++i) {
    const auto rare = static_cast<Token>(400.0 * random() * random() * random());
    const bool is_idiom = !tokens.empty() && random() < 0.4;
    tokens.push_back(is_idiom ? (7 * tokens.back() + static_cast<Token>(2.0 * random())) % 400 : rare);
  }
  return tokens;
}

Tokens edited(Random& random, const Tokens& text) {
  Tokens result;
  for (const Token token : text) {
    if (random() < 0.02) result.push_back(static_cast<Token>(500.0 + 50.0 * random()));
    if (random() > 0.01) result.push_back(token);
  }
  return result;
}

// Edits of a file, 250 tokens each, and another file.
struct Edit {
  Tokens file, answer, other;
};

std::vector<Edit> edits() {
  Random random(5);
  std::vector<Edit> made(16);
  for (Edit& edit : made) {
    edit.file = code(random, 250), edit.other = code(random, 250);
    edit.answer = edited(random, edit.file);
  }
  return made;
}

Task task_of(const Edit& edit, bool file_is_in_prompt, Tokens prediction) {
  Task task;
  task.tokens = {600, 601, 602, 603};
  if (file_is_in_prompt) task.tokens.insert(task.tokens.end(), edit.file.begin(), edit.file.end());
  task.tokens.push_back(604);
  task.num_prompt = static_cast<int>(task.tokens.size());
  task.tokens.insert(task.tokens.end(), edit.answer.begin(), edit.answer.end());
  task.prediction = std::move(prediction);
  return task;
}

// Times as fast as without predictions, by edit. The rule is the same for all, as in a Generator, so that it has just
// learnt what the other kind is worth; each task runs with eight disturbances.
struct Gains {
  double least = 99.0, mean = 0.0;
};

template <class PredictionOf>
Gains gains_of(CopiedTexts texts, double (*cost)(int), PredictionOf prediction_of) {
  const std::vector<Edit> all = edits();
  std::vector<double> with(all.size()), without(all.size());
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    AdaptiveDraftLength rule, plain_rule;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool in_prompt = texts == CopiedTexts::all;
      const auto seconds = [&](AdaptiveDraftLength& its_rule, Tokens prediction) {
        SuffixProposer proposer(nullptr, texts);
        return replay(task_of(all[i], in_prompt, std::move(prediction)), cost, proposer, its_rule, seed).seconds;
      };
      with[i] += seconds(rule, prediction_of(all[i], i));
      without[i] += seconds(plain_rule, {});
    }
  }
  Gains gains;
  for (std::size_t i = 0; i < all.size(); ++i) {
    gains.least = std::min(gains.least, without[i] / with[i]);
    gains.mean += without[i] / with[i] / static_cast<double>(all.size());
  }
  return gains;
}

}  // namespace

TEST(a_right_prediction_is_worth_twice_the_speed) {
  for (const auto cost : costs) {
    const Gains right = gains_of(CopiedTexts::predictions, cost, [](const Edit& e, std::size_t) { return e.answer; });
    const Gains text = gains_of(CopiedTexts::predictions, cost, [](const Edit& e, std::size_t) { return e.file; });
    std::printf("answer: %.2f (%.2f at least), text before the edits: %.2f (%.2f)\n", right.mean, right.least,
                text.mean, text.least);
    CHECK(right.least > 2.5);
    CHECK(text.mean > 2.0);
  }
}

TEST(a_wrong_prediction_costs_nothing) {
  for (const CopiedTexts texts : {CopiedTexts::predictions, CopiedTexts::all}) {
    for (const auto cost : costs) {
      const Gains wrong = gains_of(texts, cost, [](const Edit& e, std::size_t) { return e.other; });
      std::printf("wrong: %.3f (%.3f at least)\n", wrong.mean, wrong.least);
      // Of the prompt's copies few cycles are left, so one more is 3 % of an answer, with or without a prediction.
      CHECK(wrong.mean > 0.97 && wrong.least > (texts == CopiedTexts::all ? 0.9 : 0.96));
    }
  }
}

// The text that is to be edited is in the prompt already, so it is copied from there.
TEST(a_prediction_that_is_in_the_prompt_costs_nothing) {
  for (const auto cost : costs) {
    const Gains text = gains_of(CopiedTexts::all, cost, [](const Edit& e, std::size_t) { return e.file; });
    std::printf("text of the prompt: %.3f (%.3f at least)\n", text.mean, text.least);
    CHECK(text.mean > 0.97 && text.least > 0.9);
  }
}

// What was right of one request says nothing about the next.
TEST(right_and_wrong_predictions_in_turn) {
  for (const auto cost : costs) {
    Gains wrong;
    const auto wrong_ones = [](const Edit& e, std::size_t i) { return i % 2 == 0 ? e.answer : e.other; };
    wrong = gains_of(CopiedTexts::predictions, cost, wrong_ones);
    std::printf("in turn: %.3f (%.3f at least)\n", wrong.mean, wrong.least);
    CHECK(wrong.least > 0.96);
  }
}

// Sources are compared by what the text has shown so far, and not by which cycles looked them up.
TEST(copies_of_a_prediction_are_a_function_of_the_text) {
  const Edit edit = edits().front();
  const Task task = task_of(edit, true, edited(*std::make_unique<Random>(9), edit.answer));
  const auto sequence = [&] {
    auto s =
        std::make_unique<Sequence>(0, sampling::SamplingParams(), std::make_unique<sampling::PhiloxUniforms>(1, 0));
    s->tokens.assign(task.tokens.begin(), task.tokens.begin() + task.num_prompt);
    s->prediction = std::make_unique<Prediction>(s->tokens, task.prediction);
    return s;
  };
  const auto look_up = [&](SuffixProposer& proposer, Sequence& s, int length) {
    s.tokens.assign(task.tokens.begin(), task.tokens.begin() + length);
    s.num_committed = length;
    std::vector<Copy> copies;
    proposer.look_up(s, 20, copies);
    return copies;
  };
  SuffixProposer often, once;
  const auto a = sequence(), b = sequence();
  std::vector<Copy> every_time, at_once;
  for (int length = task.num_prompt; length <= task.num_prompt + 120; ++length) every_time = look_up(often, *a, length);
  at_once = look_up(once, *b, task.num_prompt + 120);
  CHECK(!at_once.empty() && every_time.size() == at_once.size());
  for (std::size_t i = 0; i < at_once.size(); ++i) {
    CHECK(at_once[i].token == every_time[i].token && at_once[i].origin == every_time[i].origin);
    CHECK(at_once[i].confidence == every_time[i].confidence);
  }
}

TEST_MAIN()

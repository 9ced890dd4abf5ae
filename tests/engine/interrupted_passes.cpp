// Requests that are interrupted and cancelled everywhere, for test_interruptions.py: interrupted_passes TARGET DRAFT
// SEQUENCES STEP.
//
// A run is a few requests of different lengths. In run i the demand to stop comes the i-th time that the models ask for
// it, which they do in the middle of every pass of the target and of the draft. Then one of the requests is cancelled
// (in every second run none), and the others go on: every text must be that of plain decoding. i grows by STEP until a
// run ends uninterrupted. Prints how many passes were interrupted.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/loaded_models.h"
#include "engine/scheduler.h"
#include "speculative/decoder.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

constexpr int longest = 12;
constexpr Token end_of_text = 1;

GeneratorOptions options_of(const std::string& target, const std::string& draft, int num_sequences) {
  GeneratorOptions options;
  options.target = target;
  options.draft = draft_source(draft);
  options.num_draft_tokens = draft.empty() ? 0 : 3;
  options.n_ctx = 256;
  options.n_threads = 1;
  options.max_sequences = num_sequences;
  options.suffix = false;
  return options;
}

// Prompts share beginnings, so that caches are kept and copied in part.
Tokens prompt(int run, int sequence) {
  Tokens tokens = {0};
  for (int i = 0; i < 5 + (run + sequence) % 6; ++i)
    tokens.push_back(40 + (7 * i + (i < 4 ? 0 : sequence) + run / 3 % 4) % 200);
  return tokens;
}

Request request_of(const Tokens& prompt) {
  Request request;
  request.prompt_tokens = prompt;
  request.max_tokens = longest;
  request.sampling.temperature = 0;
  request.sampling.logit_bias = {{end_of_text, -1000.0}};
  return request;
}

void check(bool is_true, const char* what, int run) {
  if (is_true) return;
  std::fprintf(stderr, "run %d: %s\n", run, what);
  std::exit(1);
}

// The models under a scheduler that this thread drives, so that passes are interrupted at places of its choice.
struct Engine {
  explicit Engine(const GeneratorOptions& given)
      : options(given),
        models(load_models(options, nullptr)),
        decoder(models.target(), models.proposer()),
        scheduler(decoder, models.vocabulary(), options.max_sequences) {}

  std::int64_t submit(const Request& request) {
    const int k = models.proposer() == nullptr ? 0 : request.num_draft_tokens.value_or(options.num_draft_tokens);
    scheduler.add(std::make_shared<ScheduledRequest>(num_requests, request, request.prompt_tokens, 0, k));
    return num_requests++;
  }

  const GeneratorOptions options;
  LoadedModels models;
  Decoder decoder;
  Scheduler scheduler;
  std::int64_t num_requests = 0;
};

struct Texts {
  Engine engine;
  std::map<Tokens, Tokens> made;

  // Without drafts.
  const Tokens& after(const Tokens& prompt) {
    Tokens& text = made[prompt];
    if (!text.empty()) return text;
    engine.submit(request_of(prompt));
    while (const auto event = engine.scheduler.next()) text.push_back(event->piece->token);
    return text;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string target = argv[1], draft = argv[2];
  const int num_sequences = std::atoi(argv[3]), step = std::atoi(argv[4]);
  Texts texts{Engine(options_of(target, "", 1)), {}};
  Engine engine(options_of(target, draft, num_sequences));
  int num_asked = 0, stop_at = 0;
  engine.models.set_cancel_check([&] { return ++num_asked == stop_at; });

  struct Running {
    Tokens prompt, text;
    int max_tokens;
    bool is_cancelled;
  };
  int num_interrupted = 0, num_accepted = 0, num_drafted = 0;
  for (int run = 0;; ++run) {
    num_asked = 0, stop_at = 1 + run * step;
    bool is_interrupted = false;
    std::map<std::int64_t, Running> requests;
    for (int sequence = 0; sequence < num_sequences + run % 2; ++sequence) {
      Request request = request_of(prompt(run, sequence));
      request.max_tokens = longest - (run + 5 * sequence) % 8;
      request.num_draft_tokens = 1 + (run + 2 * sequence) % 5;
      requests[engine.submit(request)] = {request.prompt_tokens, {}, request.max_tokens, false};
    }
    for (bool goes_on = true; goes_on;) {
      try {
        const auto event = engine.scheduler.next();
        goes_on = event.has_value();
        if (!event) continue;
        check(event->piece.has_value(), "a request failed", run);
        requests[event->request->id()].text.push_back(event->piece->token);
        if (!event->is_last()) continue;
        num_accepted += static_cast<int>(event->request->sequence().stats.accepted);
        num_drafted += static_cast<int>(event->request->sequence().stats.drafted);
      } catch (const Cancelled&) {
        is_interrupted = true;
        ++num_interrupted;
        if (run % 2 == 1) continue;
        auto& [id, request] = *std::next(requests.begin(), run / 2 % num_sequences);
        request.is_cancelled = true;
        engine.scheduler.cancel(id);
      }
    }
    for (const auto& [id, request] : requests) {
      Tokens expected = texts.after(request.prompt);
      expected.resize(request.is_cancelled ? request.text.size() : static_cast<std::size_t>(request.max_tokens));
      check(request.text == expected, "another text than that of plain decoding", run);
    }
    if (!is_interrupted) break;
  }
  check(0 < num_accepted && num_accepted < num_drafted, "no draft was accepted, or none rejected", -1);
  std::printf("%d\n", num_interrupted);
}

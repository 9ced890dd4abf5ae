#include "cli/commands/race.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/utf8.h"
#include "cli/commands/comparison.h"
#include "cli/options.h"
#include "cli/piece_source.h"
#include "cli/piece_style.h"
#include "cli/prompt.h"
#include "cli/shared_options.h"
#include "cli/statistics.h"
#include "cli/terminal/color.h"
#include "cli/terminal/columns.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/screen.h"
#include "engine/generator.h"
#include "platform/interrupt.h"

namespace specdec::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int warm_up_tokens = 8;
constexpr const char* default_prompt = "def bfs(graph, start):";
constexpr std::chrono::milliseconds frame_time(33);
constexpr const char* separator = " \u2502 ";  // a vertical line; 3 cells
constexpr int separator_width = 3, min_column_width = 8;

struct Arguments {
  Arguments() {
    request.max_tokens = 128;
    request.verification = Verification::invariant;  // so that all modes of a file generate the same text from one seed
  }

  ComparisonOptions comparison;
  Request request;
  PromptSource prompt;
  std::string color = "auto";
  double speed = 1.0;
};

CommandLine command_line(Arguments& arguments) {
  CommandLine line;
  line.command = "specdec race";
  line.arguments = "[options] [MODEL] [-p TEXT | -f FILE]";
  take_model(line);
  line.about =
      "Shows side by side how the target continues a prompt without and with a draft; --mxfp6 adds the target's MXFP6 "
      "version. Each runs alone first; then all are replayed together, every token at its measured time. Accepted "
      "draft tokens are green; rejected ones are shown in red until the next tokens come. With and without a draft the "
      "text is the same, for the same seed. If standard output is "
      "not a terminal, the outputs are printed one after another.";
  line.positional_hint = "; a prompt goes after -p, in quotes";
  const auto set_prompt = [&arguments](const std::string& text) { arguments.prompt.text = text; };
  const auto set_file = [&arguments](const std::string& text) { arguments.prompt.file = text; };
  line.groups = {
      {"Text",
       {{{"-p", "--prompt"}, "TEXT", "the prompt, used verbatim (default: the beginning of a function)", set_prompt},
        {{"-f", "--file"},
         "FILE",
         "read the prompt from a file (-: standard input); one trailing newline is removed",
         set_file},
        flag({"-e", "--escape"}, arguments.prompt.escapes, "interpret \\n, \\t, \\\" ... in -p"),
        predict_option(arguments.request, 1)}},
      {"Race",
       {mxfp6_option(arguments.comparison),
        real({"--speed"}, arguments.speed, numbers_above(0.0, 1000.0),
             "playback speed: 2 is twice as fast as measured, 0.5 half as fast"),
        color_option(arguments.color)}},
      model_group(arguments.comparison.generator),
      sampling_group(arguments.request),
  };
  line.basics = {"-p", "-f", "-n", "-m", "-md", "-hf", "-hfd", "-k", "-t", "--temp", "-s", "--mxfp6", "--speed"};
  return line;
}

// ---- Running

struct TimedPiece {
  double seconds;  // after the end of reading the prompt
  std::string text;
  Style style;
  std::vector<std::string> cut_drafts;
};

struct Runner {
  std::string name;
  std::vector<TimedPiece> pieces;  // never empty

  double seconds() const { return pieces.back().seconds; }
  bool is_timed() const { return pieces.size() >= min_timed_tokens; }
  double tokens_per_second() const { return static_cast<double>(pieces.size()) / seconds(); }
};

void run_request(Generator& generator, const Request& request, std::vector<TimedPiece>& pieces) {
  (void)read_prompt_of(generator, request);
  const Clock::time_point start = Clock::now();
  PieceSource source(generator.submit(request, interrupted));
  while (const std::optional<Piece> piece = source.next()) {
    pieces.push_back({std::chrono::duration<double>(Clock::now() - start).count(), piece->text, style_of(*piece),
                      piece->cut_drafts});
  }
}

// Runs each mode alone, with one file in memory at a time.
std::vector<Runner> record(const Arguments& arguments, ProgressLine& progress) {
  Comparison comparison;
  prepare(arguments.comparison, progress, comparison);
  std::vector<Runner> runners;
  std::unique_ptr<Generator> generator;
  for (const Mode& mode : comparison.modes) {
    progress.begin("running " + mode.name);
    if (runners.empty() || mode.file != comparison.modes[runners.size() - 1].file) {
      generator.reset();
      generator = std::make_unique<Generator>(comparison.files[mode.file].options);
      show_notes(*generator);
      generator->set_remembers_outputs(false);  // the draft must not copy another mode's output
    }
    Request request = arguments.request;
    if (!mode.speculation) request.num_draft_tokens = 0;
    request.reports_cut_drafts = true;
    Request warm_up = request;
    warm_up.max_tokens = std::min(warm_up_tokens, request.max_tokens);
    std::vector<TimedPiece> ignored;
    run_request(*generator, warm_up, ignored);
    runners.push_back({mode.name, {}});
    run_request(*generator, request, runners.back().pieces);
  }
  return runners;
}

// ---- Showing

std::string speed_text(double tokens_per_second) { return format("%.1f tokens/s", tokens_per_second); }
std::string speed_text(const Runner& runner) {
  return runner.is_timed() ? speed_text(runner.tokens_per_second()) : "too few tokens to time";
}

std::string winner_text(const std::vector<Runner>& runners) {
  if (!std::all_of(runners.begin(), runners.end(), [](const Runner& runner) { return runner.is_timed(); })) {
    return "no winner: too few tokens to time";
  }
  const auto slower = [](const Runner& a, const Runner& b) { return a.tokens_per_second() < b.tokens_per_second(); };
  const Runner& winner = *std::max_element(runners.begin(), runners.end(), slower);
  const Runner& first = runners.front();
  if (&winner == &first) return first.name + " wins: none of the others is faster";
  return winner.name +
         " wins: " + format("%.2f times as fast as ", winner.tokens_per_second() / first.tokens_per_second()) +
         first.name;
}

// The branches of the drafts that the target's last pass has cut.
std::string cut_text(const std::vector<std::string>& branches) {
  std::string text;
  for (const std::string& branch : branches) text += (text.empty() ? "" : " / ") + printable(branch);
  return text.empty() ? "" : " [" + text + "]";
}

class Columns {
 public:
  Columns(const std::vector<Runner>& runners, std::string prompt, bool color)
      : runners_(runners), prompt_(std::move(prompt)), color_(color) {}

  // All columns at `seconds` after the start. Shows the last lines of each output, so that the frame has at most `rows`
  // lines (0: no limit). No newline at the end.
  std::string frame(double seconds, int columns, int rows) const {
    const int width = column_width(columns);
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 0;
    for (const Runner& runner : runners_) {
      cells.push_back(text_until(runner, seconds).lines(width, color_));
      height = std::max(height, cells.back().size());
    }
    const std::vector<std::string> verdict = verdict_lines(idx(total_width(width)));
    const int around = 4 + static_cast<int>(verdict.size());  // lines above and below the text
    const std::size_t room = rows == 0 ? height : idx(std::max(1, rows - around));
    std::string text =
        row(width, [](const Runner& runner) { return runner.name; }, Style::bold) + "\n" + rule(width) + "\n";
    for (std::size_t i = height > room ? height - room : 0; i < height; ++i) {
      for (std::size_t column = 0; column < cells.size(); ++column) {
        const bool has_line = i < cells[column].size();
        text += (column > 0 ? separator : "") + (has_line ? cells[column][i] : std::string(idx(width), ' '));
      }
      text += "\n";
    }
    text += rule(width) + "\n" + row(width, [&](const Runner& runner) { return pace(runner, seconds); }, Style::bold);
    if (seconds < duration()) return text;
    for (const std::string& line : verdict) text += "\n" + column_line(line, total_width(width), Style::bold, color_);
    return text;
  }

  // The time of the very last token.
  double duration() const {
    double last = 0.0;
    for (const Runner& runner : runners_) last = std::max(last, runner.seconds());
    return last;
  }

  bool fits(int columns) const { return total_width(min_column_width) <= columns; }

 private:
  int count() const { return static_cast<int>(runners_.size()); }
  int total_width(int column) const { return count() * column + (count() - 1) * separator_width; }
  int column_width(int columns) const {
    return std::max(min_column_width, (columns - (count() - 1) * separator_width) / count());
  }

  std::vector<std::string> verdict_lines(std::size_t width) const {
    std::vector<std::string> lines;
    std::istringstream text(wrap(winner_text(runners_), width, 0));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  ColumnText text_until(const Runner& runner, double seconds) const {
    ColumnText text;
    text.add(prompt_, Style::faint);
    const TimedPiece* last = nullptr;
    for (const TimedPiece& piece : runner.pieces) {
      if (piece.seconds > seconds) break;
      text.add(piece.text, piece.style);
      last = &piece;
    }
    if (last != nullptr && last != &runner.pieces.back()) text.add(cut_text(last->cut_drafts), Style::red);
    return text;
  }

  static std::string pace(const Runner& runner, double seconds) {
    if (seconds >= runner.seconds()) return speed_text(runner);
    const auto later = std::upper_bound(runner.pieces.begin(), runner.pieces.end(), seconds,
                                        [](double time, const TimedPiece& piece) { return time < piece.seconds; });
    const auto done = later - runner.pieces.begin();
    return done < min_timed_tokens ? "" : speed_text(static_cast<double>(done) / seconds);
  }

  template <typename Text>
  std::string row(int width, Text&& text, Style style) const {
    std::string line;
    for (const Runner& runner : runners_)
      line += (line.empty() ? "" : separator) + column_line(text(runner), width, style, color_);
    return line;
  }

  std::string rule(int width) const {
    std::string line;
    for (int column = 0; column < count(); ++column) {
      if (column > 0) line += "\u2500\u253c\u2500";
      for (int i = 0; i < width; ++i) line += "\u2500";
    }
    return line;
  }

  const std::vector<Runner>& runners_;
  std::string prompt_;
  bool color_;
};

// Throws Cancelled.
void play(const Columns& columns, double speed) {
  Screen screen;
  const Clock::time_point start = Clock::now();
  for (double now = 0.0; now < columns.duration();) {
    if (interrupted()) throw Cancelled("interrupted");
    now = speed * std::chrono::duration<double>(Clock::now() - start).count();
    const TerminalSize size = terminal_size();  // asked every time, because the terminal may have been resized
    screen.draw(columns.fits(size.columns) ? columns.frame(now, size.columns, size.rows) : "too narrow");
    std::this_thread::sleep_for(frame_time);
  }
}

void print_in_turn(const std::vector<Runner>& runners, bool color) {
  for (const Runner& runner : runners) {
    std::string text = "== " + runner.name + "\n";
    for (const TimedPiece& piece : runner.pieces) text += styled(piece.text, piece.style, color);
    write(text + (text.back() == '\n' ? "" : "\n") + speed_text(runner) + "\n\n");
  }
  write(winner_text(runners) + "\n");
}

}  // namespace

CommandLine describe_race() {
  static Arguments arguments;
  return command_line(arguments);
}

int run_race(int argc, const char* const* argv) {
  Arguments arguments;
  const CommandLine line = command_line(arguments);
  const std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  name_model(arguments.comparison.generator, *positionals);
  if (!arguments.prompt.text && !arguments.prompt.file) arguments.prompt.text = default_prompt;
  arguments.request.prompt = read_prompt(arguments.prompt);
  arguments.request.validate();
  fix_seed(arguments.request);
  resolve_models(arguments.comparison.generator);

  catch_termination();
  ProgressLine progress;
  const std::vector<Runner> runners = record(arguments, progress);
  progress.clear();
  const bool color = use_color(arguments.color);
  const Columns columns(runners, arguments.request.prompt, color);
  if (!can_draw() || !columns.fits(terminal_size().columns)) {
    print_in_turn(runners, color);
    return 0;
  }
  play(columns, arguments.speed);
  write(columns.frame(columns.duration(), terminal_size().columns, 0) + "\n");
  return 0;
}

}  // namespace specdec::cli

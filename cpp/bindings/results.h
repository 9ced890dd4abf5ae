// Pieces and statistics in the form that the Python package expects (_results.py).
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include <optional>
#include <string>

#include "engine/hidden_row_reader.h"
#include "engine/request.h"
#include "speculative/score.h"
#include "speculative/stats.h"

// (token, text, draft_source, logprob, finish_reason, top_logprobs), or None.
pybind11::object piece_to_python(const std::optional<specdec::Piece>& piece);

// (tokens, rows [tokens, layers, width], top_tokens and top_logprobs [tokens, num_top]): arrays.
pybind11::object rows_to_python(const std::vector<specdec::Token>& tokens, std::size_t num_layers,
                                const specdec::LayerRows& rows);

// (tokens, logprobs, most_likely, top_logprobs); all but the first are about tokens[1:].
pybind11::object score_to_python(const specdec::Score& score);

using StatsDict = pybind11::typing::Dict<pybind11::str, pybind11::object>;
// drafting: the sentence about drafts; empty while there is none.
StatsDict stats_to_python(const specdec::Stats& stats, const std::string& drafting);

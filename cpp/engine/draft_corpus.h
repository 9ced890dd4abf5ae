// Text with passages that outputs may repeat: source code, documentation, earlier answers. Suffix decoding copies from
// it.
#pragma once

#include <memory>
#include <string>

#include "llama/load_progress.h"
#include "llama/vocabulary.h"
#include "speculative/corpus_index.h"

namespace specdec {

struct DraftCorpus {
  std::shared_ptr<const CorpusIndex> index;
  std::string note;  // why the index could not be saved for the next start; empty if it was
};

// Reads `path`: UTF-8 text; a folder, whose text files are documents (engine/text_folder.h); or, if the name ends in
// ".ids", token ids, separated by spaces, a document on every line.
// The index is saved in `path`.index (disk_cache/checked_file.h) for the next start, and rebuilt if that file is
// damaged or belongs to another text, tokenizer or version. Throws Error for a file that cannot be read, ModelError for
// text that the vocabulary cannot represent, Cancelled once progress returns false.
DraftCorpus load_corpus(const std::string& path, const Vocabulary& vocabulary,
                        const LoadProgressCallback& progress = {});

}  // namespace specdec

// llama.cpp's buffers in pages of 2 MiB instead of 4 KiB: weights that are not mapped, caches, and what passes compute with.
// Reading them needs fewer page walks, and the processor's prefetching, which stops at the end of a page, goes on.
#pragma once

namespace specdec {

// Whether the system gives such pages to who asks for them.
bool has_huge_pages();

// From now on large CPU buffers ask for them. Without them they are what they were. Once, before the first model.
void install_huge_pages();

}  // namespace specdec

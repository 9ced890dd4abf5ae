// llama.cpp's buffers in huge pages (platform/huge_pages.h): weights that are not mapped, caches, and what passes compute with.
#pragma once

namespace specdec {

// From now on large CPU buffers are in huge pages where the system has them. Once, before the first model.
void install_huge_page_buffers();

}  // namespace specdec

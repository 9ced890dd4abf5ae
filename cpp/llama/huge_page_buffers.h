// Puts llama.cpp's buffers into huge pages (platform/huge_pages.h): weights that are not mapped, caches, compute buffers.
#pragma once

namespace specdec {

// Makes large CPU buffers use huge pages where available. Call once, before loading any model.
void install_huge_page_buffers();

}  // namespace specdec

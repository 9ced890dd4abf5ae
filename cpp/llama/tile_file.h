// A file of tiles that a later process maps instead of repacking weights.
//
// Little-endian: "SDTILES1", u64 bytes of the key, the key, u64 bytes of the tiles, for every 4 MiB of them the
// ContentHash (disk_cache/checked_file.h), 16 characters, and the ContentHash of all so far; the tiles from byte 2^21
// to the end. No tile is used before all hashes have been checked, so a wrong tile is as unlikely as a wrong weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "platform/file.h"
#include "platform/shared_mapping.h"

namespace specdec {

// Tiles [at, at + count) in bytes: where they are, or written to this memory and there.
using TileBytes = std::function<const std::uint8_t*(std::size_t at, std::size_t count, std::uint8_t* memory)>;
// Calls progress(share done) on this thread. Throws Error.
void write_tile_file(File& file, const std::string& key, std::size_t bytes, const TileBytes& tiles, int num_threads,
                     const std::function<void(double)>& progress);

// Returns null if the system cannot map such files. Checks the hashes on this many threads and calls progress(share
// done) on this one. Throws UnusableFile if the file is damaged or has another key or size, or Error if it cannot be
// read.
std::unique_ptr<SharedMapping> map_tile_file(const std::string& path, const std::string& key, std::size_t bytes,
                                             int num_threads, const std::function<void(double)>& progress);

// Reads all tiles past the system's cache and calls visit(at, tiles, count) for each piece on any of the threads, once
// its hash was checked. Otherwise as map_tile_file().
void read_tile_file(const std::string& path, const std::string& key, std::size_t bytes, int num_threads,
                    const std::function<void(std::size_t, const std::uint8_t*, std::size_t)>& visit,
                    const std::function<void(double)>& progress);
std::size_t tile_file_start();  // bytes of a file before its tiles

}  // namespace specdec

// Kernels::matmul for kernels that decode tiles into memory; included inside an anonymous namespace by files that
// define
//   Decoded, decoded_bytes  a byte of a decoded tile, and bytes per tile
//   decode_band(band, blocks, decoded)
//   band_times_group<W>(band, decoded, blocks, group, out, ldo)
//                           multiplies a band by a panel group of W columns; decodes by itself
//   decoded_times_group<W>(band, decoded, blocks, group, out, ldo)
//                           the same from the band's decoded tiles

using BandTimesGroup = void (*)(const std::uint8_t* band, const Decoded* decoded, std::int64_t blocks,
                                const char* group, float* out, std::int64_t ldo);

// By width; entry 0 is not used.
constexpr BandTimesGroup on_the_way[panel_width + 1] = {
    nullptr,
    band_times_group<1>,
    band_times_group<2>,
    band_times_group<3>,
    band_times_group<4>,
    band_times_group<5>,
    band_times_group<6>,
    band_times_group<7>,
    band_times_group<8>,
};
constexpr BandTimesGroup from_scratch[panel_width + 1] = {
    nullptr,
    decoded_times_group<1>,
    decoded_times_group<2>,
    decoded_times_group<3>,
    decoded_times_group<4>,
    decoded_times_group<5>,
    decoded_times_group<6>,
    decoded_times_group<7>,
    decoded_times_group<8>,
};

void matmul(const std::uint8_t* tiles, std::int64_t k, const void* panel, std::int64_t n, std::int64_t band_begin,
            std::int64_t band_end, float* out, std::int64_t ldo, void* scratch) noexcept {
  Decoded* decoded = static_cast<Decoded*>(scratch);
  const std::int64_t blocks = k / block_size;
  const std::int64_t band_decoded = blocks * decoded_bytes;
  const bool share_decoded = n > panel_width;  // from two panel groups on, decoding into scratch pays
  for (std::int64_t first = band_begin; first < band_end; first += scratch_bands) {
    const std::int64_t count = band_end - first < scratch_bands ? band_end - first : scratch_bands;
    const std::uint8_t* bands = tiles + first * blocks * tile_bytes;
    for (std::int64_t b = 0; share_decoded && b < count; ++b) {
      decode_band(bands + b * blocks * tile_bytes, blocks, decoded + b * band_decoded);
    }
    for (std::int64_t column = 0; column < n; column += panel_width) {
      const std::int64_t width = n - column < panel_width ? n - column : panel_width;
      const char* group = static_cast<const char*>(panel) + panel_block(n, k, column, 0).codes;
      for (std::int64_t b = 0; b < count; ++b) {
        const auto run = share_decoded ? from_scratch[width] : on_the_way[width];
        run(bands + b * blocks * tile_bytes, decoded + b * band_decoded, blocks, group,
            out + column * ldo + (first - band_begin + b) * tile_rows, ldo);
      }
    }
  }
}

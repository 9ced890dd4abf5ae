#include "gguf/types.h"

namespace specdec {
namespace {

constexpr GgmlType ggml_types[] = {
    {type_id::f32, "F32", 1, 4},
    {type_id::f16, "F16", 1, 2},
    {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},
    {4, "Q4_2", 0, 0},
    {5, "Q4_3", 0, 0},
    {6, "Q5_0", 32, 22},
    {7, "Q5_1", 32, 24},
    {type_id::q8_0, "Q8_0", 32, 34},
    {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},
    {12, "Q4_K", 256, 144},
    {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},
    {31, "Q4_0_4_4", 0, 0},
    {32, "Q4_0_4_8", 0, 0},
    {33, "Q4_0_8_8", 0, 0},
    {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},
    {36, "IQ4_NL_4_4", 0, 0},
    {37, "IQ4_NL_4_8", 0, 0},
    {38, "IQ4_NL_8_8", 0, 0},
    {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
    {42, "Q2_0", 64, 18},
    {type_id::mxfp6_e2m3, "MXFP6_E2M3", mxfp6_block, mxfp6_block_bytes},
    {type_id::mxfp6_e3m2, "MXFP6_E3M2", 0, 0},
};

}  // namespace

const GgmlType* find_ggml_type(int id) {
  for (const GgmlType& type : ggml_types) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

}  // namespace specdec

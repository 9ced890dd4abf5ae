# LLAMA_SOURCE's tools/mtmd, patched, as a static library, llama::mtmd: encoders of pictures from projector files. It
# has no decoders of sound or video and no tools. Its graphs run in ggml, so the rest is not hot.

set(mtmd_copy "${PROJECT_BINARY_DIR}/mtmd")
specdec_patched_copy(mtmd "${mtmd_copy}")
set(mtmd_source "${mtmd_copy}/tools/mtmd")
file(GLOB mtmd_models CONFIGURE_DEPENDS "${mtmd_source}/models/*.cpp")
add_library(llama_cpp_mtmd STATIC ${mtmd_models} "${mtmd_source}/clip.cpp" "${mtmd_source}/mtmd.cpp"
  "${mtmd_source}/mtmd-audio.cpp" "${mtmd_source}/mtmd-image.cpp")
target_include_directories(llama_cpp_mtmd SYSTEM PUBLIC "${mtmd_source}")
target_include_directories(llama_cpp_mtmd SYSTEM PRIVATE "${LLAMA_SOURCE}/vendor" "${LLAMA_SOURCE}/vendor/hash")
specdec_third_party(llama_cpp_mtmd)
specdec_not_hot(llama_cpp_mtmd)
target_link_libraries(llama_cpp_mtmd PUBLIC llama_cpp_public)
add_library(llama::mtmd ALIAS llama_cpp_mtmd)
# The encoders, all at once; the others define names that collide.
set_target_properties(llama_cpp_mtmd PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
set_source_files_properties("${mtmd_source}/clip.cpp" "${mtmd_source}/mtmd.cpp" "${mtmd_source}/mtmd-audio.cpp"
  "${mtmd_source}/mtmd-image.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

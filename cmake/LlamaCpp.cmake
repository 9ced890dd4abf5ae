# The pinned llama.cpp as imported static libraries: llama::llama (public API) and llama::cpu_internals (headers of its
# sources: the CPU backend's for cpp/graph, those of buffers and architectures for cpp/llama).
#
# It is fetched, patched and built once per set of options into the cache folder, outside the build tree, so that
# neither changes of our code nor a second build tree (wheel, sanitizers) compile it again.

set(SPECDEC_LLAMA_CPP_DIR "" CACHE PATH
  "llama.cpp checkout to use instead of the pinned one (a copy is patched and built)")
set(SPECDEC_CACHE_DIR "${PROJECT_SOURCE_DIR}/.cache" CACHE PATH "where llama.cpp is unpacked and built")

set(SPECDEC_SANITIZE_LLAMA_CPP "" CACHE STRING
  "Sanitizers for llama.cpp, which is then built once more, for example address")
set(SPECDEC_SANITIZE_GGML "" CACHE STRING
  "Sanitizers for ggml alone, which is then built once more, for example thread")

set(fetch_dir "${PROJECT_SOURCE_DIR}/third_party/llama.cpp")
file(GLOB patches CONFIGURE_DEPENDS "${fetch_dir}/patches/*.patch")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${fetch_dir}/fetch.py" "${fetch_dir}/../patches.py" ${patches})
set(checkout "")
if(SPECDEC_LLAMA_CPP_DIR)
  set(checkout "${SPECDEC_LLAMA_CPP_DIR}")
  file(GLOB_RECURSE checkout_files "${checkout}/ggml/*" "${checkout}/include/*" "${checkout}/src/*")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${checkout_files})
endif()
execute_process(COMMAND "${Python_EXECUTABLE}" "${fetch_dir}/fetch.py" "${SPECDEC_CACHE_DIR}" ${checkout}
  OUTPUT_VARIABLE LLAMA_SOURCE OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

# Real paths, so that a build reached through a symbolic link is recognised as the same.
get_filename_component(llama_cache "${LLAMA_SOURCE}" DIRECTORY)  # SPECDEC_CACHE_DIR's
file(REAL_PATH "${CMAKE_C_COMPILER}" llama_c_compiler)
file(REAL_PATH "${CMAKE_CXX_COMPILER}" llama_cxx_compiler)
set(LLAMA_OPTIONS
  -DCMAKE_BUILD_TYPE=Release
  -DCMAKE_C_COMPILER=${llama_c_compiler}
  -DCMAKE_CXX_COMPILER=${llama_cxx_compiler}
  -DCMAKE_POSITION_INDEPENDENT_CODE=ON
  "-DCMAKE_C_FLAGS=-fexceptions -w"  # a failed assertion while loading becomes an exception (cpp/llama/backend.cpp)
  -DCMAKE_CXX_FLAGS=-w               # not our warnings
  -DCMAKE_INSTALL_LIBDIR=lib
  -DBUILD_SHARED_LIBS=OFF
  -DGGML_BACKEND_DL=OFF        # the op hook needs the CPU backend in this process, linked statically
  -DGGML_CPU_ALL_VARIANTS=OFF
  -DGGML_LLAMAFILE=OFF         # its F16 matmul rounds differently for different batch sizes (docs/losslessness.md)
  -DGGML_CPU_REPACK=OFF        # as above; also keeps weights in the mmap'ed file
  -DGGML_OPENMP=OFF            # one thread pool shared by both models, no libgomp in the binary
  -DGGML_RPC=ON -DGGML_RPC_RDMA=OFF  # TCP only; with RDMA the binary would need libibverbs where the build finds it
  -DGGML_ACCELERATE=OFF -DGGML_BLAS=OFF -DGGML_METAL=OFF
  -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
  -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF
)
if(CMAKE_TOOLCHAIN_FILE)
  list(APPEND LLAMA_OPTIONS "-DCMAKE_TOOLCHAIN_FILE=${CMAKE_TOOLCHAIN_FILE}")
endif()
if(SPECDEC_PORTABLE)
  list(APPEND LLAMA_OPTIONS -DGGML_NATIVE=OFF)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")  # x86-64-v3
    list(APPEND LLAMA_OPTIONS -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_BMI2=ON -DGGML_FMA=ON -DGGML_F16C=ON)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(APPEND LLAMA_OPTIONS -DGGML_CPU_ARM_ARCH=armv8.2-a+dotprod+fp16)
  endif()
else()
  list(APPEND LLAMA_OPTIONS -DGGML_NATIVE=ON)
endif()

# -O1 is compiled in half the time of -O3.
set(sanitized "-O1 -g1 -DNDEBUG -fno-omit-frame-pointer -fsanitize=")
if(SPECDEC_SANITIZE_LLAMA_CPP)
  list(APPEND LLAMA_OPTIONS "-DCMAKE_C_FLAGS_RELEASE=${sanitized}${SPECDEC_SANITIZE_LLAMA_CPP}"
    "-DCMAKE_CXX_FLAGS_RELEASE=${sanitized}${SPECDEC_SANITIZE_LLAMA_CPP}")
endif()

# The pinned one in fewer units. Another checkout may have other names.
set(units_hash "")
if(NOT checkout)
  set(units "${PROJECT_SOURCE_DIR}/cmake/LlamaCppUnits.cmake")
  file(MD5 "${units}" units_hash)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${units}")
endif()

string(MD5 options_hash
  "${LLAMA_OPTIONS};${units_hash};${CMAKE_GENERATOR};${CMAKE_CXX_COMPILER_ID};${CMAKE_CXX_COMPILER_VERSION}")
string(SUBSTRING "${options_hash}" 0 8 options_hash)
get_filename_component(source_name "${LLAMA_SOURCE}" NAME)
set(LLAMA_BUILD "${llama_cache}/build-${source_name}-${options_hash}")
if(NOT checkout)
  list(APPEND LLAMA_OPTIONS "-DCMAKE_PROJECT_llama.cpp_INCLUDE=${units}")  # after the hash, which has its content
endif()

# Libraries that ggml and llama install, in link order.
set(llama_libraries llama ggml ggml-cpu ggml-rpc ggml-base)
set(LLAMA_ARCHIVES "")
foreach(library IN LISTS llama_libraries)
  set(prefix "${CMAKE_STATIC_LIBRARY_PREFIX}")
  if(WIN32 AND library MATCHES "^ggml")  # ggml's own CMake files drop it there
    set(prefix "")
  endif()
  set(name "${prefix}${library}${CMAKE_STATIC_LIBRARY_SUFFIX}")
  list(APPEND LLAMA_ARCHIVES "${LLAMA_BUILD}/lib/${name}")
endforeach()

# Configured and built with this build's generator; all archives are in BUILD/lib.
function(add_llama_cpp_build build targets archives)  # options
  add_custom_command(
    OUTPUT ${archives}
    COMMAND "${CMAKE_COMMAND}" -P "${PROJECT_SOURCE_DIR}/cmake/BuildOnce.cmake"
      "${LLAMA_SOURCE}" "${build}" "${targets}" "${archives}"
      -G "${CMAKE_GENERATOR}" "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}"
      "-DCMAKE_ARCHIVE_OUTPUT_DIRECTORY=${build}/lib" ${ARGN}
    COMMENT "Building llama.cpp (once; a few minutes)"
    USES_TERMINAL VERBATIM
  )
endfunction()
add_llama_cpp_build("${LLAMA_BUILD}" "llama;ggml;ggml-cpu;ggml-rpc" "${LLAMA_ARCHIVES}" ${LLAMA_OPTIONS})
if(SPECDEC_SANITIZE_GGML)
  string(MAKE_C_IDENTIFIER "${SPECDEC_SANITIZE_GGML}" suffix)
  set(ggml_build "${LLAMA_BUILD}-${suffix}")
  set(ggml_archives ${LLAMA_ARCHIVES})
  list(FILTER ggml_archives INCLUDE REGEX "ggml")
  list(FILTER LLAMA_ARCHIVES EXCLUDE REGEX "ggml")
  list(TRANSFORM ggml_archives REPLACE "^.*/" "${ggml_build}/lib/")
  add_llama_cpp_build("${ggml_build}" "ggml;ggml-cpu;ggml-rpc" "${ggml_archives}" ${LLAMA_OPTIONS}
    "-DCMAKE_C_FLAGS_RELEASE=${sanitized}${SPECDEC_SANITIZE_GGML}"
    "-DCMAKE_CXX_FLAGS_RELEASE=${sanitized}${SPECDEC_SANITIZE_GGML}")
  list(APPEND LLAMA_ARCHIVES ${ggml_archives})
endif()
add_custom_target(llama_cpp DEPENDS ${LLAMA_ARCHIVES})

find_package(Threads REQUIRED)
add_library(llama_cpp_public INTERFACE)
add_dependencies(llama_cpp_public llama_cpp)
target_include_directories(llama_cpp_public SYSTEM INTERFACE "${LLAMA_SOURCE}/include" "${LLAMA_SOURCE}/ggml/include")
target_link_libraries(llama_cpp_public INTERFACE ${LLAMA_ARCHIVES} Threads::Threads ${CMAKE_DL_LIBS})
if(UNIX AND NOT APPLE)
  target_link_libraries(llama_cpp_public INTERFACE m)
endif()
add_library(llama::llama ALIAS llama_cpp_public)

add_library(llama_cpp_cpu_internals INTERFACE)
target_include_directories(llama_cpp_cpu_internals SYSTEM INTERFACE "${LLAMA_SOURCE}/src" "${LLAMA_SOURCE}/ggml/src"
  "${LLAMA_SOURCE}/ggml/src/ggml-cpu")
target_link_libraries(llama_cpp_cpu_internals INTERFACE llama_cpp_public)
add_library(llama::cpu_internals ALIAS llama_cpp_cpu_internals)

# nlohmann/json, vendored by llama.cpp: for the options of requests and for the command line.
add_library(nlohmann_json INTERFACE)
target_include_directories(nlohmann_json SYSTEM INTERFACE "${LLAMA_SOURCE}/vendor")
# SHA-256, vendored by llama.cpp: to check downloads.
add_library(llama_cpp_sha256 STATIC "${LLAMA_SOURCE}/vendor/hash/sha256/sha256.c")
target_include_directories(llama_cpp_sha256 SYSTEM PUBLIC "${LLAMA_SOURCE}/vendor/hash")
specdec_third_party(llama_cpp_sha256)
# A part of LLAMA_SOURCE's files that is compiled with our own code, patched (copies.py).
function(specdec_patched_copy part folder)
  file(GLOB part_patches CONFIGURE_DEPENDS "${fetch_dir}/patches/${part}/*.patch")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${fetch_dir}/copies.py" ${part_patches})
  execute_process(COMMAND "${Python_EXECUTABLE}" "${fetch_dir}/copies.py" "${LLAMA_SOURCE}" "${folder}" "${part}"
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# cpp-httplib, vendored by llama.cpp: the HTTP of `specdec serve`. Without OpenSSL: TLS is a reverse proxy's.
set(httplib_source "${PROJECT_BINARY_DIR}/httplib")
specdec_patched_copy(httplib "${httplib_source}")
add_library(llama_cpp_httplib STATIC "${httplib_source}/vendor/cpp-httplib/httplib.cpp")
target_include_directories(llama_cpp_httplib SYSTEM PUBLIC "${httplib_source}/vendor/cpp-httplib")
target_compile_definitions(llama_cpp_httplib PUBLIC CPPHTTPLIB_LISTEN_BACKLOG=512 CPPHTTPLIB_TCP_NODELAY=true)
specdec_third_party(llama_cpp_httplib)
specdec_not_hot(llama_cpp_httplib)
target_link_libraries(llama_cpp_httplib PUBLIC Threads::Threads)

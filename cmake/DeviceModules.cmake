# Modules of ggml's device backends (third_party/llama.cpp/device_module), each built once into the cache folder and put
# next to the program and the Python extension. Nothing is linked with them: they are found when they run.
option(SPECDEC_VULKAN
  "Build the module for GPUs with Vulkan (needs glslc, libvulkan and Vulkan's headers, all of 2025)" OFF)
option(SPECDEC_CUDA "Build the module for NVIDIA GPUs with CUDA (needs nvcc; untested)" OFF)
set(SPECDEC_CUDA_ARCHITECTURES "" CACHE STRING
  "Compute capability to compile that module for, 90 for an H100; default: ggml's list, which takes long")
if(APPLE)
  set(metal_default ON)
else()
  set(metal_default OFF)
endif()
option(SPECDEC_METAL "Build the module for Apple's GPUs (untested)" ${metal_default})
set(SPECDEC_VULKAN_SDK "" CACHE PATH "Folder of newer ones than the system has (release/vulkan_sdk.sh)")
set(SPECDEC_VULKAN_LIBRARY "" CACHE FILEPATH
  "Library of Vulkan's loader to link with; default: the system's (release/wheels.py makes one for Windows)")

# What a module and a program must have in common: the sources, by content (fetch.py).
get_filename_component(LLAMA_SOURCES "${LLAMA_SOURCE}" NAME)

set(device_module "${PROJECT_SOURCE_DIR}/third_party/llama.cpp/device_module")
set(device_modules "")
# Built with the options of llama.cpp itself; further arguments: its own.
function(specdec_device_module backend)
  set(options ${LLAMA_OPTIONS})
  list(FILTER options EXCLUDE REGEX "^-D(GGML_|LLAMA_BUILD|CMAKE_PROJECT_)")
  list(APPEND options -DLLAMA_SOURCE=${LLAMA_SOURCE} -DBACKEND=${backend} -DSOURCES=${LLAMA_SOURCES} ${ARGN})
  if(SPECDEC_PORTABLE)
    list(APPEND options -DSTATIC_RUNTIME=ON -DGGML_NATIVE=OFF)
  endif()
  string(MD5 hash "${options};${CMAKE_GENERATOR};${CMAKE_CXX_COMPILER_VERSION}")
  string(SUBSTRING "${hash}" 0 8 hash)
  set(build "${SPECDEC_CACHE_DIR}/build-${backend}-${LLAMA_SOURCES}-${hash}")
  set(name "specdec-${backend}${CMAKE_SHARED_MODULE_SUFFIX}")
  set(built "${build}/lib/${name}")
  file(GLOB own_files "${device_module}/*")
  add_custom_command(
    OUTPUT "${built}"
    DEPENDS ${own_files}
    COMMAND "${CMAKE_COMMAND}" -P "${PROJECT_SOURCE_DIR}/cmake/BuildOnce.cmake"
      "${device_module}" "${build}" "specdec-${backend}" "${built}"
      -G "${CMAKE_GENERATOR}" "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}" ${options}
    COMMENT "Building the module for ${backend} (once; several minutes)"
    USES_TERMINAL VERBATIM
  )
  set(copies "${PROJECT_BINARY_DIR}/${name}")
  if(SPECDEC_INPLACE)
    list(APPEND copies "${PROJECT_SOURCE_DIR}/python/specdec_native/${name}")
  endif()
  foreach(copy IN LISTS copies)
    add_custom_command(OUTPUT "${copy}" DEPENDS "${built}"
      COMMAND "${CMAKE_COMMAND}" -E copy "${built}" "${copy}" VERBATIM)
  endforeach()
  add_custom_target(specdec-${backend} ALL DEPENDS ${copies})
  if(SKBUILD)  # where both the program and the extension look
    install(PROGRAMS "${built}" DESTINATION "${SKBUILD_DATA_DIR}/lib/specdec" COMPONENT python)
  endif()
endfunction()

if(SPECDEC_VULKAN)
  set(sdk "")
  set(vulkan_library "${SPECDEC_VULKAN_LIBRARY}")
  if(SPECDEC_VULKAN_SDK)
    list(APPEND sdk "-DVulkan_INCLUDE_DIR=${SPECDEC_VULKAN_SDK}/include"
      "-DSPIRV-Headers_DIR=${SPECDEC_VULKAN_SDK}/share/cmake/SPIRV-Headers"
      "-DVulkan_GLSLC_EXECUTABLE=${SPECDEC_VULKAN_SDK}/bin/glslc")
    if(NOT vulkan_library)
      set(vulkan_library "${SPECDEC_VULKAN_SDK}/lib/libvulkan.so.1")
    endif()
  endif()
  if(vulkan_library)
    list(APPEND sdk "-DVulkan_LIBRARY=${vulkan_library}")
  endif()
  specdec_device_module(vulkan ${sdk})
endif()
if(SPECDEC_CUDA)
  set(architectures "")
  if(SPECDEC_CUDA_ARCHITECTURES)
    set(architectures "-DCMAKE_CUDA_ARCHITECTURES=${SPECDEC_CUDA_ARCHITECTURES}")
  endif()
  specdec_device_module(cuda ${architectures})
endif()
if(SPECDEC_METAL)
  specdec_device_module(metal)
endif()

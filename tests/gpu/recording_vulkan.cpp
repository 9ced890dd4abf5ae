// A Vulkan layer that writes down which shaders run, so that their choice can be tested with drivers for GPUs that are
// not there: for each dispatch a line with the shader's name, its constants and the numbers of groups.
//
//   RECORD_FILE=FILE         (asked for at each dispatch; none: nothing is written)
//   GGML_VK_DEBUG_MARKERS=1  (llama.cpp then names its shaders)
#include <cstdlib>
#include <fstream>
#include <string>

#include "vulkan_layer.h"

namespace {

struct Shader {
  std::string name;
  std::string constants;  // "64,1,8"
};

std::mutex mutex;
std::map<VkPipeline, Shader> shaders;
std::map<VkCommandBuffer, VkPipeline> bound;
std::string file_name;
std::ofstream file;

std::string constants_of(const VkSpecializationInfo* info) {
  std::string constants;
  for (std::uint32_t i = 0; info != nullptr && i < info->mapEntryCount; ++i) {
    std::uint32_t value = 0;
    std::memcpy(&value, static_cast<const char*>(info->pData) + info->pMapEntries[i].offset, sizeof value);
    constants += (i == 0 ? "" : ",") + std::to_string(value);
  }
  return constants;
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, std::uint32_t count,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* memory, VkPipeline* made) {
  const auto create = layer::next<PFN_vkCreateComputePipelines>(device, "vkCreateComputePipelines");
  const VkResult result = create(device, cache, count, infos, memory, made);
  const std::lock_guard<std::mutex> lock(mutex);
  for (std::uint32_t i = 0; result == VK_SUCCESS && i < count; ++i)
    shaders[made[i]] = {"", constants_of(infos[i].stage.pSpecializationInfo)};
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL set_name(VkDevice, const VkDebugUtilsObjectNameInfoEXT* info) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (info->objectType == VK_OBJECT_TYPE_PIPELINE)
    shaders.at(reinterpret_cast<VkPipeline>(info->objectHandle)).name = info->pObjectName;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL bind(VkCommandBuffer buffer, VkPipelineBindPoint point, VkPipeline pipeline) {
  layer::next<PFN_vkCmdBindPipeline>(buffer, "vkCmdBindPipeline")(buffer, point, pipeline);
  const std::lock_guard<std::mutex> lock(mutex);
  bound[buffer] = pipeline;
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer buffer, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  layer::next<PFN_vkCmdDispatch>(buffer, "vkCmdDispatch")(buffer, x, y, z);
  const std::lock_guard<std::mutex> lock(mutex);
  const char* const wanted = std::getenv("RECORD_FILE");
  if (wanted == nullptr) return;
  if (file_name != wanted) {
    file_name = wanted;
    file = std::ofstream(file_name, std::ios::app);
  }
  const Shader& shader = shaders.at(bound.at(buffer));
  file << shader.name << ' ' << shader.constants << ' ' << x << ',' << y << ',' << z << std::endl;
}

}  // namespace

PFN_vkVoidFunction intercepted(const char* name) {
  if (const auto ours = layer::if_named(name, "vkCreateComputePipelines", &create_pipelines)) return ours;
  if (const auto ours = layer::if_named(name, "vkSetDebugUtilsObjectNameEXT", &set_name)) return ours;
  if (const auto ours = layer::if_named(name, "vkCmdBindPipeline", &bind)) return ours;
  return layer::if_named(name, "vkCmdDispatch", &dispatch);
}

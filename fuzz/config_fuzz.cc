// Any text may be called config.json: a description that is accepted can be computed with.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/families.h"
#include "model/rope.h"
#include "model/weights.h"
#include "wire/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem::model;
  const auto json = tandem::wire::ParseJson({reinterpret_cast<const char*>(data), size});
  if (!json || !json->IsObject()) return 0;
  const HfConfig file(*json, "fuzz");
  const auto family = FindHfFamily(file);
  if (!family) return 0;
  auto config = ReadCommonHf(file);
  if (!config || !(*family)->read_hf(file, *config) || !CheckConfig(*config, "fuzz")) return 0;
  const Widths widths(*config);
  const size_t head = widths.rope > 0 ? widths.rope : widths.head;
  for (const RopeConfig& rope : {config->rope, config->local_rope})
    static_cast<void>(Rope(rope, static_cast<int>(head), config->context_length));
  return 0;
}

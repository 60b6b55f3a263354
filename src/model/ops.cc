#include "model/ops.h"

namespace tandem::model {
namespace {

#if defined(__x86_64__)
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

}  // namespace

OpsList AvailableOps() {
  OpsList list{};
  list.levels[list.count++] = &PlainOps();
#if defined(__x86_64__)
  if (HasAvx2()) list.levels[list.count++] = &Avx2Ops();
  if (HasAvx512()) list.levels[list.count++] = &Avx512Ops();
#endif
  return list;
}

Result<const Ops*> ChooseOps(std::string_view name) {
  const OpsList list = AvailableOps();
  if (name.empty()) return list.levels[list.count - 1];
  std::string names;
  for (int i = 0; i < list.count; ++i) {
    if (list.levels[i]->name == name) return list.levels[i];
    names += (i == 0 ? "" : ", ") + std::string(list.levels[i]->name);
  }
  return Err(Code::kUnsupported, "instruction set '{}' is not available here; choose one of: {}",
             name, names);
}

}  // namespace tandem::model

// From what a user writes as MODEL to a path: a folder or file, or a name on the Hugging Face hub,
// looked up in its cache, else downloaded into it.
#ifndef TANDEM_HUB_RESOLVE_H_
#define TANDEM_HUB_RESOLVE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/hub_client.h"
#include "hub/settings.h"

namespace tandem::hub {

struct ResolveOptions {
  std::string model;     // a path, or a name as in model_id.h
  std::string revision;  // --revision: branch, tag or commit; "" for the one in the name, or main
  Environment environment = ProcessEnvironment();
  // What is downloaded, and how far: bytes of all files together. Several threads, one at a time.
  std::function<void(std::string_view what, uint64_t done, uint64_t total)> on_progress{};
  Retry retry{};
  uint64_t chunk_bytes = uint64_t{16} << 20;
};

struct ResolvedModel {
  std::string path;       // a folder or a .gguf file
  std::string name;       // what the user wrote
  bool from_hub = false;  // rather than a path
};

// Blocks its thread, as long as a download takes. A revision of which the cache holds all files
// that the model needs is taken from there without asking the hub. Errors say which folder to fill,
// and how, where the hub cannot be reached or may not be asked (HF_HUB_OFFLINE).
Result<ResolvedModel> Resolve(const ResolveOptions& options);

}  // namespace tandem::hub

#endif  // TANDEM_HUB_RESOLVE_H_

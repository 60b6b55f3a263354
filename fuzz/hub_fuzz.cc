// What a hub sends and a user writes: names, paths, addresses, redirects, index files.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "hub/model_id.h"
#include "hub/repo_cache.h"
#include "hub/select.h"
#include "net/url.h"

namespace {

// Joined to a folder, such a name must stay inside of it.
void CheckInside(std::string_view path) {
  const auto joined = (std::filesystem::path("/cache") / path).lexically_normal().string();
  CHECK(joined.starts_with("/cache/") && joined.size() > 7);
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (hub::IsRepoPath(text)) CheckInside(text);
  if (hub::IsRevision(text)) CheckInside(text);
  if (hub::IsBlobName(text)) CheckInside(text);
  const size_t cut = text.find('\n');
  const auto id = hub::ParseModelId(text.substr(0, cut));
  if (id) {
    CheckInside(id->repo);
    if (!id->file.empty()) CheckInside(id->file);
    if (!id->revision.empty()) CheckInside(id->revision);
  }
  if (const auto url = net::ParseUrl(text)) {
    const auto again = net::ParseUrl(url->ToString());
    CHECK(again && again->SameOrigin(*url) && again->target == url->target);
  }
  const net::Url base = *net::ParseUrl("https://hub.example/a");
  if (const auto url = net::ResolveUrl(base, text))
    CHECK(url->target.find('\n') == std::string::npos);
  if (const auto shards = hub::ShardsOfIndex(text))
    for (const std::string& shard : *shards) CheckInside(shard);
  const std::vector<std::string> files =
      Lines(cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1));
  (void)hub::SelectFiles(files, id.value_or(hub::ModelId{"a/b", "", ""}));
  return 0;
}

// Fetches one file of a repository into the cache.
#ifndef TANDEM_HUB_DOWNLOAD_H_
#define TANDEM_HUB_DOWNLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "hub/hub_client.h"
#include "hub/repo_cache.h"

namespace tandem::hub {

struct DownloadOptions {
  int connections = 4;  // at once, for one file
  uint64_t chunk_bytes = uint64_t{16}
                         << 20;  // of one request; connections x this are kept in memory
  // Bytes that arrived or were there already; from several threads.
  std::function<void(uint64_t bytes)> on_bytes{};
};

// Makes sure that `path` of the snapshot is there. Its bytes are fetched in parallel ranges and
// written in order, so that BLOB.incomplete always holds the file's beginning: whoever comes next,
// huggingface_hub too, goes on behind it. A range that breaks off goes on where it stopped;
// attempts without progress are bounded. kCorrupt if size or SHA-256 are not what the hub said: the
// bytes are thrown away then. kResourceExhausted if the disk is too full.
Status DownloadFile(const HubClient& client, const RepoCache& cache, const std::string& repo,
                    const std::string& commit, const std::string& path,
                    const DownloadOptions& options);

}  // namespace tandem::hub

#endif  // TANDEM_HUB_DOWNLOAD_H_

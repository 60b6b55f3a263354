// What the hub's HTTP interface is asked: what a repository holds, what a file is, and its bytes.
// Blocks its thread. The server is not trusted: names, sizes and redirects are checked.
#ifndef TANDEM_HUB_HUB_CLIENT_H_
#define TANDEM_HUB_HUB_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "hub/settings.h"
#include "net/web_client.h"

namespace tandem::hub {

struct RemoteFile {
  std::string path;   // checked by IsRepoPath; others are left out
  uint64_t size = 0;  // 0 where the server does not say
};

struct RepoInfo {
  std::string commit;
  std::vector<RemoteFile> files;
};

struct FileMeta {
  std::string etag;     // the blob's name; of large files the SHA-256 of their bytes
  uint64_t size = 0;    // bytes
  net::Url location;    // where its bytes are now; may be signed and lose its worth after a while
  bool sha256 = false;  // whether the etag is that digest
};

struct Retry {
  int attempts = 6;                                       // in a row without a new byte
  Duration first_pause = std::chrono::milliseconds(500);  // doubled each time
};
// Sleeps before attempt `failed` + 1.
void Pause(const Retry& retry, int failed);

class HubClient {
 public:
  HubClient(const Settings& settings, Retry retry) : settings_(settings), retry_(retry) {}

  // Errors say what to do: a repo that is absent, private or gated (kNotFound), a revision that is
  // absent, a hub that cannot be reached (kUnavailable).
  Result<RepoInfo> Info(const std::string& repo, const std::string& revision) const;
  Result<FileMeta> Describe(const std::string& repo, const std::string& commit,
                            const std::string& path) const;
  // One attempt. Follows redirects; the token goes to the hub itself only, never along to another
  // host. A status that is no success is an error: kUnavailable where another attempt may help.
  Result<net::HttpResponse> Get(net::WebRequest request) const;

  const Retry& retry() const { return retry_; }

 private:
  Result<net::HttpResponse> Send(net::WebRequest request, bool leave_host) const;
  template <class F>
  auto Repeatedly(F attempt) const -> decltype(attempt());
  net::Url At(std::string_view path) const;

  Settings settings_;
  Retry retry_;
};

// Whether another attempt may help.
bool MayPass(const Error& error);

}  // namespace tandem::hub

#endif  // TANDEM_HUB_HUB_CLIENT_H_

#ifndef TANDEM_APPS_PRIVATE_FOLDER_H_
#define TANDEM_APPS_PRIVATE_FOLDER_H_

#include <memory>
#include <string>

#include "base/result.h"

namespace tandem::apps {

// A folder of one supervisor, removed with it. Those of supervisors that were killed are removed by
// the next one: their lock is free.
class PrivateFolder {
 public:
  static Result<std::unique_ptr<PrivateFolder>> Make();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  PrivateFolder(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}
  std::string path_;
  int lock_fd_;
};

}  // namespace tandem::apps

#endif  // TANDEM_APPS_PRIVATE_FOLDER_H_

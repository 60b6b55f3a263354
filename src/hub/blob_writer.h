// The file that a download grows: appended to in order, hashed on the way.
#ifndef TANDEM_HUB_BLOB_WRITER_H_
#define TANDEM_HUB_BLOB_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "hub/hub_client.h"

namespace tandem::hub {

class BlobWriter {
 public:
  // Opens BLOB.incomplete, reads what it holds into the digest, and goes on behind it. One that is
  // longer than the file is begun anew.
  static Result<std::unique_ptr<BlobWriter>> Open(const std::string& blob, const FileMeta& meta);
  ~BlobWriter();
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;

  uint64_t written() const { return written_; }
  Status Append(std::string_view bytes);
  Status StartOver();
  // Checks size and digest, then gives the file its name. On a mismatch it is removed.
  Status Finish();

 private:
  BlobWriter(std::string blob, const FileMeta& meta, int fd);
  Status ReadBeginning();
  std::unexpected<Error> Failed(std::string_view what) const;

  const std::string blob_;
  const std::string partial_;
  const FileMeta meta_;
  const int fd_;
  uint64_t written_ = 0;
  std::unique_ptr<Sha256Stream> digest_;
};

}  // namespace tandem::hub

#endif  // TANDEM_HUB_BLOB_WRITER_H_

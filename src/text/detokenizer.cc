#include "text/detokenizer.h"

namespace tandem::text {

std::string Detokenizer::Push(int32_t id) {
  std::string out;
  if (skip_special_tokens_ && tokenizer_->IsSpecial(id)) return out;
  decoder_.Push(tokenizer_->TokenBytes(id), out);
  return out;
}

std::string Detokenizer::Flush() {
  std::string out;
  decoder_.Flush(out);
  return out;
}

}  // namespace tandem::text

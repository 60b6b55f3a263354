#include "text/detokenizer.h"

namespace tandem::text {

std::string Detokenizer::Push(int32_t id) {
  std::string out;
  if (!tokenizer_->IsValid(id)) return out;
  if (skip_special_tokens_ && tokenizer_->IsSpecial(id)) return out;
  state_.Push(static_cast<size_t>(id), out);
  return out;
}

std::string Detokenizer::Flush() {
  std::string out;
  state_.Flush(out);
  return out;
}

}  // namespace tandem::text

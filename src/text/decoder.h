// Tokens back to text: the decoders of a tokenizer, one after the other, fed token by token.
#ifndef TANDEM_TEXT_DECODER_H_
#define TANDEM_TEXT_DECODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

namespace tandem::text {

// Immutable: any number of threads may use one at once.
class Decoder {
 public:
  // Texts of tokens other than the vocabulary's, by id.
  using Texts = std::unordered_map<size_t, std::string>;
  // `spec` outlives the decoder.
  static Result<Decoder> Create(const TokenizerSpec& spec, Texts texts = {});
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;
  ~Decoder();

  // The bytes of one token by itself, possibly part of a character.
  std::string_view BytesOf(size_t id) const {
    return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
  }

 private:
  friend class DecodeState;
  struct Step;
  Decoder();

  std::string_view TextOf(size_t id) const;
  Status AddSteps(const TokenizerSpec& spec);
  void FillBytes(const TokenizerSpec& spec, size_t folded);

  // Steps that only look at one token are folded into `bytes_`, these follow.
  std::vector<Step> steps_;
  const std::vector<std::string>* tokens_ = nullptr;
  Texts texts_;
  bool reads_bytes_ = false;  // the first step reads bytes_, not tokens
  std::string bytes_;
  std::vector<uint32_t> offsets_;  // of each token in bytes_, and the end
  std::vector<bool> is_byte_;      // the token is one byte for kByteFallback
};

// The decoding of one sequence. One thread at a time; the decoder outlives it.
class DecodeState {
 public:
  enum class Mode : uint8_t {
    // As the libraries decode a whole sequence: a run of byte tokens is judged when it ends, and
    // where it is no text each of its bytes is U+FFFD; kCleanSpaces applies.
    kWhole,
    // As servers stream: each character comes out as it completes, so that only what follows the
    // last whole character of a broken run is U+FFFD; kCleanSpaces does not apply.
    kStream,
  };
  DecodeState(const Decoder& decoder, Mode mode);

  // Appends the text that the token completes. `id` is inside the vocabulary.
  void Push(size_t id, std::string& out);
  void Flush(std::string& out);  // once, at the end

 private:
  // What a step remembers.
  struct Memory {
    bool started = false;  // it has passed something on
    uint32_t left = 0;     // kStrip of a fused text: how many may still go
    bool has_held = false;
    std::string held;
    Utf8Decoder utf8;
  };
  struct Token {
    std::string_view text;
    bool is_byte = false;
  };

  void Run(size_t step, Token token, std::string& out);
  void Pass(size_t step, std::string_view text, std::string& out);
  void Finish(size_t step, std::string& out);
  void ByteFallback(size_t step, Token token, std::string& out);
  void EndBytes(size_t step, std::string& out);
  void StripLeft(size_t step, std::string_view text, std::string& out);

  const Decoder* decoder_;
  Mode mode_;
  std::vector<Memory> memories_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_DECODER_H_

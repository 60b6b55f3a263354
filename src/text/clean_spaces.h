// What two libraries do to spaces before English punctuation when they decode.
#ifndef TANDEM_TEXT_CLEAN_SPACES_H_
#define TANDEM_TEXT_CLEAN_SPACES_H_

#include <string>
#include <string_view>

namespace tandem::text {

// Hugging Face's WordPiece and CTC decoders, for each token with the space before it.
std::string CleanWordPiece(std::string_view text);
// llama.cpp, over the whole text: no space before ? ! . , nor around a lone apostrophe, nor before
// 's 'm 're 've.
std::string CleanSpaces(std::string_view text);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_CLEAN_SPACES_H_

// Unicode normalisation forms of valid UTF-8.
#ifndef TANDEM_TEXT_NORMAL_FORM_H_
#define TANDEM_TEXT_NORMAL_FORM_H_

#include <string>
#include <string_view>

namespace tandem::text {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Appends the form to `out`, or returns false and appends nothing if the text is in it already (it
// may also return true then). What is newer than the Unicode of Hugging Face
// tokenizers stays as it is.
bool Normalise(NormalForm form, std::string_view text, std::string& out);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_NORMAL_FORM_H_

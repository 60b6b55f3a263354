// Where Hugging Face tokenizers, some of whose steps know an older Unicode, differs from Unicode
// 16. Measured, not derived.
#ifndef TANDEM_TEXT_PEER_UNICODE_H_
#define TANDEM_TEXT_PEER_UNICODE_H_

namespace tandem::text {

bool BertMarkDiffers(char32_t c);          // from category Mn, in BertNormalizer's strip_accents
bool StripMarkDiffers(char32_t c);         // from category M, in StripAccents
bool BertControlDiffers(char32_t c);       // from Cc, Cf, Co, in clean_text
bool PunctuationDiffers(char32_t c);       // from category P and ASCII symbols
bool HasNewCompatibilityForm(char32_t c);  // NFKC and NFKD leave it as it is
bool HasNewCombiningClass(char32_t c);     // never moves past other marks

}  // namespace tandem::text

#endif  // TANDEM_TEXT_PEER_UNICODE_H_

#!/usr/bin/env python3
"""Writes tests/goldens/text/small_tokenizers.json.gz: small tokenizer.json files that use every step that Tandem
reads, with the ids and decoded texts that Hugging Face tokenizers gives. Needs the package tokenizers 0.23.3."""
import gzip
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "goldens", "text")
OUT = os.path.join(FOLDER, "small_tokenizers.json.gz")
GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def texts():
    golden = json.load(gzip.open(os.path.join(FOLDER, "tokenizer", "smollm2.json.gz")))
    found = [c["text"] for c in golden["cases"] if len(c["text"]) <= 160][::3][:36]
    return found + ["Hello <sep> world<sep>!", "a <left>  b  <right>c<word>d <word> e", "  two  spaces  ", "Ünïcödé ÀÉ ǅ İstanbul ﬁ ½ ①",
                    "e\u0301 \u1100\u1161\u11a8 \ufdfa", "don't, it's \"quoted\" (really)...", "1234567 12.5", "\t\u0000\u00ad\u200bx\ufffd\u3000y", "中文字符 mixed 한국어 にほんご", "<unk> <s> </s>"]


def corpus():
    golden = json.load(gzip.open(os.path.join(FOLDER, "tokenizer", "smollm2.json.gz")))
    return [c["text"] for c in golden["cases"] if len(c["text"]) < 400 and sum(ord(x) < 128 for x in c["text"]) > 0.8 * len(c["text"])]


def trained(kind, normalizer=None, pre_tokenizer=None, size=260, **options):
    model = {"bpe": models.BPE, "unigram": models.Unigram, "wordpiece": models.WordPiece, "wordlevel": models.WordLevel}[kind]
    tokenizer = Tokenizer(model(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    special = ["<unk>", "<s>", "</s>"]
    if kind == "bpe":
        shape = {k: v for k, v in options.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False, limit_alphabet=90, **shape)
    elif kind == "unigram":
        trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False)
    elif kind == "wordpiece":
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False, limit_alphabet=90)
    else:
        trainer = trainers.WordLevelTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def with_bytes(tokenizer):
    """Byte tokens after the vocabulary, as SentencePiece models have them."""
    data = json.loads(tokenizer.to_str())
    vocab = data["model"]["vocab"]
    for b in range(256):
        token = f"<0x{b:02X}>"
        if isinstance(vocab, dict):
            vocab.setdefault(token, len(vocab))
        else:
            vocab.append([token, 0.0])
    data["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(data))


def finish(tokenizer, decoder=None, post=None, added=(), normalizer=None, pre_tokenizer=None):
    if decoder:
        tokenizer.decoder = decoder
    if post:
        tokenizer.post_processor = post
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    for token in added:
        tokenizer.add_special_tokens([token]) if token.special else tokenizer.add_tokens([token])
    return tokenizer


def added():
    return [AddedToken("<sep>", special=True), AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
            AddedToken("<word>", single_word=True, normalized=False), AddedToken("Hello", normalized=True)]


def template(*ids):
    return processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", ids[0]), ("</s>", ids[1])])


def spm_decoder():
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def byte_level_kinds():
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(GPT4), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    yield "byte-level gpt4", finish(trained("bpe", None, split), decoders.ByteLevel(), template(1, 2), added())
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=True)
    yield "byte-level prefix space", finish(trained("bpe", normalizers.NFKC(), gpt2), decoders.ByteLevel(), processors.RobertaProcessing(("</s>", 2), ("<s>", 1)), added())
    falcon = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    yield "byte-level before other steps", finish(trained("bpe", None, falcon), decoders.ByteLevel())
    normalised = trained("bpe", normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()]), pre_tokenizers.Split(Regex("Ġ?[^Ġ]+|Ġ+"), "isolated"))
    yield "byte-level normaliser", finish(normalised, decoders.ByteLevel(), processors.Sequence([processors.ByteLevel(trim_offsets=False), template(1, 2)]))
    yield "byte-level unknown", finish(trained("bpe", None, gpt2, unk_token="<unk>", fuse_unk=True), decoders.ByteLevel())
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    yield "byte-level digits ignore merges", finish(trained("bpe", None, digits, ignore_merges=True), decoders.ByteLevel(), None, added())


def text_kinds():
    llama = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    yield "llama", finish(with_bytes(trained("bpe", llama, None, unk_token="<unk>", fuse_unk=True)), spm_decoder(), template(1, 2), added())
    gemma = finish(with_bytes(trained("bpe", normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), unk_token="<unk>", fuse_unk=True)),
                   decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]), template(1, 2), added())
    yield "gemma", gemma
    for scheme, split in (("always", True), ("first", True), ("never", False), ("first", False)):
        yield f"metaspace bpe {scheme} {split}", finish(trained("bpe", None, pre_tokenizers.Metaspace("▁", scheme, split), unk_token="<unk>", fuse_unk=False),
                                                        decoders.Metaspace("▁", scheme, split), template(1, 2), added())
    clip = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    yield "clip", finish(trained("bpe", clip, pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True)]),
                                 unk_token="<unk>", end_of_word_suffix="</w>"), decoders.BPEDecoder("</w>"), None, added())
    yield "continuing prefix", finish(trained("bpe", None, pre_tokenizers.Whitespace(), unk_token="<unk>", continuing_subword_prefix="@@"), None, template(1, 2))
    unigram = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    yield "unigram", finish(trained("unigram", unigram, pre_tokenizers.Metaspace()), decoders.Metaspace(), template(1, 2), added())
    yield "unigram bytes", finish(with_bytes(trained("unigram", normalizers.NFKD(), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))), spm_decoder())
    yield "wordpiece", finish(trained("wordpiece", normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), unk_token="<unk>"),
                              decoders.WordPiece(), processors.BertProcessing(("</s>", 2), ("<s>", 1)), added())
    yield "wordpiece cased", finish(trained("wordpiece", normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False),
                                            pre_tokenizers.BertPreTokenizer(), unk_token="<unk>", max_input_chars_per_word=8), decoders.WordPiece(cleanup=False))
    yield "wordlevel", finish(trained("wordlevel", normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip(True, True)]), pre_tokenizers.Whitespace(), unk_token="<unk>"), None, None, added())
    yield "wordlevel no decoder", finish(trained("wordlevel", normalizers.Strip(True, False), pre_tokenizers.CharDelimiterSplit("e"), unk_token="<unk>"))
    yield "fixed length", finish(trained("bpe", None, pre_tokenizers.FixedLength(4), unk_token="<unk>"), decoders.Sequence([decoders.Replace(Regex("[aeiou]"), "_"), decoders.Fuse(), decoders.Strip("_", 1, 0)]))
    yield "ctc", finish(trained("bpe", None, pre_tokenizers.WhitespaceSplit(), unk_token="<unk>"), decoders.CTC("t", "o", True))


def behaviours():
    base = trained("bpe", None, pre_tokenizers.WhitespaceSplit(), unk_token="<unk>", size=160)
    for behaviour in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield f"split {behaviour} {invert}", finish(Tokenizer.from_str(base.to_str()), decoders.Fuse(), None, (), None, pre_tokenizers.Split(Regex(r"\s|[aeiou]"), behaviour, invert))
        yield f"punctuation {behaviour}", finish(Tokenizer.from_str(base.to_str()), decoders.Fuse(), None, (), None, pre_tokenizers.Punctuation(behaviour))


def main():
    out = []
    for name, tokenizer in [*byte_level_kinds(), *text_kinds(), *behaviours()]:
        tokenizer = Tokenizer.from_str(tokenizer.to_str())
        cases = []
        for text in texts():
            ids = tokenizer.encode(text).ids
            cases.append({"text": text, "ids": ids, "ids_plain": tokenizer.encode(text, add_special_tokens=False).ids,
                          "decoded": tokenizer.decode(ids, skip_special_tokens=False), "decoded_skip": tokenizer.decode(ids)})
        out.append({"name": name, "tokenizer": tokenizer.to_str(), "cases": cases})
    with gzip.GzipFile(OUT, "wb", mtime=0) as file:
        file.write(json.dumps(out, separators=(",", ":"), ensure_ascii=True).encode())
    print(f"wrote {os.path.normpath(OUT)}: {len(out)} tokenizers, {os.path.getsize(OUT)} bytes")


if __name__ == "__main__":
    main()

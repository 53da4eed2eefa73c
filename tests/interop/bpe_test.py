"""Tokens of a byte-pair encoding equal those of Hugging Face's tokenizers, for random Unicode texts."""

import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

SKIPPED = 77
TEXTS = 300
WORDS = ["the", "The", "it's", "we'll", "I'M", "don't", "x2", "3.14", "größe", "漢字", "naïve", "hello", "lower", "lowest",
         "  ", "   ", "\n", "\n\n", "\t ", "\r\n", "\u00a0", "\u3000", "!?", "...", "--", "'s", "'", "<|endoftext|>"]


def assigned():
    return [chr(code) for code in range(1, sys.maxunicode + 1)
            if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs")]


def a_text(characters, draw):
    pieces = []
    for _ in range(draw.randrange(1, 60)):
        kind = draw.random()
        if kind < 0.6:
            pieces.append(draw.choice(WORDS))
        elif kind < 0.8:
            pieces.append(chr(draw.randrange(1, 128)))
        else:
            pieces.append(draw.choice(characters))
        if draw.random() < 0.5:
            pieces.append(" ")
    return "".join(pieces)


def tokens_of(dpctl, directory, text):
    (directory / "text").write_bytes(text.encode())
    (directory / "text.bin").unlink(missing_ok=True)
    subprocess.run([dpctl, "data", "convert", directory / "text", directory / "text.bin", "--bpe-vocab",
                    directory / "vocab.json", "--bpe-merges", directory / "merges.txt"], check=True)
    data = (directory / "text.bin").read_bytes()
    return [data[at] | data[at + 1] << 8 for at in range(0, len(data), 2)]


def main():
    try:
        import tokenizers
    except ImportError:
        print("no package tokenizers")
        return SKIPPED
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)
    characters = assigned()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        reference = tokenizers.ByteLevelBPETokenizer()
        reference.train_from_iterator([a_text(characters, draw) for _ in range(2000)], vocab_size=2000,
                                      show_progress=False)
        reference.save_model(str(directory))
        wrong = 0
        for _ in range(TEXTS):
            text = a_text(characters, draw)
            expected, found = reference.encode(text).ids, tokens_of(sys.argv[1], directory, text)
            if expected != found:
                wrong += 1
                print(repr(text), "gives", found, "expected", expected)
        print(f"{TEXTS} texts against tokenizers {tokenizers.__version__}, {wrong} differ")
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

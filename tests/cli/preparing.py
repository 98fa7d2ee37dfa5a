"""Text, options and errors for the tests of `rela prepare`."""

ENGLISH = ["a dog runs .", "two dogs run .", "a house !"]
GERMAN = ["ein Hund läuft .", "zwei Hunde laufen .", "ein Haus !"]
FILES = ("--pairs", "train=train.en,train.de", "--source", "en", "--target", "de", "--merges", "20")
LANGUAGES = ("--source", "en", "--target", "de", "--merges", "20")

WRONG_USE: list[tuple[tuple[str, ...], str]] = [
    ((), "expected either --corpus NAME or --pairs SPLIT=FILE[,FILE]"),
    (("--corpus", "grammar", *FILES), "expected either --corpus NAME or --pairs"),
    (("--corpus", "grammar", "--source", "en"), "--source: expected without --corpus, got both"),
    (("--corpus", "grammar", "--columns", "1,2"), "--columns: expected without --corpus, got both"),
    (("--corpus", "grammar", "--format", "tsv"), "--format: expected without --corpus, got both"),
    (("--pairs", "train=a,b"), "--pairs: expected --source and --target, the two languages, as well"),
    ((*FILES, "--splits", "dev"), "--splits: expected without --pairs, got both"),
    ((*FILES, "--tokenizer-of", "x"), "--merges: expected without --tokenizer-of, which learns nothing, got both"),
    (("--pairs", "a,b", *LANGUAGES), "--pairs: expected SPLIT=FILE or SPLIT=FILE,FILE, got 'a,b'"),
    (("--pairs", "train=a,b,c", *LANGUAGES), "--pairs: expected SPLIT=FILE or SPLIT=FILE,FILE, got 'train=a,b,c'"),
    (("--pairs", "train=a,", *LANGUAGES), "--pairs: expected SPLIT=FILE or SPLIT=FILE,FILE, got 'train=a,'"),
    (("--pairs", "train=a.txt", *LANGUAGES), "--pairs: expected two files, or one .tsv or .jsonl file"),
    (("--pairs", "../x=a.tsv", "--pairs", "train=b.tsv", *LANGUAGES), "expected a split's name of letters"),
    (("--pairs", "dev=a.tsv", *LANGUAGES), "--pairs: expected the split 'train' to learn subwords from, got dev"),
    (
        ("--pairs", "train=a,b", "--format", "tsv", *LANGUAGES),
        "--pairs: expected one file for the format tsv, got 'a,b'",
    ),
    (
        ("--pairs", "train=train.de,train.en", *LANGUAGES),
        "--pairs: expected the en file first, got 'train.de,train.en'",
    ),
    (("--pairs", "train=a.de.gz,a.en.gz", *LANGUAGES), "exchange the two files, or --source and --target"),
    (("--pairs", "train=train.en,./train.en", *LANGUAGES), "--pairs: expected two files, got 'train.en' for both"),
    (("--pairs", "train=train.en,link.de", *LANGUAGES), "for both sides; name the de file second"),
    (("--pairs", "train=a.tsv", "--columns", "2,2", *LANGUAGES), "--columns: expected two different columns"),
    (("--pairs", "train=a.jsonl", "--keys", "x,x", *LANGUAGES), "--keys: expected two different keys, got 'x,x'"),
    (("--pairs", "train=-,-", *LANGUAGES), "--pairs: expected standard input (-) for one side at most"),
    (("--pairs", "train=-", "--pairs", "dev=-", *LANGUAGES), "--pairs: expected standard input (-) once at most"),
    (("--pairs", "train=a.tsv", "--columns", "0,1", *LANGUAGES), "--columns: expected two numbers from 1 on"),
    (("--pairs", "train=a.tsv", "--columns", "²,1", *LANGUAGES), "--columns: expected two numbers from 1 on"),
    (("--pairs", "train=a.tsv", "--columns", "1,2,3", *LANGUAGES), "--columns: expected two numbers from 1 on"),
    (
        ("--pairs", "train=a.jsonl", "--keys", "a,b,c", *LANGUAGES),
        "--keys: expected two keys such as en,de, got 'a,b,c'",
    ),
    ((*FILES, "--columns", "1,2"), "--columns: expected with a .tsv file, got '1,2' and none"),
    ((*FILES, "--keys", "a,b"), "--keys: expected with a .jsonl file, got 'a,b' and none"),
    ((*FILES[:-2], "--merges", "-1"), "got '-1'"),
    ((*FILES, "--max-chars", "0"), "got '0'"),
    ((*FILES, "--max-train-pairs", "x"), "got 'x'"),
    ((*FILES, "--format", "xml"), "got 'xml'"),
    ((*FILES, "--json", "none/result.json"), "the folder of 'none/result.json' does not exist; make it first"),
]
"""Options, and what is said about them."""

FAILURES: list[tuple[str, tuple[str, ...], str]] = [
    ("store", ("--pairs", "train=none.en,train.de", *LANGUAGES), "none.en: expected a text file, there is none"),
    ("store", ("--pairs", "train=cache,train.de", *LANGUAGES), "cache: expected a text file, got a folder"),
    (
        "store",
        ("--pairs", "train=empty.en,empty.de", *LANGUAGES),
        "train: expected at least one pair, got none; 0 lines",
    ),
    ("train.en/store", FILES, "Not a directory"),
    (".", (*FILES, "--overwrite"), "expected a store to overwrite, got something else"),
    ("store", (*FILES[:-2], "--tokenizer-of", "cache"), "expected tokenizer.json, or tokenizer.source.json and"),
    ("store", ("--pairs", "train=cut.tsv.gz", *LANGUAGES), "cut.tsv.gz: expected a whole .gz file, got a damaged"),
    ("train.en", FILES, "train.en: there is something already"),
]
"""A folder, options, and what is said about them."""

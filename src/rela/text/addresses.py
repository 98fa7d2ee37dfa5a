"""Where the files of the corpora lie in the web, with size and checksum where these are known."""

from __future__ import annotations

from typing import Final

from rela.text.download import Remote

_STATMT: Final = "https://www.statmt.org"
_DATA: Final = "https://data.statmt.org"

# Sizes and SHA-256 are those of the url_checksums of tensorflow/datasets, MD5 of test sets those of sacrebleu.
EUROPARL_7: Final = Remote(
    url=f"{_STATMT}/wmt13/training-parallel-europarl-v7.tgz",
    size=657_632_379,
    checksum="sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
COMMON_CRAWL: Final = Remote(
    url=f"{_STATMT}/wmt13/training-parallel-commoncrawl.tgz",
    size=918_311_367,
    checksum="sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
NEWS_COMMENTARY_9: Final = Remote(
    url=f"{_STATMT}/wmt14/training-parallel-nc-v9.tgz",
    size=80_418_416,
    checksum="sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
UN_2000: Final = Remote(url=f"{_STATMT}/wmt13/training-parallel-un.tgz")
GIGA: Final = Remote(url=f"{_STATMT}/wmt10/training-giga-fren.tar")
EUROPARL_8_RO: Final = Remote(
    url=f"{_DATA}/wmt16/translation-task/training-parallel-ep-v8.tgz",
    size=225_018_324,
    checksum="sha256:8917bd3bef3bc894c8519ca1f8a4c7c330aad08a1263655a9d99ee13d532e3c7",
)
SETIMES: Final = Remote(url="https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses/en-ro.txt.zip")
EUROPARL_8_FI: Final = Remote(
    url=f"{_DATA}/wmt18/translation-task/training-parallel-ep-v8.tgz",
    size=246_201_434,
    checksum="sha256:953eaf7f24dcfc87eff6845d13ec6ca8acbee0ccf7edf4063b8b94e943933a96",
)
PARACRAWL_FI: Final = Remote(
    url="https://s3.amazonaws.com/web-language-models/paracrawl/release1/"
    "paracrawl-release1.en-fi.zipporah0-dedup-clean.tgz",
    size=36_138_086,
    checksum="sha256:ce3b46e928d37ae02ab8ce7e0ae0e1f89d1aed5e60271056913e35ff742e65ff",
)
RAPID: Final = Remote(
    url=f"{_DATA}/wmt18/translation-task/rapid2016.tgz",
    size=161_050_516,
    checksum="sha256:41557dd5d8f0ed3a6d98bce3b798b1a9d3b68361eb99d902329ddbb943a6b55a",
)
WIKI_TITLES: Final = Remote(
    url=f"{_STATMT}/wmt15/wiki-titles.tgz",
    size=9_487_481,
    checksum="sha256:cd7cf81dbc99ef00b57e3106a4731b54cebcb7cff19088913cdab1c8114d3660",
)
NEWS_COMMENTARY_13: Final = Remote(
    url=f"{_DATA}/wmt18/translation-task/training-parallel-nc-v13.tgz",
    size=113_157_482,
    checksum="sha256:17992b7e919cfb754c60f4e754148bc23b80706ad0ed7b34150831a554b40c91",
)
UN_1: Final = Remote(
    url="https://storage.googleapis.com/tfds-data/downloads/uncorpus/UNv1.0.en-zh.tar.gz",
    size=1_386_685_703,
    checksum="sha256:6f9c6401d5f0a49b20661324570d99fb86822d82f974748a361e19b9b886dd49",
)
TEST_13: Final = Remote(url="https://statmt.org/wmt13/test.tgz", checksum="md5:48eca5d02f637af44e85186847141f67")
TEST_14: Final = Remote(url="https://statmt.org/wmt14/test-full.tgz", checksum="md5:a8cd784e006feb32ac6f3d9ec7eb389a")
DEV_16: Final = Remote(url=f"{_DATA}/wmt16/translation-task/dev.tgz", checksum="md5:4a3dc2760bb077f4308cce96b06e6af6")
TEST_16: Final = Remote(url=f"{_DATA}/wmt16/translation-task/test.tgz", checksum="md5:3d809cd0c2c86adb2c67034d15c4e446")
TEST_17: Final = Remote(url=f"{_DATA}/wmt17/translation-task/test.tgz", checksum="md5:86a1724c276004aa25455ae2a04cef26")
TEST_18: Final = Remote(url=f"{_DATA}/wmt18/translation-task/test.tgz", checksum="md5:f996c245ecffea23d0006fa4c34e9064")
EUROPARL_DE_EN: Final = Remote(url=f"{_STATMT}/europarl/v7/de-en.tgz")

_MULTI30K: Final = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_MULTI30K_MD5: Final = {  # those of torchtext
    "test_2016_flickr.cs.gz": "3104872229daa1bef3b401d44dd2220b",
    "test_2016_flickr.de.gz": "efd67d314d98489b716b145475101932",
    "test_2016_flickr.en.gz": "ff2c0fcb4893a13bd73414306bc250ae",
    "test_2016_flickr.fr.gz": "08dc7cd4a662f31718412de95ca9bfe3",
    "test_2017_flickr.de.gz": "6a8d5c87f6ae19e3d35681aa6fd16571",
    "test_2017_flickr.en.gz": "005396bac545d880abe6f00bbb7dbbb4",
    "test_2017_flickr.fr.gz": "cb09af7d2b501f9112f2d6a59fa1360d",
    "test_2017_mscoco.de.gz": "e8cd6ec2bc8a11fc846fa48a46e3d0bb",
    "test_2017_mscoco.en.gz": "a7b684e0edbef1d4a23660c8e8e743fd",
    "test_2017_mscoco.fr.gz": "4995d10954a804d3cdfd907b9fd093e8",
    "train.cs.gz": "d9a5fc268917725a2b0efce3a0cc8607",
    "train.de.gz": "81ff90b99829c0cd4b1b587d394afd39",
    "train.en.gz": "0065d13af80720a55ca8153d126e6627",
    "train.fr.gz": "6cb767741dcad3931f966fefbc05203f",
    "val.cs.gz": "83cdc082f646b769095615384cf5c0ca",
    "val.de.gz": "6e0e229eb049e3fc99a1ef02fb2d5f91",
    "val.en.gz": "2b69aa9253948ac9f67e94917272dd40",
    "val.fr.gz": "93fc564584b7e5ba410c761ea5a1c682",
}


def multi30k(name: str) -> Remote:
    """A file of Multi30k, task 1, raw."""
    return Remote(url=f"{_MULTI30K}/{name}", checksum=f"md5:{_MULTI30K_MD5[name]}")

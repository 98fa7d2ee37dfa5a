"""Pairs to measure with have a name."""

from pathlib import Path

from rela.bench.texts import data_name


def test_files_of_a_store_are_called_by_it_too(tmp_path: Path) -> None:
    plain, store = tmp_path / "corpus" / "test.en", tmp_path / "grammar-store" / "test.source.txt"
    for path in (plain, store):
        path.parent.mkdir()
        path.touch()
    (store.parent / "store.json").touch()
    assert (data_name(plain), data_name(store)) == ("test", "grammar-store/test.source")

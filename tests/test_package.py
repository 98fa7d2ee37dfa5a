"""The package as a whole: names on first use, one version, one license, pinned dependencies."""

import ast
import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

import rela
from rela._lazy import attach

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_no_third_party():
    loaded = run_python(
        "import sys; before = set(sys.modules); import rela; rela.__version__; dir(rela)\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names))"
    )
    assert loaded == "['rela']"


@pytest.mark.parametrize(
    "package",
    ["rela", "rela.attention", "rela.model", "rela.alignment", "rela.decoding", "rela.evaluation", "rela.analysis"],
)
def test_type_checkers_see_the_names_that_exist(package: str):
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    imports = next(
        node.body for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {alias.name for node in imports if isinstance(node, ast.ImportFrom) for alias in node.names}
    lazy = run_python(f"import {package} as package; print(*set(dir(package)) - set(vars(package)))").split()
    assert seen == set(lazy)
    for name in seen:
        assert getattr(module, name) is not None


def test_evaluation_needs_no_torch():
    loaded = run_python(
        "import sys; from rela.evaluation import Recipe, compare, evaluate\n"
        "texts = ['a b'], ['a c']\n"
        "evaluate(texts[0], [texts[1]], Recipe(language='de'), num_bootstrap=40)\n"
        "compare(texts[0], {'b': texts[1]}, [texts[1]], num_bootstrap=40, num_shuffles=1)\n"
        "print('torch' in sys.modules)"
    )
    assert loaded == "False"


def test_public_names_are_those_of_their_rooms():
    assert rela.MultiheadAttention is rela.attention.MultiheadAttention
    assert rela.Translator is importlib.import_module("rela.decoding.translator").Translator
    assert rela.functional.__name__ == "rela.functional"
    assert rela.functional.__all__ == rela.attention.functional.__all__
    assert all(getattr(rela.functional, n) is getattr(rela.attention.functional, n) for n in rela.functional.__all__)


def test_star_import_gives_exactly_the_public_names():
    names = run_python(
        "before = set(globals()); from rela import *; print(*sorted(set(globals()) - before - {'before'}))"
    )
    assert names.split() == sorted(rela.__all__)


def test_missing_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'rela' has no attribute 'MultiHeadAttention'"):
        rela.MultiHeadAttention  # noqa: B018 # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(rela, "nonsense")
    with pytest.raises(ImportError, match="cannot import name 'nonsense' from 'rela'"):
        exec("from rela import nonsense")


class TestAttach:
    @pytest.fixture
    def package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
        folder = tmp_path / "lazy_example"
        folder.mkdir()
        (folder / "_thing.py").write_text("class Thing: pass\n")
        (folder / "tools.py").write_text("hammer = 1\n")
        (folder / "_broken.py").write_text("import a_module_that_is_not_there\n")
        (folder / "__init__.py").write_text(
            "from rela._lazy import attach\n"
            "__getattr__, __dir__ = attach(__name__, {\n"
            "    'Thing': 'lazy_example._thing',\n"
            "    'Broken': 'lazy_example._broken',\n"
            "}, submodules=('tools',))\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        yield importlib.import_module("lazy_example")
        for name in [name for name in sys.modules if name.partition(".")[0] == "lazy_example"]:
            del sys.modules[name]

    def test_imports_on_first_use_only(self, package: types.ModuleType):
        assert "lazy_example._thing" not in sys.modules
        assert "Thing" in dir(package)
        assert package.Thing is sys.modules["lazy_example._thing"].Thing
        assert "Thing" in vars(package)
        assert package.tools.hammer == 1

    def test_an_import_that_fails_says_what_is_missing(self, package: types.ModuleType):
        with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
            package.Broken  # noqa: B018

    def test_refuses_an_attribute_that_its_module_would_hide(self):
        with pytest.raises(ValueError, match="rename the submodule to '_convert'"):
            attach("rela.attention", {"convert": "rela.attention.convert"})

    def test_refuses_a_name_twice(self):
        with pytest.raises(ValueError, match=r"exports \['maps'\] both"):
            attach("rela.attention", {"maps": "rela.attention._maps"}, submodules=("maps",))


def test_the_wheel_has_the_c_sources():
    """They are compiled at first use. The wheel takes all of the package, if nothing is excluded or ignored by git."""
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/rela"]
    assert not wheel.keys() & {"include", "exclude", "only-include"}
    assert not PYPROJECT["tool"]["hatch"]["build"].keys() & {"include", "exclude", "only-include"}
    sources = sorted(path for path in (ROOT / "src" / "rela").rglob("*") if path.suffix in (".c", ".cpp"))
    assert {path.name for path in sources} == {"engine.cpp", "links.c", "meter.c", "native.cpp"}
    patterns = [line for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split() if not line.startswith("#")]
    inside = [part for path in sources for part in path.relative_to(ROOT).parts]
    assert not [(part, pattern) for part in inside for pattern in patterns if fnmatch(part, pattern.strip("/"))]


def test_installed_version_is_the_one_in_the_source():
    assert importlib.metadata.version("rela-attention") == rela.__version__


def test_every_direct_dependency_is_pinned():
    project = PYPROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(requirement for extra in project["optional-dependencies"].values() for requirement in extra),
        *PYPROJECT["build-system"]["requires"],
    ]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(line.partition("==")[0]) for line in pins if "==" in line}
    assert {normal(requirement) for requirement in wanted} - pinned == {normal(project["name"])}  # dev has the extras


def normal(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name, f"not a requirement: {requirement!r}"
    return re.sub(r"[-_.]+", "-", name[0]).lower()

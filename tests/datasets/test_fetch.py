"""Files are found in the right place, checked, and stored whole or not at all."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import pytest

from metricmix.datasets.fetch import DataFile, obtain_files
from metricmix.exceptions import DatasetError, DatasetNotFoundError, InputError, MetricMixError

CONTENT = {"a.bin": b"alpha", "b.bin": b"beta", "whole.npz": b"both"}
URLS = ("https://one.example/", "https://two.example/")


def known(name: str, folder: str = "sub", urls=URLS) -> DataFile:
    sha256 = hashlib.sha256(CONTENT[name]).hexdigest()
    return DataFile(name, folder, sha256, tuple(url + name for url in urls))


PARTS = [known("a.bin"), known("b.bin")]
FORMS = [[known("whole.npz", "", ())], PARTS]
A = [PARTS[:1]]


def put(folder: Path, *names: str, content: bytes | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(CONTENT[name] if content is None else content)
    return folder


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def fetched(forms, home=None, download=False):
    return obtain_files(forms, home, download_if_missing=download)


class TestPlaces:
    @pytest.mark.parametrize("sub", ["", "sub"])
    def test_in_the_folder_or_below(self, tmp_path, sub):
        put(tmp_path / "home" / sub, "a.bin")
        assert fetched(A, tmp_path / "home") == {"a.bin": b"alpha"}
        assert fetched(A, str(tmp_path / "home")) == {"a.bin": b"alpha"}

    def test_order(self, tmp_path, monkeypatch, cache):
        """A wrong file raises, so the place that raises is the one that was asked first."""
        places = [tmp_path / "home", tmp_path / "variable", cache]
        monkeypatch.setenv("METRICMIX_DATA", str(places[1]))
        for place in reversed(places):
            put(place, "a.bin", content=str(place).encode())
            with pytest.raises(DatasetError, match=str(place)):
                fetched(A, places[0])

    def test_each_place_serves(self, tmp_path, monkeypatch, cache):
        monkeypatch.setenv("METRICMIX_DATA", str(tmp_path / "variable"))
        put(cache, "a.bin")
        assert fetched(A, tmp_path / "home") == {"a.bin": b"alpha"}
        (cache / "a.bin").unlink()
        put(tmp_path / "variable", "a.bin")
        assert fetched(A, tmp_path / "home") == {"a.bin": b"alpha"}

    def test_empty_variable_is_none(self, tmp_path, monkeypatch, cache):
        monkeypatch.setenv("METRICMIX_DATA", "")
        monkeypatch.chdir(put(tmp_path / "here", "a.bin"))
        with pytest.raises(DatasetNotFoundError, match=f"not found in {cache};"):
            fetched(A)

    def test_home_sign(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        put(tmp_path / "mine", "a.bin")
        assert fetched(A, "~/mine") == {"a.bin": b"alpha"}

    def test_cache_without_pooch(self, monkeypatch, cache, tmp_path):
        monkeypatch.setitem(sys.modules, "pooch", None)
        put(cache, "a.bin")
        assert fetched(A) == {"a.bin": b"alpha"}
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        put(tmp_path / ".cache" / "metricmix", "a.bin")
        assert fetched(A) == {"a.bin": b"alpha"}

    def test_first_whole_form_wins(self, tmp_path):
        home = put(tmp_path, "a.bin", "b.bin")
        assert set(fetched(FORMS, home)) == {"a.bin", "b.bin"}
        put(home, "whole.npz")
        assert set(fetched(FORMS, home)) == {"whole.npz"}

    def test_own_parts_before_the_whole_elsewhere(self, tmp_path, cache):
        put(cache, "whole.npz")
        home = put(tmp_path / "home", "a.bin", "b.bin")
        assert set(fetched(FORMS, home)) == {"a.bin", "b.bin"}
        (home / "b.bin").unlink()
        assert set(fetched(FORMS, home)) == {"whole.npz"}

    def test_parts_from_several_places(self, tmp_path, cache, server):
        put(cache, "b.bin")
        found = fetched(FORMS, put(tmp_path / "home", "a.bin"), download=True)
        assert set(found) == {"a.bin", "b.bin"}
        assert server["asked"] == []

    @pytest.mark.parametrize("home", [3, "", ["folder"]])
    def test_no_folder(self, home):
        with pytest.raises(InputError, match="data_home: expected a folder or None"):
            fetched(A, home)


class TestMissing:
    def test_says_what_and_where(self, tmp_path, monkeypatch, cache):
        monkeypatch.setenv("METRICMIX_DATA", str(tmp_path / "variable"))
        put(tmp_path / "home", "b.bin")
        with pytest.raises(DatasetNotFoundError) as caught:
            fetched(FORMS, tmp_path / "home")
        home, variable = tmp_path / "home", tmp_path / "variable"
        assert str(caught.value) == (
            f"whole.npz or a.bin: not found in {home}, {variable}, {cache}; put it into {home}, or "
            "set METRICMIX_DATA to a folder that has it, or allow the download with "
            "download_if_missing=True"
        )

    def test_kinds_of_error(self):
        for kind in (FileNotFoundError, OSError, DatasetError, MetricMixError):
            with pytest.raises(kind):
                fetched(A)

    def test_without_pooch(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pooch", None)
        with pytest.raises(DatasetNotFoundError, match=r"needs pooch; install metricmix\[data\]"):
            fetched(A, download=True)

    def test_nothing_is_made_by_looking(self, tmp_path):
        with pytest.raises(DatasetNotFoundError):
            fetched(A, tmp_path / "home")
        assert list(tmp_path.iterdir()) == []


class TestWrong:
    def test_damaged(self, tmp_path, server, cache):
        put(cache, "a.bin")  # a right one elsewhere does not excuse it
        home = put(tmp_path / "home", "a.bin", content=b"alphb")
        wrong = hashlib.sha256(b"alphb").hexdigest()[:12]
        right = hashlib.sha256(b"alpha").hexdigest()[:12]
        expected = f"a.bin: expected sha256 {right}…, found {wrong}….*; remove it"
        with pytest.raises(DatasetError, match=expected):
            fetched(A, home, download=True)
        assert (home / "a.bin").read_bytes() == b"alphb"
        assert server["asked"] == []

    def test_unreadable(self, tmp_path, monkeypatch):
        home = put(tmp_path, "a.bin")

        def refuse(self):
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(DatasetError, match=r"a\.bin: expected a readable file, got Permission"):
            fetched(A, home)


class TestDownload:
    def test_to_data_home(self, tmp_path, server, cache):
        server[URLS[0] + "a.bin"] = b"alpha"
        assert fetched(A, tmp_path / "new" / "home", download=True) == {"a.bin": b"alpha"}
        assert files_in(tmp_path) == {"new/home/sub/a.bin"}
        assert fetched(A, tmp_path / "new" / "home", download=True) == {"a.bin": b"alpha"}
        assert len(server["asked"]) == 1

    def test_to_the_variable_else_the_cache(self, tmp_path, server, monkeypatch, cache):
        server[URLS[0] + "a.bin"] = b"alpha"
        fetched(A, download=True)
        assert files_in(cache) == {"sub/a.bin"}
        (cache / "sub" / "a.bin").unlink()
        monkeypatch.setenv("METRICMIX_DATA", str(tmp_path / "variable"))
        fetched(A, download=True)
        assert files_in(tmp_path) == {"variable/sub/a.bin"}

    def test_only_what_is_missing(self, tmp_path, server):
        """What an interrupted download got is kept."""
        server[URLS[0] + "a.bin"] = b"alpha"
        with pytest.raises(DatasetNotFoundError, match=r"^b\.bin: could not be downloaded"):
            fetched(FORMS, tmp_path, download=True)
        assert files_in(tmp_path) == {"sub/a.bin"}
        server["asked"].clear()
        server[URLS[0] + "b.bin"] = b"beta"
        assert set(fetched(FORMS, tmp_path, download=True)) == {"a.bin", "b.bin"}
        assert server["asked"] == [URLS[0] + "b.bin"]

    def test_second_server(self, tmp_path, server):
        server[URLS[0] + "a.bin"] = b"<html>"
        server[URLS[1] + "a.bin"] = b"alpha"
        assert fetched(A, tmp_path, download=True) == {"a.bin": b"alpha"}
        assert files_in(tmp_path) == {"sub/a.bin"}

    def test_offline(self, tmp_path, server, cache):
        with pytest.raises(DatasetNotFoundError) as caught:
            fetched(A, tmp_path / "home", download=True)
        said = str(caught.value)
        assert said.startswith("a.bin: could not be downloaded (https://one.example/a.bin failed")
        assert f"it is not in {tmp_path / 'home'}, {cache} either" in said
        assert f"put it into {tmp_path / 'home'}, or set METRICMIX_DATA" in said
        assert len(said) < 1000
        assert files_in(tmp_path) == set()

    def test_other_content(self, tmp_path, server):
        for url in URLS:
            server[url + "a.bin"] = b"<html>"
        with pytest.raises(DatasetNotFoundError, match="gave a file with another sha256 than"):
            fetched(A, tmp_path, download=True)
        assert files_in(tmp_path) == set()

    @pytest.mark.parametrize("error", [TimeoutError("slow"), OSError(28, "No space left")])
    def test_broken_off(self, tmp_path, server, error):
        for url in URLS:
            server[url + "a.bin"] = (b"alp", error)
        with pytest.raises(DatasetNotFoundError, match=r"slow|No space left"):
            fetched(A, tmp_path, download=True)
        assert files_in(tmp_path) == set()

    def test_interrupted(self, tmp_path, server):
        server[URLS[0] + "a.bin"] = (b"alp", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            fetched(A, tmp_path, download=True)
        assert files_in(tmp_path) == set()

    def test_folder_is_a_file(self, tmp_path, server):
        (tmp_path / "home").write_text("")
        with pytest.raises(DatasetError, match=r"expected a folder to write .*; pass data_home="):
            fetched(A, tmp_path / "home", download=True)
        assert server["asked"] == []

    def test_folder_without_permission(self, tmp_path, server, monkeypatch):
        def refuse(**_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
        with pytest.raises(DatasetError, match=r"got PermissionError \(Permission denied\); pass"):
            fetched(A, tmp_path, download=True)
        assert server["asked"] == []

    def test_file_without_a_sum(self, tmp_path, server):
        server["https://one.example/c"] = b"anything"
        forms = [[DataFile("c", urls=("https://one.example/c",))]]
        assert fetched(forms, tmp_path, download=True) == {"c": b"anything"}

"""What to fit, to which files: by options, or as TOML (``--write-config`` and ``--config``).

====================  ============================================================================
``table``, ``label``  the table of items, and its column of labels
``id``                the column of ids
``[kinds]``           a line per column: what it is
``[sources]``         a line per source, as ``--source`` takes it; these are all sources of the fit
``[settings]``        everything else, named as on the command line
====================  ============================================================================

Files are relative to the folder of the TOML file.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from metricmix.app.ingest.given_files import with_files
from metricmix.app.ingest.source_text import (
    parse_edges,
    parse_matrix,
    parse_source,
    with_distinct_names,
)
from metricmix.app.ingest.table_files import items_from_table, read_table
from metricmix.atomic import replacing
from metricmix.dissimilarity.plan import JoinedData, Plan
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.exceptions import InputError
from metricmix.fitting.plan import FitRequest, plan_items
from metricmix.items.cells import did_you_mean

if TYPE_CHECKING:
    from metricmix.dissimilarity.value_storage import ValueStorage

__all__ = [
    "FitSettings",
    "config_text",
    "plan_files",
    "plan_record",
    "read_config",
    "resolved",
    "settings_of_options",
    "write_config",
]

Options = TypeVar("Options", bound=FitRequest)

FILES_AND_COLUMNS = ("table", "label", "id", "sources", "defaults", "kinds", "only")
ON_THE_COMMAND_LINE = {"n_splits": "folds", "n_bootstrap": "bootstrap", "keep_metric": "metric"}
"""What settings are called there, if not as in :class:`FitSettings`."""
TOP = ("table", "label", "id", "kinds", "sources", "settings")
BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class FitSettings(FitRequest):
    """What to fit, to which files, and what to write.

    Attributes
    ----------
    table, label, id : str
        The table of items, its column of labels, and that of ids (default: the first).
    keep_metric : bool
        Whether to write all distances.
    safe_csv : bool
        Whether texts in CSV files that spreadsheets take for formulas get an apostrophe.
    missing : tuple of str
        Texts that stand for missing values, besides the usual ones.

    The others are those of :class:`~metricmix.fitting.plan.FitRequest`.
    """

    table: str
    label: str
    id: str | None = None
    keep_metric: bool = field(default=False, kw_only=True)
    safe_csv: bool = field(default=False, kw_only=True)
    missing: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return (self.table, *(spec.file for spec in self.sources if spec.file))


def settings_of_options(table: str | os.PathLike[str], stated: Mapping[str, Any]) -> FitSettings:
    """Return the settings that the options of ``metricmix fit`` state, by name of the option."""
    kinds = {}
    for text in stated["kind"]:
        column, _, kind = text.rpartition("=")
        if not (column and kind):
            raise InputError(
                argument="--kind",
                expected="COLUMN=KIND, such as zip=category",
                found=f"{text!r}",
            )
        kinds[column] = kind
    parsers = {"edges": parse_edges, "matrix": parse_matrix, "source": parse_source}
    sources = [parse(text) for name, parse in parsers.items() for text in stated[name]]
    named = {field.name for field in fields(FitSettings)} & stated.keys() - {"table"}
    return FitSettings(
        str(table),
        sources=with_distinct_names(sources),
        defaults=not stated["source"],
        kinds=kinds,
        **{name: stated[name] for name in named},
    )


def plan_files(settings: FitSettings) -> Plan:
    """Read all files and join them, without computing anything.

    Raises
    ------
    TableFileError
        If a file cannot be read or does not fit the table, or there are too few labels.
    InputError
        If a setting names no column.
    """
    cells = read_table(settings.table)
    items = items_from_table(
        cells,
        id=settings.id,
        label=settings.label,
        need_labels=False,
        missing=settings.missing,
    )
    return plan_items(with_files(items, settings.sources), settings)


def resolved(settings: Options, plan: Plan | JoinedData) -> Options:
    """Return the settings with all that was chosen filled in: ids, columns, target, sources."""
    kinds = {column.name: column.kind for column in plan.report.columns}
    for pattern, kind in settings.kinds.items():  # how cells are written is part of what was stated
        for name in kinds:
            if (name == pattern or fnmatchcase(name, pattern)) and kinds[name] != "ignore":
                kinds[name] = kind
    for column in (settings.groups, settings.order):  # no columns of the report
        if column in settings.kinds:
            kinds[str(column)] = settings.kinds[str(column)]
    if isinstance(settings, FitSettings):
        settings = replace(settings, id=plan.items.id_option)
    return replace(
        settings,
        sources=tuple(source.spec for source in plan.sources),
        defaults=False,
        only=(),
        kinds=kinds,
        target="classes" if plan.report.target is None else "number",
    )


def plan_record(plan: Plan, storage: ValueStorage) -> dict[str, Any]:
    """Return what would be joined, and how values would be stored, for JSON."""
    return {
        "table": str(plan.items.source),
        "id_column": plan.items.id_column,
        **asdict(plan.report),
        "storage": storage.to_record(),
    }


# -- as a TOML file --------------------------------------------------------------------------------


def setting_names() -> dict[str, str]:
    """Return the names in the file of all settings beside files and columns."""
    names = [field.name for field in fields(FitSettings) if field.name not in FILES_AND_COLUMNS]
    return {ON_THE_COMMAND_LINE.get(name, name): name for name in names}


def moved(file: str, *, of: Path | str = "", to: Path | str = "") -> str:
    """Return the path of a file `of` a folder, as seen from another one; absolute ones stay."""
    return file if os.path.isabs(file) else os.path.relpath(Path(of) / file, to or ".")


# -- writing -------------------------------------------------------------------------------------


def write_config(path: str | os.PathLike[str], plan: Plan, settings: FitSettings) -> None:
    """Write the settings of a fit, all defaults filled in, whole or not at all."""
    try:
        content = config_text(plan, settings, Path(path).parent).encode()
    except UnicodeEncodeError:
        raise InputError(
            "a name is not valid Unicode and cannot be written as TOML", argument=path
        ) from None
    with replacing(path) as file:
        file.write(content)


def config_text(plan: Plan, settings: FitSettings, folder: Path) -> str:
    """Return the settings of a fit as TOML, with the reasons of what was chosen in comments."""
    whole, report = resolved(settings, plan), plan.report
    lines = [
        f"# {report.n_items:,} items, {report.n_labelled:,} with a label. Edit, and run: metricmix "
        "fit --config FILE",
        f"table = {quote(moved(whole.table, to=folder))}",
        f"label = {quote(whole.label)}",
        f"id = {quote(str(whole.id))}",
        "",
        "[kinds]  # number, plain, date, count, category, text or ignore",
    ]
    lines += commented(
        [(f"{key(c.name)} = {quote(whole.kinds[c.name])}", c.why) for c in report.columns]
    )
    apart = whole.kinds.keys() - {column.name for column in report.columns}
    lines += [f"{key(name)} = {quote(whole.kinds[name])}" for name in sorted(apart)]
    lines += ["", "[sources]  # remove lines, or add some as --source takes them: KIND:WHAT"]
    lines += commented(
        [
            (f"{key(source.spec.name)} = {source_value(source.spec, folder)}", told.why)
            for source, told in zip(plan.sources, report.sources, strict=True)
        ]
    )
    lines += [
        f"# no default here: {one_line(name)} ({why})" for name, why in report.left_out.items()
    ]
    lines += ["", "[settings]  # as on the command line"]
    for name, setting in setting_names().items():
        value = getattr(whole, setting)
        if value is None:
            lines.append(f"# {name} =")
        else:
            shown = quote(value) if isinstance(value, str) else json.dumps(value)
            lines.append(f"{name} = {shown}")
    return "\n".join(lines) + "\n"


def commented(lines: list[tuple[str, str]]) -> list[str]:
    """Return lines with comments behind them, these below each other where lines are short."""
    width = max((len(line) for line, _ in lines if len(line) <= 60), default=0)
    return [f"{line:<{width}}  # {one_line(why)}" for line, why in lines]


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters, for a comment."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def quote(text: str) -> str:
    """Return a basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    """Return a key, in quotes if it has to be."""
    return name if BARE.fullmatch(name) else quote(name)


def source_value(spec: SourceSpec, folder: Path) -> str:
    """Return a source as ``--source`` takes it; as a table where names would be misread."""
    if spec.file is not None:
        spec = replace(spec, file=moved(spec.file, to=folder))
    text = str(replace(spec, name="x")).removeprefix("x=")
    try:
        same = replace(parse_source(f"x={text}"), name=spec.name) == spec
    except InputError:
        same = False
    if same:
        return quote(text)
    usual = asdict(SourceSpec("", spec.kind))
    stated = {name: value for name, value in asdict(spec).items() if value != usual[name]}
    stated = {"kind": spec.kind, **{k: v for k, v in stated.items() if k != "name"}}
    parts = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in stated.items()]
    return f"{{ {', '.join(parts)} }}".replace("\x7f", "\\u007f")


# -- reading -------------------------------------------------------------------------------------


def read_config(
    path: str | os.PathLike[str], stated: Mapping[str, Any] | None = None
) -> FitSettings:
    """Return the settings of a file; those `stated`, by name of :class:`FitSettings`, win.

    Raises
    ------
    InputError
        If it is no TOML, or has keys or values that are not known; the message names them.
    """
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError("expected UTF-8 text", argument=file) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"expected TOML, but: {error}", argument=file) from None
    check_keys(file, content, TOP)
    found: dict[str, Any] = {}
    for name in ("table", "label", "id"):
        if name in content:
            found[name] = text_of(file, name, content[name])
        elif name != "id":
            raise InputError(argument=file, expected=f'a line {name} = "...", found none')
    found["table"] = moved(found["table"], of=file.parent)
    kinds = section(file, content, "kinds")
    found["kinds"] = {name: text_of(file, f"kinds.{name}", kind) for name, kind in kinds.items()}
    if "sources" in content:
        listed = section(file, content, "sources")
        found["sources"] = tuple(source_of(file, name, value) for name, value in listed.items())
        found["defaults"] = False
    names, types = setting_names(), get_type_hints(FitSettings)
    given = section(file, content, "settings")
    check_keys(file, given, tuple(names), "settings.")
    for name, value in given.items():
        if types[names[name]] == tuple[str, ...]:
            texts = value if isinstance(value, list) else [value]
            found[names[name]] = tuple(text_of(file, f"settings.{name}", one) for one in texts)
            continue
        kinds_of = getattr(types[names[name]], "__args__", (types[names[name]],))
        value = float(value) if type(value) is int and int not in kinds_of else value
        if type(value) not in kinds_of:
            expected = " or ".join(NAMED[kind] for kind in kinds_of if kind in NAMED)
            raise InputError(
                argument=f"{file}, settings.{name}", expected=expected, found=f"{value!r}"
            )
        found[names[name]] = value
    return FitSettings(**{**found, **(stated or {})})


NAMED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def section(file: Path, content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a section, empty if there is none."""
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise InputError(argument=file, expected=f"a section [{name}]", found=f"{found!r}")
    return found


def check_keys(
    file: Path, content: Mapping[str, Any], names: tuple[str, ...], within: str = ""
) -> None:
    """Raise at the first key that is unknown, and name the one that may be meant."""
    for name in content:
        if name not in names:
            where = f"{file}, {within[:-1]}" if within else str(file)
            raise InputError(argument=where, expected=did_you_mean(names, name, len(names)))


def text_of(file: Path, name: str, value: Any) -> str:
    """Return a value that has to be a text."""
    if not isinstance(value, str):
        raise InputError(argument=f"{file}, {name}", expected="a text", found=f"{value!r}")
    return value


def source_of(file: Path, name: str, value: Any) -> SourceSpec:
    """Return a source, given as ``--source`` takes it or as a table."""
    where = f"{file}, sources.{name}"
    try:
        if isinstance(value, dict):
            allowed = tuple(field.name for field in fields(SourceSpec) if field.name != "name")
            check_keys(file, value, allowed, f"sources.{name}.")
            if value.get("kind") not in KINDS:
                raise InputError(
                    argument="kind", expected=f"one of {', '.join(KINDS)}", found=value.get("kind")
                )
            lists = {key: tuple(part) for key, part in value.items() if isinstance(part, list)}
            spec = SourceSpec(name, **{**value, **lists})
        else:
            spec = replace(parse_source(f"x={text_of(file, f'sources.{name}', value)}"), name=name)
    except InputError as error:
        message = str(error).replace("source 'x': ", "").replace("'x=", "'")
        raise InputError(message, argument=where) from None
    except TypeError as error:
        raise InputError(str(error), argument=where) from None
    return spec if spec.file is None else replace(spec, file=moved(spec.file, of=file.parent))

"""`load_settings`: where each setting comes from, and what it then is.

The first source that names a value wins: flags, `ORCHESTRATOR_*` variables, the workspace's
`.orchestrator/config.toml`, the user's `~/.orchestrator/config.toml`, the built-in value. Lists (`allow`,
`deny`, `add_dirs`) are joined instead. A workspace's file belongs to its repository, so it may only tighten:
add `deny` rules, set mode `plan` or permission mode `ask`, lower a limit. All else in it is ignored, with a
warning.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agents.errors import ErrorCode, Failure, failure
from agents.rules.permission_rules import Rule
from agents.spec import OperatingMode, PermissionMode
from orchestrator.settings import Settings, default_data_dir
from orchestrator.task import MAIN_TURNS, MAX_DELEGATES, MAX_DEPTH

PREFIX = "ORCHESTRATOR_"
FILE = Path(".orchestrator/config.toml")
"""Below the user's home, and below a workspace."""
MAX_FILE_BYTES = 1024 * 1024
DEEPEST = 3
OTLP_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
DEFAULT_JAEGER = "http://localhost:16686"
MARKERS = frozenset({"ORCHESTRATOR_SESSION_ID", "ORCHESTRATOR_RUN_ID", "ORCHESTRATOR_CALL_ID"})
"""Variables that tool processes are given; they set nothing."""
BUILT_IN = "built-in"

Read = Callable[[Any, Path], Any]
"""Checks one raw value and returns it; a path starts at the folder. ValueError says what to give."""


@attrs.frozen
class Key:
    """One setting."""

    name: str
    read: Read
    default: Any = None
    joined: bool = False
    """Values of all sources are joined instead of the first one winning."""
    separator: str = ""
    """Between the items of a list in an environment variable."""
    tightens: Callable[[Any, Any], bool] | None = None
    """(a repository's value, the value without it) → whether it may be used; None: never."""

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name.removesuffix("s" if self.name == "add_dirs" else "").replace("_", "-")


@attrs.frozen
class LoadedSettings:
    """What was found."""

    settings: Settings
    sources: dict[str, str]
    """Name of a setting → where its value came from."""
    warnings: tuple[str, ...]
    values: Mapping[str, Any] = attrs.field(factory=dict)
    """Every setting by name, also those of the command line alone (`permission_prompts`, `jaeger_url`)."""


@attrs.frozen
class _Layer:
    """One source."""

    kind: str
    label: str
    """As it is shown as a value's source."""
    values: Mapping[str, Any]
    folder: Path
    """What relative paths start at."""

    def name(self, key: Key) -> str:
        """The setting as it is spelled there."""
        if self.kind == "flag":
            return key.flag
        return key.variable if self.kind == "environment" else f"{self.label}: {key.name}"


def load_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str], workspace: Path | None
) -> LoadedSettings:
    """The settings for a session on `workspace` (None: none is known, its file is not read).

    `flags` holds values by the names of `KEYS`; None and empty sequences count as not given. Raises `Failure`
    INVALID_ARGUMENT that names the flag, variable or file with the key.
    """
    home = Path(environment.get("HOME") or Path.home())
    root = Path.cwd() if workspace is None else Path(workspace).expanduser().absolute()
    warnings: list[str] = []
    user = _file_layer(home / FILE, "user", warnings)
    repository = _file_layer(_own_file(root if workspace is not None else None, home), "workspace", warnings)
    given = {
        name: value for name, value in flags.items() if value is not None and value != () and value != []
    }
    layers = [
        _Layer("flag", "flag", given, Path.cwd()),
        _environment_layer(environment, warnings),
        user,
    ]
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key in KEYS:
        resolve = _join if key.joined else _first
        values[key.name], sources[key.name] = resolve(key, layers, repository, warnings)
    values["data_dir"] = values["data_dir"] or default_data_dir(environment)
    return LoadedSettings(_settings(values, root, home, environment), sources, tuple(warnings), values)


def _settings(
    values: Mapping[str, Any], workspace: Path, home: Path, environment: Mapping[str, str]
) -> Settings:
    own = {field.name for field in attrs.fields(Settings)} & values.keys()
    variables = dict(environment)
    if values["otlp_endpoint"]:
        variables.setdefault(OTLP_VARIABLE, values["otlp_endpoint"])
    chosen = {name: values[name] for name in own}
    chosen["mode"] = OperatingMode(values["mode"])
    chosen["permission_mode"] = PermissionMode(values["permission_mode"])
    return Settings(workspace=workspace, home=home, environment=variables, **chosen)


def _first(key: Key, layers: Sequence[_Layer], repository: _Layer, warnings: list[str]) -> tuple[Any, str]:
    """The value of the strongest source that names it; a repository's counts above the user's file."""
    flags, variables, user = layers
    for layer in (flags, variables):
        if key.name in layer.values:
            return _read(key, layer), layer.name(key)
    value, source = key.default, BUILT_IN
    if key.name in user.values:
        value, source = _read(key, user), user.label
    if key.name in repository.values and key.tightens is not None:
        tighter = _read(key, repository)
        if key.tightens(tighter, value):
            return tighter, repository.label
        if tighter != value:
            warnings.append(
                f"{repository.name(key)} = {tighter!r} is ignored: a repository's file may only tighten, and "
                f"{value!r} applies ({source})."
            )
    return value, source


def _join(key: Key, layers: Sequence[_Layer], repository: _Layer, warnings: list[str]) -> tuple[Any, str]:
    """The values of all sources, each once. Of a repository's lists only `deny` counts."""
    found: dict[Any, None] = {}
    sources: list[str] = []
    for layer in (*layers, *([repository] if key.tightens is not None else [])):
        if key.name in layer.values:
            found.update(dict.fromkeys(_read(key, layer)))
            sources.append(layer.name(key) if layer.kind in ("flag", "environment") else layer.label)
    return tuple(found), ", ".join(sources) or BUILT_IN


def _read(key: Key, layer: _Layer) -> Any:
    raw = layer.values[key.name]
    if layer.kind == "environment" and key.separator:
        raw = [item for item in raw.split(key.separator) if item.strip()]
    try:
        value = key.read(raw, layer.folder)
        if layer.kind == "flag" and key.read is _rules:
            _refuse_misnamed(value)
        return value
    except ValueError as wrong:
        raise failure(ErrorCode.INVALID_ARGUMENT, f"{layer.name(key)}: {wrong}") from None
    except Failure as refused:
        raise failure(ErrorCode.INVALID_ARGUMENT, f"{layer.name(key)}: {refused.error.message}") from None


# where values are


def _environment_layer(environment: Mapping[str, str], warnings: list[str]) -> _Layer:
    variables = {key.variable: key.name for key in KEYS if key.name != "model_aliases"}
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in variables and name not in MARKERS:
            near = _nearest(name.removeprefix(PREFIX).lower(), variables.values(), 0.75)
            if near:
                warnings.append(f"The variable {name} is ignored; did you mean {PREFIX}{near.upper()}?")
    values = {variables[name]: value for name, value in environment.items() if name in variables and value}
    return _Layer("environment", "environment", values, Path.cwd())


def _nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    """The known name that was most likely meant; swapped letters are the likeliest slip."""
    near = difflib.get_close_matches(name, list(known), 3, cutoff)
    return next((one for one in near if sorted(one) == sorted(name)), near[0] if near else None)


def _own_file(workspace: Path | None, home: Path) -> Path | None:
    """The workspace's file; None where it is the user's own one."""
    if workspace is None or os.path.realpath(workspace) == os.path.realpath(home):
        return None
    return workspace / FILE


def _file_layer(path: Path | None, kind: str, warnings: list[str]) -> _Layer:
    values = {} if path is None else _load(path)
    label = str(path)
    folder = Path.cwd() if path is None else path.parent
    known = {key.name: key for key in KEYS}
    for name in list(values):
        spelled = name.replace("-", "_")
        if spelled in known and spelled != name:
            values[spelled] = values.pop(name)
        if spelled not in known:
            near = _nearest(spelled, known, 0.6)
            hint = f"did you mean `{near}`?" if near else "`orchestrator config` lists the known ones."
            warnings.append(f"{label}: the unknown key `{name}` is ignored; {hint}")
            del values[name]
        elif kind == "workspace" and known[spelled].tightens is None:
            warnings.append(
                f"{label}: `{name}` is ignored: a repository's file may only tighten "
                f"({', '.join(_tightening())}). Put it into ~/{FILE} if you want it."
            )
            del values[spelled]
    return _Layer(kind, label, values, folder)


def _tightening() -> Iterator[str]:
    return (key.name for key in KEYS if key.tightens is not None)


def _load(path: Path) -> dict[str, Any]:
    """The file's table; empty where there is no file. An unreadable one is an error: it may forbid things."""
    try:
        if not path.is_file():
            return {}
        if path.stat().st_size > MAX_FILE_BYTES:
            raise failure(
                ErrorCode.INVALID_ARGUMENT, f"{path} is larger than {MAX_FILE_BYTES // 1024} KiB. Shorten it."
            )
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise failure(
            ErrorCode.INVALID_ARGUMENT, f"{path} cannot be read ({error.strerror}). Check its permissions."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise failure(ErrorCode.INVALID_ARGUMENT, f"{path} is not TOML: {error}. Correct the file.") from None


# what values are


def _text(value: Any, folder: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("give a text that is not empty.")
    return value.strip()


def _model(value: Any, folder: Path) -> str:
    """A script's path is made absolute: a session is resumed from anywhere."""
    name = _text(value, folder)
    provider, _, rest = name.partition(":")
    # no `..` stays in it: it is shown, and stored, in every session's first line
    return (
        f"script:{os.path.abspath(_absolute(rest, folder))}"
        if provider == "script" and rest.strip()
        else name
    )


def _path(value: Any, folder: Path) -> Path:
    return _absolute(_text(str(value) if isinstance(value, Path) else value, folder), folder)


def _absolute(text: str, folder: Path) -> Path:
    return folder / Path(text).expanduser()


def _paths(value: Any, folder: Path) -> tuple[Path, ...]:
    return tuple(_path(item, folder) for item in _items(value))


def _rules(value: Any, folder: Path) -> tuple[str, ...]:
    rules = tuple(_text(item, folder) for item in _items(value))
    for rule in rules:
        Rule.parse(rule)
    return rules


def _refuse_misnamed(rules: Iterable[str]) -> None:
    """A rule of the command line that does nothing is a slip; own tools, which it may be about elsewhere, do
    not come from there."""
    for rule in rules:
        wrong = Rule.parse(rule).misnamed()
        if wrong is not None:
            raise ValueError(wrong)


def _names(value: Any, folder: Path) -> tuple[str, ...]:
    """Patterns on one part of a path."""
    names = tuple(_text(item, folder) for item in _items(value))
    for name in names:
        if "/" in name or not name.strip("*"):
            raise ValueError(f"{name!r} is no name of a file or folder, such as `*.secret`.")
    return names


def _items(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError("give a list of texts.")
    return value


def _choice(*allowed: str) -> Read:
    def read(value: Any, folder: Path) -> str:
        if value not in allowed:
            raise ValueError(f"{value!r} is not one of {', '.join(allowed)}.")
        return str(value)

    return read


def _count(lowest: int, highest: int) -> Read:
    def read(value: Any, folder: Path) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
            raise ValueError(f"{value!r} is not a whole number from {lowest} to {highest}.")
        return number

    return read


def _switch(value: Any, folder: Path) -> bool:
    known = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    chosen = value if isinstance(value, bool) else known.get(str(value).strip().lower())
    if chosen is None:
        raise ValueError(f"{value!r} is neither true nor false.")
    return chosen


def _seconds(value: Any, folder: Path) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0 < number <= 86_400:
        raise ValueError(f"{value!r} is not a number of seconds above 0, at most 86400.")
    return number


def _aliases(value: Any, folder: Path) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        raise ValueError('give a table of alias = "provider:name".')
    return {alias: _model(name, folder) for alias, name in value.items()}


def _lower(value: Any, base: Any) -> bool:
    return bool(value < base)


def _is(only: str) -> Callable[[Any, Any], bool]:
    return lambda value, base: value == only


KEYS: tuple[Key, ...] = (
    Key("model", _model),
    Key("base_url", _text),
    Key("agent", _text, "main"),
    Key("mode", _choice("agent", "plan"), "agent", tightens=_is("plan")),
    Key("permission_mode", _choice("ask", "accept-edits", "auto"), "ask", tightens=_is("ask")),
    Key("permission_prompts", _choice("terminal", "inbox", "none")),
    Key("allow", _rules, (), joined=True, separator="\n"),
    Key("deny", _rules, (), joined=True, separator="\n", tightens=lambda value, base: True),
    Key("add_dirs", _paths, (), joined=True, separator=os.pathsep),
    Key("denied_names", _names, (), joined=True, separator="\n"),
    Key("lifted_names", _names, (), joined=True, separator="\n"),
    Key("max_turns", _count(1, 100_000), MAIN_TURNS, tightens=_lower),
    Key("max_delegates", _count(1, 1_000), MAX_DELEGATES, tightens=_lower),
    Key("max_depth", _count(1, DEEPEST), MAX_DEPTH, tightens=_lower),
    Key("permission_timeout", _seconds, 120.0, tightens=_lower),
    Key("defer_tools", _switch, True),
    Key("store", _path),
    Key("data_dir", _path),
    Key("trace_file", _path),
    Key("trace_services", _choice("agents", "one"), "agents"),
    Key("trace_model_requests", _switch, False),
    Key("otlp_endpoint", _text),
    Key("jaeger_url", _text, DEFAULT_JAEGER),
    Key("model_aliases", _aliases, {}),
)
"""Every setting. Lists in variables: one item per line (`allow`, `deny`, names), or as in PATH (`add_dirs`)."""

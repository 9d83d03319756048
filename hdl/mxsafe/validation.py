"""Checks of parameters: each names the parameter, the requirement and the value that came.

What a parameter must be stands once, in its annotation: a class, a choice (``Literal``), an
integer with a rule such as `PowerOfTwo`, or a union or container of them. `checked` holds the
arguments of a function or constructor to their annotations before any of its code runs, and
`settled` one value. Code then checks only what annotations cannot say: what depends on other
parameters. The functions ``require_*`` give a value back as Python's own, or raise ValueError.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

F = TypeVar("F", bound=Callable[..., Any])
Rule = Callable[[str, object], Any]

_LONGEST_IDENTIFIER = 64
_IDENTIFIER = re.compile(f"[A-Za-z_][A-Za-z0-9_]{{0,{_LONGEST_IDENTIFIER - 1}}}")


def _as_integer(value: object) -> int | None:
    """The integer that a value is, NumPy's among them; None if it is none."""
    if type(value) is int:  # most are
        return value
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def require_axis(axis: int, rank: int) -> int:
    """An axis of an array of so many axes, as it came.

    Raises
    ------
    ValueError
        If there is no such axis.
    """
    if not -rank <= axis < rank:
        if not rank:
            raise ValueError(f"axis must be that of an array of rank 1 or more, not {shown(axis)}")
        raise ValueError(f"axis must lie in {-rank}..{rank - 1} for rank {rank}, not {shown(axis)}")
    return axis


def _require(name: str, value: object, what: str, holds: Callable[[int], bool]) -> int:
    """An integer of which something holds, as Python's own."""
    number = _as_integer(value)
    if number is None or not holds(number):
        raise ValueError(f"{name} must be {what}, not {shown(value)}")
    return number


def require_count(name: str, value: object) -> int:
    """The value of a parameter that must be a non-negative integer."""
    return _require(name, value, "a non-negative integer", lambda number: number >= 0)


def require_positive_integer(name: str, value: object) -> int:
    """The value of a parameter that must be a positive integer."""
    return _require(name, value, "a positive integer", lambda number: number > 0)


def require_multiple(name: str, value: object, of: int) -> int:
    """The value of a parameter that must be a positive multiple of an integer."""
    number = require_positive_integer(name, value)
    return _require(name, number, f"a multiple of {of}", lambda number: number % of == 0)


def require_power_of_two(name: str, value: object) -> int:
    """The value of a parameter that must be a power of two."""
    return _require(
        name, value, "a power of two", lambda number: number > 0 and not number & (number - 1)
    )


def require_integer(name: str, value: object, least: int, most: int) -> int:
    """The value of a parameter that must be an integer within bounds."""
    what = f"an integer from {least} to {most}"
    return _require(name, value, what, lambda number: least <= number <= most)


def require_identifier(name: str, value: object) -> str:
    """The value of a parameter that becomes part of the names of modules and files.

    Raises
    ------
    ValueError
        If it is anything but 1 to 64 ASCII letters, digits and underscores, the first no digit.
    """
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        raise ValueError(
            f"{name} must be an identifier (1 to {_LONGEST_IDENTIFIER} ASCII letters, digits and "
            f"underscores, the first no digit), not {shown(value)}"
        )
    return value


def require_one_of(name: str, value: object, known: Collection[str], where: str = "") -> str:
    """The value of a parameter that must be one of some words.

    Parameters
    ----------
    name, value, known, where
        The parameter, its value, and the words with a remark as of `one_of`.

    Raises
    ------
    ValueError
        If it is none of them.
    """
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be {one_of(known, value, where)}")
    return value


def one_of(
    known: Iterable[object], value: object, where: str = "", meant: Sequence[str] = ()
) -> str:
    """Return the message about a value that must be one of some others.

    Parameters
    ----------
    known : iterable
        What it may be.
    value : object
        What it is.
    where : str
        A remark behind the list, with a blank in front.
    meant : sequence of str
        Which of them the value may stand for; by default what it looks like, if it is a text.

    Returns
    -------
    str
        All of this, to stand behind *must be*.
    """
    names = list(map(str, known))
    hint = _hint(meant or _alike(names, value))
    return f"one of {', '.join(names)}{where}, not {shown(value)}{hint}"


_DIGITS = re.compile("[0-9]")
_ALIKE = 0.7
"""How alike two words are if one may be a slip in the other: 0 to 1, as `difflib` measures it."""


def _alike(names: Sequence[str], value: object) -> Sequence[str]:
    """The name that a value may be a slip in: capitals make no difference, digits do."""
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        return ()
    digits = _DIGITS.findall(value)
    lower = {name.lower(): name for name in names if _DIGITS.findall(name) == digits}
    return [lower[name] for name in get_close_matches(value.lower(), lower, 1, _ALIKE)]


def _hint(meant: Sequence[str]) -> str:
    """A question whether one of these is meant; nothing, if there are none."""
    *others, last = map(repr, meant or [""])
    words = f"{', '.join(others)} or {last}" if others else last
    return f"; did you mean {words}?" if meant else ""


def within(least: int, most: int) -> Rule:
    """The rule of an integer within bounds, for an annotation."""
    return lambda name, value: require_integer(name, value, least, most)


def limited(rule: Rule, most: int) -> Rule:
    """A rule of integers with a limit beside it, for an annotation."""

    def require(name: str, value: object) -> int:
        number: int = rule(name, value)
        if number > most:
            raise ValueError(f"{name} must be at most {most}, not {shown(number)}")
        return number

    return require


def joined(name: str, value: object) -> str:
    """Names as one text.

    Raises
    ------
    TypeError
        If the value is neither a text nor a sequence of texts.
    """
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, tuple | list) or not all(isinstance(one, str) for one in names):
        raise TypeError(f"{name} must be names in a text or a sequence, not {shown(value)}")
    return "+".join(names)


def bounded(annotation: Any, most: int) -> Any:
    """The same annotation with integers of at most that magnitude, apart from those with bounds."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation is int:
        return Annotated[int, _magnitude(most)]
    if annotation in (PositiveInteger, Count, PowerOfTwo):
        return Annotated[annotation, _magnitude(most)]
    if origin in (Union, UnionType):
        return Union[tuple(bounded(part, most) for part in parts)]  # noqa: UP007
    if origin is tuple:
        return tuple[tuple(bounded(part, most) for part in parts)]  # type: ignore[misc]
    return annotation


def _magnitude(most: int) -> Rule:
    def require(name: str, value: object) -> int:
        number = _integer(name, value)
        if abs(number) > most:
            bound = f"at most {most}" if number > 0 else f"at least {-most}"
            raise ValueError(f"{name} must be {bound}, not {shown(number)}")
        return number

    return require


Long = Annotated[int, _magnitude(1 << 32)]
"""Annotation of a parameter that counts bytes, cycles or products: `bounded` leaves it alone."""
Wide = Annotated[int, within(-(1 << 64), 1 << 64)]
"""Annotation of an integer of 64 bits and a sign, such as an address or a count of cycles."""
PositiveInteger = Annotated[int, require_positive_integer]
"""Annotation of a parameter that must be a positive integer."""
Count = Annotated[int, require_count]
"""Annotation of a parameter that must be a non-negative integer."""
Seed = Annotated[int, limited(require_count, 1 << 128)]
"""Annotation of a seed of random numbers."""
PowerOfTwo = Annotated[int, require_power_of_two]
"""Annotation of a parameter that must be a power of two."""

Names = Annotated[str, joined]
"""Annotation of names in one text, joined by ``+``; or in a sequence, which becomes that text."""
_MOST_ALIKE = 1 << 10
Alike = Annotated[int, limited(require_positive_integer, _MOST_ALIKE)]
"""Annotation of how many parts that are alike there are side by side."""
AlikePower = Annotated[int, limited(require_power_of_two, _MOST_ALIKE)]
"""The same where it must be a power of two."""
_MOST = 1 << 32
"""Largest magnitude of an integer that an annotation sets no bounds for."""

_LONGEST_TEXT = 80
_MOST_ITEMS = 8


def shown(value: object) -> str:
    """A value in an error: itself if it is a short one, and else what it is."""
    single = isinstance(value, bool | int | float | complex | str | bytes | NoneType)
    single = single or getattr(value, "shape", None) == ()  # a number of NumPy
    few = isinstance(value, tuple | list | dict | AbstractSet) and len(value) <= _MOST_ITEMS
    if single or few:
        try:
            text = repr(value)
        except ValueError:  # an integer of more digits than Python writes
            text = f"a long {type(value).__name__}"
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
    return type(value).__name__


def other_than(words: str, value: object) -> str:
    """A value in an error that wants something else; with its module if its class is called so."""
    found = shown(value)
    same = found == type(value).__name__ and found in words.split()
    return f"{type(value).__module__}.{found}" if same else found


@contextmanager
def about(**names: str) -> Iterator[None]:
    """Let errors about parameters of a part be about those that the part is made from.

    Parameters
    ----------
    **names
        By the name of the part's parameter, whatever shall stand in its place.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        name, blank, words = str(error).partition(" ")
        if name not in names:
            raise
        raise type(error)(f"{names[name]}{blank}{words}") from None


def settled(name: str, annotation: Any, value: Any) -> Any:
    """The value of a parameter as its annotation wants it: integers become Python's own.

    Parameters
    ----------
    name : str
        Name of the parameter.
    annotation : type
        What it must be. A protocol says nothing.
    value : object
        What was given.

    Raises
    ------
    TypeError
        If it is of another type.
    ValueError
        If it is no integer where one must be, none of the choices, or refused by a rule.
    """
    return Form.of(annotation).settled(name, value)


def checked(target: F) -> F:
    """Check the arguments of a function, or of a class's constructor, against annotations.

    Raises
    ------
    TypeError, ValueError
        When it is called: as `settled`.
    """
    if isinstance(target, type):
        target.__init__ = checked(target.__init__)  # type: ignore[misc]
        return target

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        places, forms = _forms_of(target)
        given = [
            forms[name].settled(name, value) if name in forms else value
            for name, value in zip(places, args, strict=False)
        ]
        named = {
            name: forms[name].settled(name, value) if name in forms else value
            for name, value in kwargs.items()
        }
        return target(*given, *args[len(given) :], **named)

    return call  # type: ignore[return-value]


class Form(NamedTuple):
    """Requirement of a parameter, and the check of values: made once, where there are many.

    Attributes
    ----------
    annotation : type
        What it must be.
    settle : callable
        Check of a value against it, by the name of the parameter.
    """

    annotation: Any
    settle: Rule

    @classmethod
    def of(cls, annotation: Any) -> "Form":
        """The check of an annotation."""
        return cls(annotation, _settler(annotation))

    def settled(self, name: str, value: Any) -> Any:
        """The value of a parameter, as by the function `settled`."""
        try:
            return self.settle(name, value)
        except _MismatchError:
            kind = ValueError if _has_choice(self.annotation) else TypeError
            words = _in_words(self.annotation)
            found = other_than(words, value)
            if " array" in words and hasattr(value, "dtype"):
                found = f"{found} of {value.dtype}"
            hint = _hint(_alike(_words_of(self.annotation), value))
            raise kind(f"{name} must be {words}, not {found}{hint}") from None


@cache
def _forms_of(target: Callable[..., Any]) -> tuple[tuple[str, ...], Mapping[str, Form]]:
    """Names of the parameters in their places, and what they must be."""
    known = signature(target).parameters
    places = tuple(
        name
        for name, parameter in known.items()
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    )
    try:
        hints = get_type_hints(target, include_extras=True)
    except NameError:  # a class that is imported for type checkers alone says nothing
        said = target.__annotations__.items()
        hints = {name: kind for name, kind in said if not isinstance(kind, str)}
    return places, {name: Form.of(bounded(kind, _MOST)) for name, kind in hints.items()}


class _MismatchError(Exception):
    """A value is not what an annotation says."""


def _settler(annotation: Any) -> Rule:
    """Return the rule of an annotation; what a rule refuses is an error of the rule's own."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _all_of(annotation.__metadata__)
    if origin in (Union, UnionType):
        _require_public(parts)
        return _any_of([_settler(part) for part in parts])
    if origin is Literal:
        return _choice(parts)
    if annotation in _NUMBERS:
        return _NUMBERS[annotation]
    kind = NoneType if annotation is None else origin or annotation
    is_protocol = getattr(kind, "_is_protocol", False)
    says_nothing = kind in (Any, object) or (
        is_protocol and not getattr(kind, "_is_runtime_protocol", False)
    )
    if not isinstance(kind, type) or says_nothing:
        return lambda name, value: value
    return _of_class(kind, parts)


def _require_public(parts: Sequence[Any]) -> None:
    """Refuse a union such as ``ArrayLike``, of private classes that an error would have to name."""
    for part in parts:
        name = getattr(get_origin(part) or part, "__name__", "")
        if name.startswith("_"):
            raise TypeError(
                "annotation must be of public classes, or for an array "
                f"mxsafe.codec._inputs.Numbers, not of {name}"
            )


def _all_of(rules: Sequence[Rule]) -> Rule:
    if len(rules) == 1:
        return rules[0]

    def settle(name: str, value: Any) -> Any:
        for rule in rules:
            value = rule(name, value)
        return value

    return settle


def _any_of(settlers: Sequence[Rule]) -> Rule:
    """Return a rule that tries rules in order; if none takes the value, the first error stands."""

    def settle(name: str, value: Any) -> Any:
        refused: Exception = _MismatchError()
        for one in settlers:
            try:
                return one(name, value)
            except _MismatchError:
                pass
            except (TypeError, ValueError) as error:
                refused = error
        raise refused

    return settle


def _choice(known: tuple[Any, ...]) -> Rule:
    def settle(name: str, value: Any) -> Any:
        if isinstance(value, bool | int | str | NoneType) and value in known:
            return value
        raise _MismatchError

    return settle


def _integer(name: str, value: Any) -> int:
    number = _as_integer(value)
    if number is None:
        raise _MismatchError
    return number


def _number(name: str, value: Any) -> Any:
    if not isinstance(value, bool) and isinstance(value, Real):
        with suppress(OverflowError):  # an integer that no float holds
            float(value)
            return value
    raise _MismatchError


def _truth(name: str, value: Any) -> bool:
    numpys = type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")
    if isinstance(value, bool) or numpys:
        return bool(value)
    raise _MismatchError


_NUMBERS: Mapping[Any, Rule] = {int: _integer, float: _number, bool: _truth}


def _of_class(kind: type, parts: tuple[Any, ...]) -> Rule:
    """Of a class, a container with its items settled too."""
    is_one, with_parts = _member_test(kind), _parts_settler(kind, parts)

    def settle(name: str, value: Any) -> Any:
        if kind is tuple and isinstance(value, list):
            value = tuple(value)
        if not is_one(value):
            raise _MismatchError
        return with_parts(name, value) if with_parts else value

    return settle


def _member_test(kind: type) -> Callable[[Any], bool]:
    """Whether a value is of a class; a text is none of a sequence, nor an array without axes."""
    if kind.__name__ == "ndarray":
        return lambda value: hasattr(value, "dtype") and hasattr(value, "shape")
    if kind in (Iterable, Sequence, Collection):
        return lambda value: (
            isinstance(value, kind)
            and not isinstance(value, str | bytes)
            and getattr(value, "shape", None) != ()
        )
    return lambda value: isinstance(value, kind)


def _parts_settler(kind: type, annotations: tuple[Any, ...]) -> Rule | None:
    """Return the rule for the parts of a class's values; None where annotations have none."""
    if kind.__name__ == "ndarray":
        return _array(annotations)
    if not annotations:
        return None
    if kind is type:
        return _derived_from(annotations[0])
    if kind is tuple:
        return _tuple(annotations)
    if issubclass(kind, Mapping):
        return _mapping(*map(_settler, annotations)) if len(annotations) == 2 else None
    return _items(_settler(annotations[0])) if issubclass(kind, Iterable) else None


def _array(annotations: tuple[Any, ...]) -> Rule:
    """Refuse arrays of another dtype, and those with a mask, which would be lost."""
    wanted = get_args(annotations[1]) if len(annotations) > 1 else ()
    known = bool(wanted) and isinstance(wanted[0], type) and wanted[0] is not Any

    def settle(name: str, value: Any) -> Any:
        if hasattr(value, "mask") or (known and not issubclass(value.dtype.type, wanted[0])):
            raise _MismatchError
        return value

    return settle


def _derived_from(base: Any) -> Rule:
    def settle(name: str, value: Any) -> Any:
        if isinstance(base, type) and not issubclass(value, base):
            raise _MismatchError
        return value

    return settle


def _tuple(annotations: tuple[Any, ...]) -> Rule:
    if annotations[-1] is Ellipsis:
        return _tuple_of(_settler(annotations[0]))
    settlers = [_settler(annotation) for annotation in annotations]

    def settle(name: str, value: Any) -> Any:
        if len(settlers) != len(value):
            raise _MismatchError
        return tuple([one(name, item) for one, item in zip(settlers, value, strict=True)])

    return settle


def _tuple_of(each: Rule) -> Rule:
    def settle(name: str, value: Any) -> Any:
        return tuple([each(name, item) for item in value])

    return settle


def _mapping(key: Rule, item: Rule) -> Rule:
    def settle(name: str, value: Any) -> Any:
        for one, other in value.items():
            key(name, one)
            item(name, other)
        return value

    return settle


def _items(each: Rule) -> Rule:
    def settle(name: str, value: Any) -> Any:
        if isinstance(value, Collection):  # an iterator has its items once
            for item in value:
                each(name, item)
        return value

    return settle


def _has_choice(annotation: Any) -> bool:
    """Whether integers or words are among what it takes: then what is none is a wrong value."""
    if annotation is int or get_origin(annotation) in (Literal, Annotated):
        return True
    return get_origin(annotation) in (Union, UnionType) and any(
        map(_has_choice, get_args(annotation))
    )


def _words_of(annotation: Any) -> list[str]:
    """The words among what it takes."""
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return [part for part in parts if isinstance(part, str)]
    if get_origin(annotation) in (Union, UnionType):
        return [word for part in parts for word in _words_of(part)]
    return []


_WORDS: Mapping[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    None: "None",
}


def _in_words(annotation: Any) -> str:
    """Return the description of an annotation."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _in_words(parts[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_in_words, parts)))
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if annotation in _WORDS:
        return _WORDS[annotation]
    kind = origin or annotation
    label = getattr(kind, "__name__", str(kind))
    if label == "ndarray":
        dtype = get_args(parts[1]) if len(parts) > 1 else ()
        known = bool(dtype) and isinstance(dtype[0], type) and dtype[0] is not Any
        return f"{_with_article(dtype[0].__name__) if known else 'an'} array without a mask"
    if origin is type:
        return f"a class derived from {getattr(parts[0], '__name__', parts[0])}"
    if origin is tuple and parts[-1] is not Ellipsis:
        return f"a tuple ({', '.join(map(_in_words, parts))})"
    whole = _with_article(label if origin is None else label.lower())
    said = [
        part for part in parts if part not in (Ellipsis, Any) and isinstance(part, type | UnionType)
    ]
    return f"{whole} of {' to '.join(map(_in_words, said))}" if said else whole


def _with_article(word: str) -> str:
    vowel = word[0] in "AEIOUaeiou" and not word.startswith(("uint", "unit"))
    return f"{'an' if vowel or word.startswith('MX') else 'a'} {word}"

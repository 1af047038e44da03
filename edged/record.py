"""``@record``: a value class with slots, made for a start that takes no longer than it must.

What ``dataclasses.dataclass(slots=True)`` makes of a class, without the price of it: that compiles
four to seven methods for each class as soon as it is defined, half a millisecond each, most of
which no process ever calls. Here ``__init__`` is compiled when the first instance is made, and all
other methods are shared by all records. Fields are declared with ``dataclasses.field``;
``replace``, ``fields``, ``asdict`` and ``is_dataclass`` of ``dataclasses`` take a record. A record
inherits from records and from classes without fields, and no dataclass inherits from a record.

    @record                         immutable, fields by keyword: a value
    @record(kw_only=False)          the same, fields by position, too
    @record(frozen=False)           fields may be assigned
    @record(eq=False)               equal to itself only
    @part                           something that lives: fields may be assigned, by position, too;
                                    equal to itself only, and shown without its fields

There is no order, no ``InitVar``, and no option that switches a method off.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from dataclasses import Field, field
else:
    # `dataclasses` itself, with `inspect`, is half of what `edged status` would import.
    field = None

T = TypeVar("T")
SHAPE: Final = "__record__"
"""Where a record class keeps its ``_Shape``."""
OF_CLASS: Final = ("ClassVar", "typing.ClassVar")
ONLY_KEYWORDS: Final = ("KW_ONLY", "dataclasses.KW_ONLY", "<dataclasses._KW_ONLY")
"""How annotations begin that declare no field."""
NOTHING: Final = object()


class _NotPassed:
    """The default of a field with a factory, as signatures show it."""

    def __repr__(self) -> str:
        return "<factory>"


NOT_PASSED: Final = _NotPassed()


@overload
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: type[T], /) -> type[T]: ...


@overload
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(
    *, frozen: bool = True, kw_only: bool = True, eq: bool = True, weakref_slot: bool = False
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(
    cls: type[T] | None = None,
    /,
    *,
    frozen: bool = True,
    kw_only: bool = True,
    eq: bool = True,
    weakref_slot: bool = False,
) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a record; see the module.

    Args:
        cls: the class, where the decorator stands without options.
        frozen: assigning a field raises ``FrozenInstanceError``, and what is equal hashes alike.
        kw_only: fields are passed by keyword only.
        eq: instances of one class are equal if their fields are.
        weakref_slot: instances can be referenced weakly.

    Raises:
        TypeError: a base has fields but is no record, or is frozen where this is not (or not where
            this is), or an ``InitVar`` is declared.
        ValueError: a default is mutable, and all instances would share it.
    """

    def decorate(bare: type[T]) -> type[T]:
        return _made(bare, frozen=frozen, kw_only=kw_only, eq=eq, weakref_slot=weakref_slot)

    return decorate if cls is None else decorate(cls)


@dataclass_transform(field_specifiers=(field,))
def part(cls: type[T]) -> type[T]:
    """Make a class a part: its constructor only stores what it is given; see the module."""
    made = _made(cls, frozen=False, kw_only=False, eq=False, weakref_slot=False)
    made.__repr__ = object.__repr__  # type: ignore[method-assign]
    return made


def _made(bare: type[T], *, frozen: bool, kw_only: bool, eq: bool, weakref_slot: bool) -> type[T]:
    """The class made again with slots, which cannot be added to one that exists."""
    namespace = dict(bare.__dict__)
    shape = _Shape(bare, frozen=frozen, kw_only=kw_only)
    for name in shape.names:
        if name in namespace:
            _check_default(name, namespace[name])
            shape.defaults[name] = namespace.pop(name)
    inherited = _inherited(bare, frozen=frozen)
    slots = [name for name in shape.names if name not in inherited]
    if weakref_slot and not any(base.__weakrefoffset__ for base in bare.__bases__):
        slots.append("__weakref__")
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    if eq:
        # Python itself writes None where the class body has an __eq__ and no __hash__.
        if "__hash__" not in namespace or (namespace["__hash__"] is None and "__eq__" in namespace):
            namespace["__hash__"] = _hash if frozen else None
        namespace.setdefault("__eq__", _equal)
    defaults = METHODS | (FROZEN if frozen else {}) | {"__init__": _LateInit(shape)}
    metaclass: Callable[..., type[T]] = type(bare)
    made = metaclass(
        bare.__name__,
        bare.__bases__,
        {**defaults, **namespace, SHAPE: shape, "__slots__": tuple(slots)},
    )
    made.__qualname__ = bare.__qualname__
    shape.owner = made
    return made


def _inherited(bare: type, *, frozen: bool) -> set[str]:
    """The names of the fields of all bases."""
    names: set[str] = set()
    for base in bare.__mro__[1:]:
        shape = base.__dict__.get(SHAPE)
        if shape is None and "__dataclass_fields__" in base.__dict__:
            raise TypeError(f"{bare.__name__}: its base {base.__name__} is no record")
        if shape is not None and shape.frozen is not frozen:
            raise TypeError(f"{bare.__name__} and its base {base.__name__} differ in frozen")
        if shape is not None:
            names.update(shape.names)
    return names


def _check_default(name: str, given: object) -> None:
    if type(_as_field(name, given, kw_only=False).default).__hash__ is None:
        raise ValueError(f"field {name}: a mutable default needs default_factory")


class _Field:
    """One field, as ``dataclasses.Field``. ``default`` and ``factory`` may be NOTHING."""

    __slots__ = ("compare", "default", "factory", "hash", "init", "kw_only", "name", "repr")

    def __init__(self, name: str, default: object, *, kw_only: bool) -> None:
        self.name = name
        self.default = default
        self.kw_only = kw_only
        self.factory: Any = NOTHING
        self.init = self.repr = self.compare = self.hash = True


def _as_field(name: str, given: Any, *, kw_only: bool) -> _Field:
    """What the class body assigns to a field: nothing, a default, or a ``dataclasses.field``."""
    if not (type(given).__module__ == "dataclasses" and type(given).__name__ == "Field"):
        return _Field(name, given, kw_only=kw_only)
    from dataclasses import MISSING

    made = _Field(name, NOTHING, kw_only=kw_only)
    if given.default is not MISSING:
        made.default = given.default
    if given.default_factory is not MISSING:
        made.factory = given.default_factory
    if given.kw_only is not MISSING:
        made.kw_only = given.kw_only
    made.init, made.repr, made.compare = given.init, given.repr, given.compare
    made.hash = given.compare if given.hash is None else given.hash
    return made


class _Shape:
    """The fields of one record class. What defining the class does not need is made later.

    Attributes:
        owner: the class.
        names: the names of its own fields, without those of its bases.
        defaults: what the class body assigns to them.
        annotations: all of the class body.
        only_keywords: its own fields are passed by keyword only.
    """

    __slots__ = ("_known", "annotations", "defaults", "frozen", "names", "only_keywords", "owner")

    def __init__(self, bare: type, *, frozen: bool, kw_only: bool) -> None:
        self.owner = bare
        self.frozen = frozen
        self.defaults: dict[str, Any] = {}
        self.annotations: dict[str, Any] = bare.__annotations__
        self.only_keywords = kw_only
        self._known: _Known | None = None
        self.names = [name for name, text in self._texts() if not text.startswith(OF_CLASS)]

    def known(self) -> _Known:
        """The facts that methods work by, from the first use on."""
        if self._known is None:
            self._known = _Known(self.owner)
        return self._known

    def fields(self) -> Iterator[tuple[str, _Field | None]]:
        """What the class itself declares; None: a ClassVar, which takes a field's place."""
        kw_only = self.only_keywords
        own = {*self.names}
        for name, annotation in self.annotations.items():
            if name in own:
                given = self.defaults.get(name, NOTHING)
                yield name, _as_field(name, given, kw_only=kw_only)
            elif _text(annotation).startswith(ONLY_KEYWORDS):
                kw_only = True
            else:
                yield name, None

    def _texts(self) -> Iterator[tuple[str, str]]:
        for name, annotation in self.annotations.items():
            text = _text(annotation)
            if "InitVar" in text:
                raise TypeError(f"{self.owner.__name__}.{name}: a record has no InitVar")
            if not text.startswith(ONLY_KEYWORDS):
                yield name, text


def _text(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else repr(annotation)


def _shapes(owner: type) -> Iterator[_Shape]:
    """Of the class and its bases, the bases first."""
    for base in reversed(owner.__mro__):
        if (shape := base.__dict__.get(SHAPE)) is not None:
            yield shape


class _Known:
    """What the shared methods ask of a record class.

    Attributes:
        fields: those of its bases first.
        key: the values that instances are compared by; ``hashed``: that they are hashed by.
        shown: the names of the fields that ``repr`` shows.
        setters: what sets each field, also of a frozen instance.
    """

    __slots__ = ("fields", "hashed", "key", "setters", "shown")

    def __init__(self, owner: type) -> None:
        found: dict[str, _Field | None] = {}
        for shape in _shapes(owner):
            found.update(shape.fields())
        self.fields = tuple(one for one in found.values() if one is not None)
        self.key = _values_of([one.name for one in self.fields if one.compare])
        self.hashed = _values_of([one.name for one in self.fields if one.hash])
        self.shown = tuple(one.name for one in self.fields if one.repr)
        self.setters = {one.name: getattr(owner, one.name).__set__ for one in self.fields}


def _values_of(names: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    match names:
        case []:
            return lambda _: ()
        case [name]:
            return lambda instance: (getattr(instance, name),)
        case _:
            return attrgetter(*names)


class _LateInit:
    """``__init__`` until somebody asks for it; takes its own place then."""

    __slots__ = ("_shape",)

    def __init__(self, shape: _Shape) -> None:
        self._shape = shape

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = _init(self._shape)
        self._shape.owner.__init__ = made  # type: ignore[misc]
        return made.__get__(instance, owner)


class _Late:
    """Another attribute of record classes that is made when somebody asks for it."""

    __slots__ = ("_make", "_name")

    def __init__(self, name: str, make: Callable[[_Shape], Any]) -> None:
        self._name = name
        self._make = make

    def __get__(self, _instance: object, owner: type) -> Any:
        shape: _Shape = getattr(owner, SHAPE)
        made = self._make(shape)
        setattr(shape.owner, self._name, made)
        return made


def _match_args(shape: _Shape) -> tuple[str, ...]:
    return tuple(one.name for one in shape.known().fields if one.init and not one.kw_only)


def _standard_fields(shape: _Shape) -> Mapping[str, Field[Any]]:
    """What ``dataclasses`` makes of the annotations: for its ``fields``, ``replace`` and so on."""
    import dataclasses

    found: dict[str, Field[Any]] = {}
    for one in _shapes(shape.owner):
        namespace = {
            **one.defaults,
            "__annotations__": one.annotations,
            "__module__": one.owner.__module__,
            "__doc__": "-",
        }
        read: Any = dataclasses.dataclass(
            init=False, repr=False, eq=False, match_args=False, kw_only=one.only_keywords
        )(type(one.owner.__name__, (), namespace))
        found |= read.__dataclass_fields__
    return found


def _init(shape: _Shape) -> FunctionType:
    """The method that dataclasses would have made, with setters that need no lookup."""
    known, owner = shape.known(), shape.owner
    me = "self" if "self" not in known.setters else "__dataclass_self__"
    names: dict[str, Any] = {"_not_passed": NOT_PASSED, "__name__": owner.__module__}
    parameters: dict[bool, list[str]] = {False: [], True: []}
    body = []
    for one in known.fields:
        name, value = one.name, one.name
        if one.factory is not NOTHING:
            names[f"_make_{name}"] = one.factory
            value = f"_make_{name}()"
            if one.init:
                parameters[one.kw_only].append(f"{name}=_not_passed")
                value = f"{value} if {name} is _not_passed else {name}"
        elif one.default is not NOTHING:
            names[f"_default_{name}"] = one.default
            if one.init:
                parameters[one.kw_only].append(f"{name}=_default_{name}")
            else:
                value = f"_default_{name}"
        elif one.init:
            parameters[one.kw_only].append(name)
        else:
            continue
        if shape.frozen:
            names[f"_set_{name}"] = known.setters[name]
            body.append(f"_set_{name}({me}, {value})")
        else:
            body.append(f"{me}.{name} = {value}")
    if hasattr(owner, "__post_init__"):
        body.append(f"{me}.__post_init__()")
    by_keyword = ["*", *parameters[True]] if parameters[True] else []
    head = ", ".join([me, *parameters[False], *by_keyword])
    text = f"def __init__({head}):\n " + "\n ".join(body or ["pass"])
    exec(compile(text, f"<record {owner.__qualname__}>", "exec"), names)  # noqa: S102 - our own text
    made: FunctionType = names["__init__"]
    made.__qualname__ = f"{owner.__qualname__}.__init__"
    types: dict[str, Any] = {}
    for one_shape in _shapes(owner):
        types |= one_shape.annotations
    made.__annotations__ = {
        **{one.name: types[one.name] for one in known.fields if one.init},
        "return": None,
    }
    return made


def _known(instance: object) -> _Known:
    shape: _Shape = getattr(instance, SHAPE)
    return shape.known()


def _equal(self: object, other: object) -> object:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = _known(self).key
    return values(self) == values(other)


def _hash(self: object) -> int:
    return hash(_known(self).hashed(self))


@reprlib.recursive_repr()
def _repr(self: object) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in _known(self).shown)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_assigning(_self: object, name: str, _value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(_self: object, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: object) -> list[Any]:
    return [getattr(self, name) for name in _known(self).setters]


def _set_state(self: object, state: list[Any]) -> None:
    for set_field, value in zip(_known(self).setters.values(), state, strict=True):
        set_field(self, value)


METHODS: Final[dict[str, Any]] = {
    "__repr__": _repr,
    "__match_args__": _Late("__match_args__", _match_args),
    "__dataclass_fields__": _Late("__dataclass_fields__", _standard_fields),
}
"""What a class has unless its body says otherwise."""
FROZEN: Final[dict[str, Any]] = {
    "__setattr__": _refuse_assigning,
    "__delattr__": _refuse_deleting,
    "__getstate__": _state,
    "__setstate__": _set_state,
}

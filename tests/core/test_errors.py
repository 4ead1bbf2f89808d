"""The catalogue: each code occurs once, and each error survives encoding and decoding."""

import pickle

import pytest

from tms.core.errors import InternalError, TmsError, TooLarge, class_of, error_of
from tms.core.errors.catalogue import CATALOGUE


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_an_error_survives_its_code_and_detail(code: str) -> None:
    error = error_of(code, {"topic": "t"})

    assert isinstance(error, class_of(code))
    assert (error.problem.code, error.detail) == (code, {"topic": "t"})
    assert error.status == CATALOGUE[code].status
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.problem, again.detail) == (type(error), error.problem, error.detail)


def test_texts_are_static_and_end_as_sentences() -> None:
    for problem in CATALOGUE.values():
        assert problem.message.endswith(".")
        assert "{" not in problem.message


def test_a_code_of_a_newer_server_is_kept_as_detail() -> None:
    error = error_of("from_the_future", {"x": 1})

    assert isinstance(error, InternalError)
    assert error.detail == {"code": "from_the_future", "x": 1}


def test_every_class_has_a_code_of_its_kind() -> None:
    def below(cls: type[TmsError]) -> list[type[TmsError]]:
        return [cls, *(sub for child in cls.__subclasses__() for sub in below(child))]

    for cls in below(TmsError):
        assert issubclass(class_of(cls.code), cls) or issubclass(cls, class_of(cls.code))


def test_an_error_says_what_and_where() -> None:
    assert str(TooLarge(request_bytes_max=10)) == (
        "The body is over the cap for a request. (request_bytes_max=10)"
    )

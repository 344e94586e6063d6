"""What AITER's sources tell: what a function takes, and which commit a release is of."""

import pytest

from mxtune.kernels.aiter_source import commit_in, signature_in


def test_the_source_tells_what_a_function_takes() -> None:
    source = "@guard(gen=fake)\ndef f(a, /, b: int | None = None, *, c: str = 'x', **d): ...\n"
    assert str(signature_in(source, "f")) == "(a, /, b: 'int | None' = 'None', *, " + (
        "c: 'str' = \"'x'\", **d)"
    )
    with pytest.raises(ValueError, match="no function g in its source"):
        signature_in(source, "g")


@pytest.mark.parametrize(
    ("text", "commit"),
    [
        ("0.1.7.post2.dev18", None),
        ("0.1.10.dev3+ge4048607a", "e4048607a"),
        ("0.1.10.dev3+ge4048607a.d20260822", "e4048607a"),
        ('{"vcs_info": {"commit_id": "' + "ab" * 20 + '", "vcs": "git"}}', "ab" * 20),
    ],
)
def test_a_commit_is_read_from_a_version_or_an_installers_record(
    text: str, commit: str | None
) -> None:
    assert commit_in(text) == commit

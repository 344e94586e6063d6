"""A timing regime is named in words; what is not one is refused."""

import pytest

from mxtune.configs.errors import ConfigError
from mxtune.configs.regimes import Regime


@pytest.mark.parametrize(
    ("text", "caches", "launching"),
    [
        ("cold", "cold", "eager"),
        ("hot-graph", "hot", "graph"),
        ("rotating eager", "rotating", "eager"),
        ("graph-rotating", "rotating", "graph"),
        ("graph", "cold", "graph"),
        ("eager", "cold", "eager"),
        ("  hot  -  eager ", "hot", "eager"),
    ],
)
def test_a_regime_is_read_from_its_words(text: str, caches: str, launching: str) -> None:
    regime = Regime.parse(text)
    assert (regime.caches, regime.launching) == (caches, launching)


@pytest.mark.parametrize(
    "text",
    ["warm", "cold-hot", "cold-cold", "eager-graph", "cold-eager-eager", "Cold", "colder", "", "-"],
)
def test_what_is_no_regime_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Regime.parse(text)
    assert str(caught.value) == (
        f"{text!r}: not a regime; one of cold, rotating, hot, "
        "with -eager or -graph, such as cold-eager"
    )


def test_a_regime_is_cold_and_eager_unless_told() -> None:
    assert Regime() == Regime("cold", "eager")


@pytest.mark.parametrize(
    "name",
    ["cold eager", "cold graph", "rotating eager", "rotating graph", "hot eager", "hot graph"],
)
def test_a_regime_is_shown_as_it_is_read(name: str) -> None:
    assert str(Regime.parse(name)) == name

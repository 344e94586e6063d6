"""Where AITER's ASM kernels may be used: rules for each kernel, as emulating it gave them.

The rules are data, `asm/<arch>.yaml`, written by ``mxtune verify --emulate --asm all``. A shape is
legal for a kernel if it meets every rule. One that it does not meet makes it illegal, or suspect:
to be tried on hardware, where the gate decides, and never chosen on other evidence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, get_args

from mxtune.configs.devices import bare_arch
from mxtune.configs.errors import ConfigError
from mxtune.configs.shapes import Shape

Grade = Literal["legal", "suspect", "illegal"]
GRADES: tuple[Grade, ...] = get_args(Grade)  # from best to worst

Need = Literal[
    "m_multiple",  # M is a multiple of the value
    "n_multiple",
    "k_multiple",
    "k_at_least",
    "log2_k_split_at_most",
    "k_share_at_least",  # K of one split, where K is split
    "never",
]
NEEDS: tuple[Need, ...] = get_args(Need)


@dataclass(frozen=True, slots=True)
class Legality:
    """A grade and why; no reason for ``legal``."""

    grade: Grade
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AsmRule:
    """What a launch must meet, and the grade of one that does not."""

    need: Need
    value: int
    grade: Grade
    reason: str
    evidence: str

    def __post_init__(self) -> None:
        if self.need not in NEEDS or self.grade not in GRADES[1:]:
            raise ConfigError(f"no rule for ASM kernels: {self.need} {self.value}, {self.grade}")

    def met(self, shape: Shape, log2_k_split: int) -> bool:
        """Whether a launch meets this rule."""
        return _MET[self.need](shape, log2_k_split, self.value)


_MET: Mapping[Need, Callable[[Shape, int, int], bool]] = {
    "m_multiple": lambda shape, _, value: shape.m % value == 0,
    "n_multiple": lambda shape, _, value: shape.n % value == 0,
    "k_multiple": lambda shape, _, value: shape.k % value == 0,
    "k_at_least": lambda shape, _, value: shape.k >= value,
    "log2_k_split_at_most": lambda _, split, value: split <= value,
    "k_share_at_least": lambda shape, split, value: not split or shape.k >> split >= value,
    "never": lambda _, __, ___: False,
}


@dataclass(frozen=True, slots=True)
class AsmFacts:
    """What emulation told of one kernel."""

    name: str
    label: str
    digest: str  # of the object it was found with: the first 16 digits of its sha256
    alpha: str  # honoured or ignored
    beta: str
    rules: tuple[AsmRule, ...]


@dataclass(frozen=True, slots=True)
class AsmRules:
    """Every kernel's rules."""

    made: Mapping[str, str]
    kernels: tuple[AsmFacts, ...]

    def facts(self, kernel: str) -> AsmFacts | None:
        """Return what is known of a kernel, None for an unknown one."""
        return next((facts for facts in self.kernels if facts.name == kernel), None)

    def grade(self, kernel: str, shape: Shape, log2_k_split: int = 0) -> Legality:
        """Judge a launch: the worst grade of the rules that it does not meet."""
        facts = self.facts(kernel)
        if facts is None:
            return Legality("suspect", f"{kernel} has not been emulated")
        broken = [rule for rule in facts.rules if not rule.met(shape, log2_k_split)]
        if not broken:
            return Legality("legal")
        worst = max(broken, key=lambda rule: GRADES.index(rule.grade))
        return Legality(worst.grade, f"{facts.label}: {worst.reason}")


def load_asm_rules(arch: str = "gfx950") -> AsmRules:
    """Read the rules for the kernels of ``arch``."""
    name = f"{bare_arch(arch)}.yaml"
    folder = files("mxtune.configs") / "asm"
    if name not in {entry.name for entry in folder.iterdir()}:
        raise ConfigError(f"there are no rules for ASM kernels of {arch!r}")
    return asm_rules_from((folder / name).read_text("utf-8"))


def asm_rules_from(text: str) -> AsmRules:
    """Read rules from the text of a file."""
    import yaml

    values: dict[str, Any] = yaml.safe_load(text)
    return AsmRules(values["made"], tuple(_facts(entry) for entry in values["kernels"]))


def _facts(entry: Mapping[str, Any]) -> AsmFacts:
    plain: dict[str, Any] = dict(entry)
    plain["rules"] = tuple(AsmRule(**rule) for rule in entry["rules"])
    return AsmFacts(**plain)

"""How optimizers and designs are called and coloured, the same in every figure, table and report."""

from __future__ import annotations

from hashlib import sha256

DESIGN_LABELS = {
    "de": "DE",
    "de-sobol": "DE (Sobol candidates)",
    "p-greedy": "P-greedy",
    "p-greedy-naive": "P-greedy (naive)",
    "lhs": "LHS",
    "uniform": "Uniform",
}

# The three of the house are warm, Gaussian processes blue, trees green, other kernel methods brown and pink; what the
# paper does not have is dashed.
_STYLES: dict[str, tuple[str, str]] = {
    "boke": ("#d7301f", "solid"),
    "boke+": ("#f28e2b", "solid"),
    "default": ("#7f0000", "dashed"),
    "gp-ei": ("#08519c", "solid"),
    "gp-ucb": ("#4fa3d9", "solid"),
    "tpe": ("#6a51a3", "solid"),
    "bore": ("#1b7837", "solid"),
    "lfbo": ("#7fbf5a", "solid"),
    "kr-ucb": ("#8c6d31", "solid"),
    "pseudo-bo": ("#d667a8", "solid"),
    "cma": ("#222222", "solid"),
    "rs": ("#9a9a9a", "solid"),
    "turbo-enn": ("#17a2a2", "dashed"),
    "optuna-gp": ("#08519c", "dashed"),
    "hebo": ("#4fa3d9", "dashed"),
    "smac": ("#1b7837", "dashed"),
    "glis": ("#8c6d31", "dashed"),
    "skopt": ("#c9a400", "dashed"),
    "de": ("#d7301f", "solid"),
    "de-sobol": ("#f28e2b", "dashed"),
    "p-greedy": ("#08519c", "solid"),
    "p-greedy-naive": ("#4fa3d9", "dashed"),
    "lhs": ("#6a51a3", "solid"),
    "uniform": ("#9a9a9a", "solid"),
}
_ORDER = {name: i for i, name in enumerate(_STYLES)}


def label(name: str) -> str:
    """What a reader sees instead of the name in the experiment file."""
    from boke_bench.baselines import LABELS

    return LABELS.get(name) or DESIGN_LABELS.get(name) or name.rpartition(":")[2]


def colour(name: str) -> str:
    """A hexadecimal colour; optimizers from outside get one from their name."""
    if name in _STYLES:
        return _STYLES[name][0]
    hue = sha256(name.encode()).digest()
    return "#" + "".join(f"{40 + byte % 140:02x}" for byte in hue[:3])


def dashed(name: str) -> bool:
    """Whether the line is broken: what the paper does not have."""
    return _STYLES.get(name, ("", "dashed"))[1] == "dashed"


def sorted_names(names: list[str]) -> list[str]:
    """In the order of legends: the house first, random search last, then the extras and strangers."""
    return sorted(names, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))

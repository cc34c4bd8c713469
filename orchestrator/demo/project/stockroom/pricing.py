"""What a quantity of something costs: quantity discount, tax, rounding. All amounts are whole cents."""

from __future__ import annotations

from dataclasses import dataclass

STANDARD_TAX_PERCENT = 19
REDUCED_TAX_PERCENT = 7


@dataclass(frozen=True)
class Tier:
    """From this quantity on, this discount applies to the whole line."""

    from_quantity: int
    percent: int


TIERS = (
    Tier(from_quantity=10, percent=5),
    Tier(from_quantity=50, percent=10),
    Tier(from_quantity=200, percent=15),
)


def discount_percent(quantity: int) -> int:
    """The discount for a quantity: that of the highest tier it reaches."""
    if quantity < 1:
        raise ValueError("a quantity is at least 1")
    best = 0
    for tier in TIERS:
        if quantity > tier.from_quantity:
            best = tier.percent
    return best


def percent_of(cents: int, percent: int) -> int:
    """A share of an amount, half a cent rounded up."""
    return (cents * percent + 50) // 100


def net_price(unit_cents: int, quantity: int) -> int:
    """A line's price without tax, discount taken off."""
    full = unit_cents * quantity
    return full - percent_of(full, discount_percent(quantity))


def tax(net_cents: int, *, reduced: bool = False) -> int:
    """The tax on a net amount."""
    return percent_of(net_cents, REDUCED_TAX_PERCENT if reduced else STANDARD_TAX_PERCENT)


def gross_price(unit_cents: int, quantity: int, *, reduced: bool = False) -> int:
    """A line's price with tax."""
    net = net_price(unit_cents, quantity)
    return net + tax(net, reduced=reduced)


def format_cents(cents: int) -> str:
    """`123456` as `1,234.56`."""
    sign = "-" if cents < 0 else ""
    whole, rest = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{rest:02d}"

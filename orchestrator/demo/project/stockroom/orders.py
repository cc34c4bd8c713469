"""One order, from draft to shipped."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from stockroom.catalog import Catalog
from stockroom.inventory import Inventory
from stockroom.pricing import gross_price


class State(Enum):
    """Where an order stands."""

    DRAFT = "draft"
    PLACED = "placed"
    SHIPPED = "shipped"
    CANCELLED = "cancelled"


class WrongState(Exception):
    """The step does not fit where the order stands."""


@dataclass
class Order:
    """What one customer wants."""

    customer: str
    lines: dict[str, int] = field(default_factory=dict)
    state: State = State.DRAFT

    def add(self, sku: str, quantity: int = 1) -> None:
        """Add to a draft; the same SKU adds up."""
        self._expect(State.DRAFT)
        if quantity < 1:
            raise ValueError("a quantity is at least 1")
        self.lines[sku] = self.lines.get(sku, 0) + quantity

    def total(self, catalog: Catalog) -> int:
        """Price of all lines with tax, in cents."""
        products = [(catalog.get(sku), quantity) for sku, quantity in self.lines.items()]
        return sum(
            gross_price(product.unit_cents, quantity, reduced=product.reduced_tax)
            for product, quantity in products
        )

    def place(self, inventory: Inventory) -> None:
        """Reserve everything; the order stays a draft where something is short."""
        self._expect(State.DRAFT)
        inventory.reserve(self.lines)
        self.state = State.PLACED

    def ship(self, inventory: Inventory) -> None:
        """Hand the goods out."""
        self._expect(State.PLACED)
        inventory.ship(self.lines)
        self.state = State.SHIPPED

    def cancel(self, inventory: Inventory) -> None:
        """Give up a draft or a placed order."""
        if self.state is State.PLACED:
            inventory.release(self.lines)
        else:
            self._expect(State.DRAFT)
        self.state = State.CANCELLED

    def _expect(self, state: State) -> None:
        if self.state is not state:
            raise WrongState(f"the order is {self.state.value}, not {state.value}")

"""How many of each product are on the shelf, and how many of those are promised to somebody."""

from __future__ import annotations

from collections.abc import Mapping


class OutOfStock(Exception):
    """Fewer are free than were asked for."""

    def __init__(self, sku: str, asked: int, free: int) -> None:
        super().__init__(f"{sku}: {asked} asked for, {free} free")
        self.sku = sku
        self.asked = asked
        self.free = free


class Inventory:
    """Stock on hand and reservations, by SKU."""

    def __init__(self, on_hand: Mapping[str, int] | None = None) -> None:
        self._on_hand: dict[str, int] = {}
        self._reserved: dict[str, int] = {}
        for sku, count in (on_hand or {}).items():
            self.restock(sku, count)

    def on_hand(self, sku: str) -> int:
        """How many are on the shelf, promised or not."""
        return self._on_hand.get(sku, 0)

    def free(self, sku: str) -> int:
        """How many can still be promised."""
        return self.on_hand(sku) - self._reserved.get(sku, 0)

    def restock(self, sku: str, count: int) -> None:
        """Put more on the shelf."""
        _check_count(sku, count)
        self._on_hand[sku] = self.on_hand(sku) + count

    def reserve(self, wanted: Mapping[str, int]) -> None:
        """Promise everything in `wanted`, or, where one is short, nothing of it.

        Raises OutOfStock for the first product of which too few are free.
        """
        for sku, count in wanted.items():
            _check_count(sku, count)
            if self.free(sku) < count:
                raise OutOfStock(sku, count, self.free(sku))
            self._reserved[sku] = self._reserved.get(sku, 0) + count

    def release(self, reserved: Mapping[str, int]) -> None:
        """Take a promise back."""
        for sku, count in reserved.items():
            self._take_reserved(sku, count)

    def ship(self, reserved: Mapping[str, int]) -> None:
        """Hand out what was promised."""
        for sku, count in reserved.items():
            self._take_reserved(sku, count)
            self._on_hand[sku] -= count

    def _take_reserved(self, sku: str, count: int) -> None:
        _check_count(sku, count)
        if self._reserved.get(sku, 0) < count:
            raise ValueError(f"{sku}: {count} were never reserved")
        self._reserved[sku] -= count


def _check_count(sku: str, count: int) -> None:
    if count < 1:
        raise ValueError(f"{sku}: a count is at least 1")

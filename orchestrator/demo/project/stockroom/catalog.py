"""Products and how to find them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


class UnknownProduct(KeyError):
    """No product has this SKU."""


@dataclass(frozen=True)
class Product:
    """One thing that can be sold."""

    sku: str
    name: str
    unit_cents: int
    reduced_tax: bool = False

    def __post_init__(self) -> None:
        if not self.sku:
            raise ValueError("a product needs a SKU")
        if self.unit_cents < 0:
            raise ValueError(f"{self.sku}: a price cannot be negative")


class Catalog:
    """All products by SKU, in the order in which they were listed."""

    def __init__(self, products: Iterable[Product] = ()) -> None:
        self._products: dict[str, Product] = {}
        for product in products:
            self.add(product)

    def add(self, product: Product) -> None:
        """List a product; each SKU once."""
        if product.sku in self._products:
            raise ValueError(f"{product.sku} is listed already")
        self._products[product.sku] = product

    def get(self, sku: str) -> Product:
        """The product of a SKU."""
        try:
            return self._products[sku]
        except KeyError:
            raise UnknownProduct(sku) from None

    def search(self, words: str) -> list[Product]:
        """Products whose names contain every one of the words, whatever their case."""
        wanted = words.casefold().split()
        return [product for product in self if all(word in product.name.casefold() for word in wanted)]

    def __iter__(self) -> Iterator[Product]:
        return iter(self._products.values())

    def __len__(self) -> int:
        return len(self._products)

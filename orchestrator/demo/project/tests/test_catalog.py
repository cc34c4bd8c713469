import unittest

from stockroom.catalog import Catalog, Product, UnknownProduct

TEA = Product("TEA-1", "Green tea", 450)
POT = Product("POT-1", "Green pot", 2900)


class CatalogTest(unittest.TestCase):
    def test_finds_a_product_by_sku(self):
        self.assertEqual(Catalog([TEA, POT]).get("POT-1"), POT)

    def test_an_unknown_sku_is_an_error(self):
        with self.assertRaises(UnknownProduct):
            Catalog([TEA]).get("POT-1")

    def test_each_sku_is_listed_once(self):
        catalog = Catalog([TEA])
        with self.assertRaises(ValueError):
            catalog.add(TEA)

    def test_search_wants_every_word(self):
        catalog = Catalog([TEA, POT])
        self.assertEqual(catalog.search("GREEN"), [TEA, POT])
        self.assertEqual(catalog.search("green pot"), [POT])

    def test_a_price_cannot_be_negative(self):
        with self.assertRaises(ValueError):
            Product("X", "x", -1)


if __name__ == "__main__":
    unittest.main()

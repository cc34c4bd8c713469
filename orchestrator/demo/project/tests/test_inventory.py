import unittest

from stockroom.inventory import Inventory, OutOfStock


class InventoryTest(unittest.TestCase):
    def setUp(self):
        self.inventory = Inventory({"TEA-1": 40, "POT-1": 2})

    def test_what_is_reserved_is_no_longer_free(self):
        self.inventory.reserve({"TEA-1": 15})
        self.assertEqual(self.inventory.free("TEA-1"), 25)
        self.assertEqual(self.inventory.on_hand("TEA-1"), 40)

    def test_more_than_is_free_cannot_be_reserved(self):
        with self.assertRaises(OutOfStock) as caught:
            self.inventory.reserve({"POT-1": 3})
        self.assertEqual((caught.exception.asked, caught.exception.free), (3, 2))

    def test_where_one_product_is_short_nothing_is_reserved(self):
        with self.assertRaises(OutOfStock):
            self.inventory.reserve({"TEA-1": 10, "POT-1": 3})
        self.assertEqual(self.inventory.free("TEA-1"), 40)
        self.assertEqual(self.inventory.free("POT-1"), 2)

    def test_released_stock_is_free_again(self):
        self.inventory.reserve({"POT-1": 2})
        self.inventory.release({"POT-1": 2})
        self.assertEqual(self.inventory.free("POT-1"), 2)

    def test_shipped_stock_leaves_the_shelf(self):
        self.inventory.reserve({"POT-1": 1})
        self.inventory.ship({"POT-1": 1})
        self.assertEqual(self.inventory.on_hand("POT-1"), 1)
        self.assertEqual(self.inventory.free("POT-1"), 1)

    def test_only_what_was_reserved_can_be_shipped(self):
        with self.assertRaises(ValueError):
            self.inventory.ship({"POT-1": 1})


if __name__ == "__main__":
    unittest.main()

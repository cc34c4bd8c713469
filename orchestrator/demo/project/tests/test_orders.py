import unittest

from stockroom.catalog import Catalog, Product
from stockroom.inventory import Inventory, OutOfStock
from stockroom.orders import Order, State, WrongState


class OrderTest(unittest.TestCase):
    def setUp(self):
        self.catalog = Catalog([Product("TEA-1", "Green tea", 450, reduced_tax=True)])
        self.inventory = Inventory({"TEA-1": 40})
        self.order = Order(customer="Ada")

    def test_the_same_product_adds_up(self):
        self.order.add("TEA-1", 2)
        self.order.add("TEA-1")
        self.assertEqual(self.order.lines, {"TEA-1": 3})

    def test_the_total_includes_tax(self):
        self.order.add("TEA-1", 2)
        self.assertEqual(self.order.total(self.catalog), 963)

    def test_an_order_is_placed_and_shipped(self):
        self.order.add("TEA-1", 4)
        self.order.place(self.inventory)
        self.order.ship(self.inventory)
        self.assertIs(self.order.state, State.SHIPPED)
        self.assertEqual(self.inventory.on_hand("TEA-1"), 36)

    def test_an_order_that_cannot_be_filled_stays_a_draft(self):
        self.order.add("TEA-1", 41)
        with self.assertRaises(OutOfStock):
            self.order.place(self.inventory)
        self.assertIs(self.order.state, State.DRAFT)

    def test_cancelling_gives_the_stock_back(self):
        self.order.add("TEA-1", 4)
        self.order.place(self.inventory)
        self.order.cancel(self.inventory)
        self.assertEqual(self.inventory.free("TEA-1"), 40)

    def test_what_is_shipped_cannot_be_cancelled(self):
        self.order.add("TEA-1")
        self.order.place(self.inventory)
        self.order.ship(self.inventory)
        with self.assertRaises(WrongState):
            self.order.cancel(self.inventory)


if __name__ == "__main__":
    unittest.main()

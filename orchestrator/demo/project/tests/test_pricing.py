import unittest

from stockroom.pricing import discount_percent, format_cents, gross_price, net_price, tax


class DiscountTest(unittest.TestCase):
    def test_small_quantities_have_none(self):
        self.assertEqual(discount_percent(1), 0)
        self.assertEqual(discount_percent(9), 0)

    def test_a_tier_begins_at_its_own_quantity(self):
        self.assertEqual(discount_percent(10), 5)
        self.assertEqual(discount_percent(50), 10)
        self.assertEqual(discount_percent(200), 15)

    def test_a_tier_holds_up_to_the_next(self):
        self.assertEqual(discount_percent(49), 5)
        self.assertEqual(discount_percent(199), 10)
        self.assertEqual(discount_percent(5000), 15)

    def test_nothing_cannot_be_bought(self):
        with self.assertRaises(ValueError):
            discount_percent(0)


class PriceTest(unittest.TestCase):
    def test_ten_of_something_cost_five_percent_less(self):
        self.assertEqual(net_price(200, 10), 1900)

    def test_half_a_cent_is_rounded_up(self):
        self.assertEqual(tax(50, reduced=True), 4)

    def test_gross_is_net_and_tax(self):
        self.assertEqual(gross_price(1000, 1), 1190)
        self.assertEqual(gross_price(1000, 1, reduced=True), 1070)

    def test_amounts_are_shown_with_separators(self):
        self.assertEqual(format_cents(123456), "1,234.56")
        self.assertEqual(format_cents(-5), "-0.05")


if __name__ == "__main__":
    unittest.main()

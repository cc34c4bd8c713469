import unittest
from datetime import date

from stockroom.invoices import Invoice, due_end_of_next_month, due_in_days, late_fee, months_late, overdue


def invoice(issued, number="R-1", cents=10_000):
    return Invoice(number, issued, cents)


class DueTest(unittest.TestCase):
    def test_due_in_days_crosses_months(self):
        self.assertEqual(due_in_days(invoice(date(2024, 1, 25))), date(2024, 2, 8))

    def test_due_at_the_end_of_the_next_month(self):
        self.assertEqual(due_end_of_next_month(invoice(date(2023, 1, 31))), date(2023, 2, 28))
        self.assertEqual(due_end_of_next_month(invoice(date(2024, 1, 31))), date(2024, 2, 29))

    def test_a_december_invoice_is_due_in_january_of_the_next_year(self):
        self.assertEqual(due_end_of_next_month(invoice(date(2023, 12, 5))), date(2024, 1, 31))


class LateTest(unittest.TestCase):
    def test_nothing_is_late_on_the_due_date(self):
        self.assertEqual(months_late(date(2024, 1, 31), date(2024, 1, 31)), 0)

    def test_each_month_begun_costs_two_percent(self):
        due = date(2024, 1, 10)
        self.assertEqual(late_fee(invoice(date(2023, 12, 27)), due, date(2024, 1, 11)), 200)
        self.assertEqual(late_fee(invoice(date(2023, 12, 27)), due, date(2024, 3, 11)), 600)

    def test_overdue_lists_the_oldest_first(self):
        old, new = invoice(date(2024, 1, 2), "R-1"), invoice(date(2024, 2, 2), "R-2")
        fresh = invoice(date(2024, 5, 2), "R-3")
        self.assertEqual(overdue([new, fresh, old], date(2024, 5, 20)), [old, new])

    def test_a_december_invoice_is_not_overdue_before_the_end_of_january(self):
        december = invoice(date(2023, 12, 5))
        self.assertEqual(overdue([december], date(2024, 1, 15)), [])


if __name__ == "__main__":
    unittest.main()

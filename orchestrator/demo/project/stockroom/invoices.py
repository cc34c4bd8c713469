"""Payment terms: when an invoice is due, and what it costs to be late."""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date, timedelta

from stockroom.pricing import percent_of

LATE_FEE_PERCENT = 2
"""Of the amount, for each month begun after the due date."""


@dataclass(frozen=True)
class Invoice:
    """An amount owed since a day."""

    number: str
    issued: date
    cents: int


def due_in_days(invoice: Invoice, days: int = 14) -> date:
    """Due a number of days after issue."""
    return invoice.issued + timedelta(days=days)


def due_end_of_next_month(invoice: Invoice) -> date:
    """Due on the last day of the month after the one of issue."""
    year, month = invoice.issued.year, invoice.issued.month + 1
    if month > 12:
        month = 1
    last_day = calendar.monthrange(year, month)[1]
    return date(year, month, last_day)


def months_late(due: date, today: date) -> int:
    """How many months have begun since the due date; 0 while there is time."""
    if today <= due:
        return 0
    months = (today.year - due.year) * 12 + today.month - due.month
    return months + 1 if today.day > due.day else months


def late_fee(invoice: Invoice, due: date, today: date) -> int:
    """What being late costs up to today, in cents."""
    return percent_of(invoice.cents, LATE_FEE_PERCENT * months_late(due, today))


def overdue(invoices: list[Invoice], today: date) -> list[Invoice]:
    """Invoices on end-of-next-month terms that are past due, the oldest first."""
    late = [invoice for invoice in invoices if due_end_of_next_month(invoice) < today]
    return sorted(late, key=lambda invoice: (invoice.issued, invoice.number))

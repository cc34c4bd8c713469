"""A small shop's stock, prices, orders and invoices. Import the module you need."""

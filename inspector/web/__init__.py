"""What every page shares: access, forms, the subject of a page, responses and twins, logs. What only one page needs
is in that page's folder."""

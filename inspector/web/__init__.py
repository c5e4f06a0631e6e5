"""What every page shares: access, forms, the subject of a page, responses and twins, logs. What one page alone needs
lies in its own folder."""

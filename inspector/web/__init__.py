"""What every page shares: access, forms, responses, markdown, differences."""

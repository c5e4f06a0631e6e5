"""Pages of codebooks and their versions, with the forms that change a draft."""

"""What a design can find, before it runs and after."""

"""What a design can find out, before it runs and after."""

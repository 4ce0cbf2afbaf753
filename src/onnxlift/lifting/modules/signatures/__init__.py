"""What modules are passed and give back."""

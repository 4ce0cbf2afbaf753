"""From the normal form to the simplest graph that means the same. Each step is optional; inputs and outputs stay."""

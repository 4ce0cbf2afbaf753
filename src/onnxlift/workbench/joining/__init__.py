"""Join two models into one: what is connected, what must be renamed, what is shared. `merge` is made of these parts."""
